#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Builds the program with MPICH and its HDF5 beside Open MPI, in build/mpich, and runs the tests that start ranks. MPICH's
# waiting ranks do not give way to others, so counts above the number of cores take long: 1, 2 and 4 ranks are run.
#
#   mpich.sh          on Debian, with libmpich-dev, mpich and libhdf5-mpich-dev installed
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
jobs=${JOBS:-$(env -u OMP_NUM_THREADS -u OMP_THREAD_LIMIT nproc)}

targets=(sft sft-prepare sft-inspect sft-generate mpi mpi_program reference equivalence trainer)
cmake -S . -B build/mpich -DCMAKE_BUILD_TYPE=Release -DSFT_CUDA=OFF \
  -DMPI_CXX_COMPILER="$(command -v mpicxx.mpich)" -DMPIEXEC_EXECUTABLE="$(command -v mpiexec.mpich)" \
  -DHDF5_C_COMPILER_EXECUTABLE="$(command -v h5pcc.mpich)"
cmake --build build/mpich --parallel "$jobs" --target "${targets[@]}"

if readelf -d build/mpich/bin/sft | grep -q 'libmpi\.so'; then
  echo "build/mpich/bin/sft is linked with Open MPI" >&2
  exit 1
fi
ctest --test-dir build/mpich -j 1 --output-on-failure --no-tests=error \
  -R '^(mpi_(comm|streams)_np[124]|mpi_program|reference_np[24]|equivalence_meshes_np4|trainer_resume|trainer_memory)$'
