// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace sft::comm {

/// "Open MPI v4.1.4", the MPI library that this program was built with.
[[nodiscard]] std::string mpi_library();

}  // namespace sft::comm
