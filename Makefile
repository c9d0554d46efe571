# SPDX-License-Identifier: Apache-2.0
# One command each; `make help` lists them.
PRESET ?= release
BUILD := build/$(PRESET)
PREFIX ?= /usr/local
# All cores, also where OMP_NUM_THREADS is set, which nproc would answer with.
JOBS ?= $(shell env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc 2>/dev/null || echo 2)
# Halves of a core: two tests of several ranks at a time, and one that waits. That is more than 2 cores have, and keeps them
# busy while ranks wait for one another and processes start.
TEST_JOBS ?= 9
# GPUs to compile for, see SFT_CUDA_ARCHS in cmake/SftCuda.cmake: `one`, `all` or a list. What is installed is for all.
CUDA_ARCHS ?=
CONFIGURE := cmake --preset $(PRESET) $(if $(CUDA_ARCHS),-DSFT_CUDA_ARCHS="$(CUDA_ARCHS)")

# Debian and Ubuntu names of everything that the build, the tests and the demo use. oneDNN's CMake package asks for
# OpenCL's headers.
PACKAGES := g++ cmake ninja-build \
  libopenmpi-dev openmpi-bin libhdf5-openmpi-dev \
  libboost-program-options-dev libboost-test-dev libdnnl-dev liblapacke-dev libblas-dev ocl-icd-opencl-dev nlohmann-json3-dev libxxhash-dev \
  libicu-dev libonig-dev libfmt-dev libprotozero-dev libzstd-dev libedit-dev liburing-dev libyaml-cpp-dev \
  wordnet-base python3-h5py python3-matplotlib shellcheck
# What only tests use: Lmod reads the installed modulefiles, QEMU is a processor without AVX, the documentation has
# recipes with h5dump, strace counts what programs read, jq is named by refusals of records.
TEST_PACKAGES := lmod qemu-user hdf5-tools strace jq
SLURM_PACKAGES := slurm-wlm munge procps
MPICH_PACKAGES := libmpich-dev mpich libhdf5-mpich-dev
DOCS_PACKAGES := python3-sphinx python3-myst-parser furo doxygen
STYLE_PACKAGES := clang clang-format clang-tidy libclang-rt-dev libomp-dev

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
.PHONY: check build configure build-tests tools device-archive deps cudnn-frontend test-deps slurm-deps demo install install-dev deb test test-quick test-all test-asan test-asan-gpu test-tsan test-sanitizers \
  test-mpich test-mutations torture fuzz fuzz-inputs style-deps format check-format tidy check-tidy docs clean help

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

configure:
	@for tool in cmake c++ mpirun; do \
	  command -v $$tool >/dev/null || { echo "$$tool is missing: run \`make deps\`"; exit 1; }; \
	done
	@$(CONFIGURE) || { echo "The configuration failed: if a package is missing, run \`make deps\`"; exit 1; }

ROOMS = $(shell sed -n 's/^\([a-z]*\):.*/\1/p' tests/layering/rooms.txt)
check: ## build and run the tests of one room, layering, and a small run on two ranks, in a minute or two: ROOM=optim
	@case " $(ROOMS) " in *" $(or $(ROOM),?) "*) ;; *) \
	  echo "$(if $(ROOM),there is no room $(ROOM),no room is named): make check ROOM=NAME with one of"; \
	  echo "$(ROOMS)" | fold -s -w 100 | sed 's/^/  /'; exit 2;; esac
	@[ -e $(BUILD)/CMakeCache.txt ] || $(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target check-$(ROOM)
	@$(CTEST) -R '^(unit_$(ROOM)(_.*)?|layering|trainer_smoke)$$'

build: configure ## compile the programs; leaves ./sft and ./sft-* here
	@cmake --build $(BUILD) --parallel $(JOBS) --target programs
	@ln -sfn $(BUILD)/bin/sft $(BUILD)/bin/sft-* .

build-tests: build
	@cmake --build $(BUILD) --parallel $(JOBS)

tools: build ## build what no test runs: benchmarks, peers of other libraries, programs for a GPU
	@cmake --build $(BUILD) --parallel $(JOBS) --target tools

device-archive: tools ## what tests/device needs on another machine, build/device_test.tar.xz; fails where it is too large to send
	@tests/device/run.sh --pack build/device_test.tar.xz $(BUILD)

deps: ## install what is missing through apt (Debian, Ubuntu), or list it
	$(call install,$(PACKAGES))

# The version that the tests are of.
CUDNN_FRONTEND := nvidia-cudnn-frontend==1.32.0
cudnn-frontend: ## fetch the headers for device.attention = cudnn from PyPI to build/cudnn-frontend; build again behind it
	@mkdir -p build/cudnn-frontend
	@cd build/cudnn-frontend && rm -rf include *.whl && python3 -m pip download --quiet --no-deps $(CUDNN_FRONTEND) && \
	  python3 -m zipfile -e *.whl . && test -f include/cudnn_frontend.h && echo "headers of cuDNN's frontend: $$PWD/include"

test-deps:
	$(call install,$(PACKAGES) $(TEST_PACKAGES))

slurm-deps: ## install SLURM, with which tests/slurm tries the job templates
	$(call install,$(SLURM_PACKAGES))

install: ## build for all GPUs and install: PREFIX=/usr/local, DESTDIR= for packagers
	@$(MAKE) --no-print-directory build CUDA_ARCHS=$(or $(CUDA_ARCHS),all)
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX)

install-dev: install ## the same, and the libraries and headers of the rooms as a CMake package
	@DESTDIR=$(DESTDIR) cmake --install $(BUILD) --prefix $(PREFIX) --component development

