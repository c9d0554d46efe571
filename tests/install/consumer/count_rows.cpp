// SPDX-License-Identifier: Apache-2.0
// A program of another project: uses rooms that link MPI, HDF5 and oneDNN.

#include <iostream>

#include "sft/comm/session.hpp"
#include "sft/core/program.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rows/packed_dataset.hpp"

int main(int argc, char** argv) {
  return sft::comm::run_program(argc, argv, [argv](sft::comm::Session& session) {
    const sft::rows::PackedDataset dataset({argv[1]});
    std::cout << "sft " << sft::version() << ": " << session.world().size() << " rank, " << dataset.num_rows()
              << " rows, CPU backend built: " << sft::ops::is_built(sft::device::Kind::cpu) << '\n';
    return 0;
  });
}
