# SPDX-License-Identifier: Apache-2.0
# One command each; `make help` lists them.
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# One test of several ranks at a time, and beside it what needs one core: ranks wait for one another.
TEST_JOBS ?= 3

# Debian and Ubuntu names of everything that the build, the tests and the demo use. oneDNN's CMake package asks for
# OpenCL's headers.
PACKAGES := g++ cmake ninja-build \
  libopenmpi-dev openmpi-bin libhdf5-openmpi-dev \
  libboost-program-options-dev libboost-test-dev libdnnl-dev ocl-icd-opencl-dev nlohmann-json3-dev libxxhash-dev \
  libicu-dev libpcre2-dev libzstd-dev libedit-dev liburing-dev \
  wordnet-base python3-h5py python3-matplotlib shellcheck
# What only tests use: Lmod reads the installed modulefiles, QEMU is a processor without AVX.
TEST_PACKAGES := lmod qemu-user
MPICH_PACKAGES := libmpich-dev mpich libhdf5-mpich-dev
STYLE_PACKAGES := clang-format clang-tidy libomp-dev

SOURCES = $(shell git ls-files '*.cpp' '*.hpp' ':!tests/layering/bad_tree')
ROOT_RUN := $(filter 0,$(shell id -u))

# More ranks than cores share them politely (OMPI_: Open MPI 4, PRTE_: Open MPI 5); Open MPI asks root to confirm twice.
export OMPI_MCA_rmaps_base_oversubscribe := 1
export OMPI_MCA_mpi_yield_when_idle := 1
export OMPI_MCA_hwloc_base_binding_policy := none
export PRTE_MCA_rmaps_default_mapping_policy := :oversubscribe
export PRTE_MCA_hwloc_default_binding_policy := none
ifneq ($(ROOT_RUN),)
export OMPI_ALLOW_RUN_AS_ROOT := 1
export OMPI_ALLOW_RUN_AS_ROOT_CONFIRM := 1
endif
ifneq ($(shell command -v ninja),)
export CMAKE_GENERATOR ?= Ninja
endif

.DEFAULT_GOAL := build
.PHONY: build deps test-deps demo install test test-asan test-asan-gpu test-tsan test-mpich format tidy clean help

# $(call install,packages): installs those that are missing, and says so.
define install
	@missing=""; \
	if ! command -v apt-get >/dev/null; then \
	  echo "This is no Debian or Ubuntu. Install what these packages hold, by the names of your system:"; \
	  echo "  $(1)"; exit 0; \
	fi; \
	for package in $(1); do \
	  dpkg-query -W -f '$${db:Status-Status}' "$$package" 2>/dev/null | grep -qx installed || missing="$$missing $$package"; \
	done; \
	[ -n "$$missing" ] || exit 0; \
	echo "Installing through apt-get:$$missing"; \
	$(if $(ROOT_RUN),,sudo) apt-get update -q && \
	$(if $(ROOT_RUN),,sudo) env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $$missing
endef

build: ## compile the programs; leaves ./sft and ./sft-* here
	@for tool in cmake c++ mpirun; do \
	  command -v $$tool >/dev/null || { echo "$$tool is missing: run \`make deps\`"; exit 1; }; \
	done
	@cmake --preset $(PRESET) || { echo "The configuration failed: if a package is missing, run \`make deps\`"; exit 1; }
	@cmake --build $(BUILD) --parallel $(JOBS)
	@ln -sfn $(BUILD)/bin/sft $(BUILD)/bin/sft-* .

deps: ## install what is missing through apt (Debian, Ubuntu), or list it
	$(call install,$(PACKAGES))

test-deps:
	$(call install,$(PACKAGES) $(TEST_PACKAGES))

install: ## install what `make` built: PREFIX=/usr/local, DESTDIR= for packagers
	@[ -e $(BUILD)/bin/sft ] || { echo "Nothing is built yet: run \`make\` first"; exit 1; }
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

demo: deps ## prepare text, train on 16 ranks, stop, resume, plot, generate; MODEL=FOLDER [DATA=FILE]: a pretrained one
	@$(MAKE) --no-print-directory build
	@$(if $(MODEL),inputs/demo/model.sh "$(MODEL)" $(if $(DATA),"$(DATA)"),inputs/demo/run.sh)

test: test-deps ## build and run every test
	@$(MAKE) --no-print-directory build
	@ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure

# The parts of the tests that a sanitizer runs: what reads files and moves memory; what has threads and signals.
ASAN_TESTS := core_test config_parse_test config_files_test unit_io unit_text unit_jinja unit_data unit_checkpoint \
  unit_parallel unit_hub unit_model unit_optim unit_sequence unit_train ops_test faults_data device_cpu_test \
  device_gpus_test device_timeline_test mpi_group_test mpi_collectives_test mpi_host_collectives_test mpi_windows_test mpi_decoder_test \
  reference leakage evaluation
# What runs on an emulated GPU (tests/emulation), without the longest of them.
GPU_TESTS := emulation_runtime_test emulation_faults_test emulation_streams_test emulation_ops_test emulated_device \
  emulated_nccl_test emulated_cublaslt_test
TSAN_TESTS := comm_watchdog_test core_test unit_io unit_optim unit_text unit_data unit_train device_cpu_test mpi_streams_test \
  mpi_windows_test

# $(call sanitized,preset,tests): builds these tests and runs them, on 1, 2 and 4 ranks.
empty :=
sanitized = @cmake --preset $(1) >/dev/null && cmake --build build/$(1) --parallel $(JOBS) --target $(2) && \
	ctest --test-dir build/$(1) -j $(TEST_JOBS) --output-on-failure -R '^($(subst $(empty) $(empty),|,$(strip $(2))))(_np[124])?$$'

test-asan: test-deps ## a part of the tests under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call sanitized,asan,$(ASAN_TESTS))

test-asan-gpu: test-deps ## the CUDA side on an emulated GPU under both sanitizers; needs CUDA's headers and compiler
	$(call sanitized,asan-gpu,$(GPU_TESTS))

test-tsan: test-deps ## loader, streams and signals under ThreadSanitizer
	$(call sanitized,tsan,$(TSAN_TESTS))

test-mpich: test-deps ## a part of the tests with MPICH in place of Open MPI
	$(call install,$(MPICH_PACKAGES))
	@JOBS=$(JOBS) tests/scripts/mpich.sh

format: ## clang-format every source in place
	$(call install,clang-format)
	@clang-format -i $(SOURCES)

# clang has neither GCC's __builtin_shuffle nor all of its processor names.
GCC_ONLY := src/ops/cpu/isa.cpp $(wildcard src/ops/cpu/kernels/attention_*.cpp)

tidy: ## clang-tidy on every source of src/
	$(call install,$(STYLE_PACKAGES))
	@cmake --preset $(PRESET) >/dev/null
	@clang-tidy --quiet -p $(BUILD) --extra-arg=-Wno-unknown-warning-option $(filter-out $(GCC_ONLY),$(filter src/%.cpp,$(SOURCES)))

clean: ## remove everything that was built
	rm -rf build
	find . -maxdepth 1 -type l \( -name sft -o -name 'sft-*' \) -delete

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-13s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