deb: ## a Debian package of this build: build/release/sft_*.deb
	@$(MAKE) --no-print-directory build CUDA_ARCHS=$(or $(CUDA_ARCHS),all)
	@cd $(BUILD) && cpack -G DEB

docs: ## the pages as a site, build/docs/html/index.html; a link that leads nowhere is an error
	$(call install,$(DOCS_PACKAGES))
	@rm -rf build/docs && mkdir -p build/docs/html
	@/usr/bin/python3 -m sphinx -q -W --keep-going -b html -d build/docs/doctrees -c docs/site . build/docs/html
	@(cat docs/site/Doxyfile; echo OUTPUT_DIRECTORY=build/docs/html) | doxygen -
	@echo "wrote build/docs/html/index.html"

demo: deps ## prepare text, train on 16 ranks, stop, resume, plot, generate; MODEL=FOLDER [DATA=FILE]: a pretrained one
	@$(MAKE) --no-print-directory build
	@$(if $(MODEL),inputs/demo/model.sh "$(MODEL)" $(if $(DATA),"$(DATA)"),inputs/demo/run.sh)

# Tiers of tests are labels: tests/SftTest.cmake says which test is in which.
CTEST := ctest --test-dir $(BUILD) -j $(TEST_JOBS) --output-on-failure

test: test-deps ## build and run the tests that a change has to pass
	@$(MAKE) --no-print-directory build-tests
	@$(CTEST) -L '^full$$'

test-quick: test-deps ## the quick ones of them: units, layering, few ranks
	@$(MAKE) --no-print-directory build-tests
	@$(CTEST) -L '^quick$$'

test-all: test-deps slurm-deps ## every test, also the long ones: more fuzz, every number of ranks, all GPUs, mutations, MPICH
	@$(MAKE) --no-print-directory build-tests tools CUDA_ARCHS=$(or $(CUDA_ARCHS),all)
	@$(CTEST)
	@$(MAKE) --no-print-directory test-sanitizers fuzz test-mpich test-mutations

# $(call sanitized,preset,label,targets): builds the tests with this label, and the targets, in the build of a sanitizer and
# runs the tests.
sanitized = @cmake --preset $(1) >/dev/null && cmake --build build/$(1) --parallel $(JOBS) --target $(2)-tests $(3) && \
	ctest --test-dir build/$(1) -j $(TEST_JOBS) --output-on-failure -L '^$(2)$$'

test-asan: test-deps style-deps ## what reads files, and whole steps, under AddressSanitizer and UndefinedBehaviorSanitizer
	$(call sanitized,asan,asan)

test-asan-gpu: test-deps style-deps ## the CUDA side on an emulated GPU under both sanitizers; needs CUDA's headers and compiler
	$(call sanitized,asan-gpu,asan-gpu)

test-tsan: test-deps style-deps ## loader, streams and signals under ThreadSanitizer
	$(call sanitized,tsan,tsan)

test-sanitizers: test-asan test-tsan test-asan-gpu ## these three, all programs by clang, and what they leave out to take less time
	$(call sanitized,asan,asan-nightly,programs)
	$(call sanitized,tsan,tsan-nightly)

# Of each of the other things there are CASES; SEED repeats what was random.
KILLS ?= 300
CASES ?= 20
RANKS ?= 2

torture: deps ## kill runs that save, fill and unplug their disk, stop and damage; KILLS=300 CASES=20 RANKS=2 SEED=
	@$(MAKE) --no-print-directory configure
	@cmake --build $(BUILD) --parallel $(JOBS) --target programs faults_save_disk_library tools_torture_clock
	@tests/tools/torture/torture.py $(BUILD) --kills $(KILLS) --cases $(CASES) --ranks $(RANKS) $(if $(SEED),--seed $(SEED))

# Each reader gets so many SECONDS; READERS are some of them, as tests/fuzz/run.py names them.
SECONDS ?= 60

# $(call fuzz,preset,program,options)
fuzz = @cmake --preset $(1) >/dev/null && cmake --build build/$(1) --parallel $(JOBS) --target $(2) && \
	tests/fuzz/run.py build/$(1) $(2) --seconds $(SECONDS) --jobs $(JOBS) $(3)

fuzz: test-deps style-deps ## libFuzzer under both sanitizers on all that reads files; SECONDS=60 each, READERS=
	$(call fuzz,fuzz,fuzz_all,$(if $(READERS),--only $(READERS)))

fuzz-inputs: test-deps style-deps ## the same on a quarter of the readers of what strangers give, the next one at each commit; in the build of test-asan
	$(call fuzz,asan,fuzz_inputs,--quarter $(shell git rev-list --count HEAD))

test-mutations: test-deps ## breaks the CUDA side in a hundred ways, one after the other, and sees that a test fails each time
	@tests/emulation/mutations/run.py

test-mpich: test-deps ## a part of the tests with MPICH in place of Open MPI
	$(call install,$(MPICH_PACKAGES))
	@JOBS=$(JOBS) tests/scripts/mpich.sh

style-deps:
	$(call install,$(STYLE_PACKAGES))

format: style-deps ## clang-format every source in place
	@clang-format -i $(SOURCES)

check-format: style-deps ## fails where clang-format would change a source, or one has no line of its licence
	@clang-format --dry-run --Werror $(SOURCES)
	@.ci/spdx --check

tidy: style-deps ## clang-tidy on every source of src/
	@printf '%s\n' $(filter src/%.cpp,$(SOURCES)) | .ci/tidy $(JOBS)

check-tidy: style-deps ## clang-tidy on what changed: .ci/changed says since when
	@.ci/changed | .ci/tidy $(JOBS) --warnings-as-errors='*'

clean: ## remove everything that was built
	rm -rf build
	find . -maxdepth 1 -type l \( -name sft -o -name 'sft-*' \) -delete

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "make %-15s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
