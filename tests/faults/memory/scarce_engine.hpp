// SPDX-License-Identifier: Apache-2.0
#pragma once
// An Engine that is set up where one rank lacks something.

#include <cstdint>
#include <string>

#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/mesh/layout.hpp"

namespace sft::test {

/// What one rank lacks; the others lack nothing.
struct Scarcity {
  int rank = 0;
  std::int64_t failing_request = 0;  ///< of its device, counted while the engine is set up; 0: none
  bool has_windows = true;           ///< whether it can share memory with the ranks of its node
  bool has_file_space = true;        ///< whether it can write a file of more than a page
};

/// A small model for this mesh. With `offload_folder`, activations and moments lie in files there.
[[nodiscard]] config::ValidConfig scarce_config(const mesh::Layout& layout, const std::string& offload_folder);

/// Sets an engine up and takes it down again. Throws what its constructor throws. Collective over the world.
void set_engine_up(const config::ValidConfig& config, const Scarcity& scarcity, const comm::Session& session);

}  // namespace sft::test
