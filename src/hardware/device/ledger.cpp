// SPDX-License-Identifier: Apache-2.0
#include "sft/device/ledger.hpp"

#include <numeric>

namespace sft::device {

const char* name_of(Label label) {
  static constexpr std::array<const char*, num_labels> names = {
      "parameters", "gradients",     "optimizer", "unit buffers", "activations",
      "workspace",  "communication", "batches",   "snapshot",     "process"};
  return names[static_cast<std::size_t>(label)];
}

std::size_t Ledger::bytes(Label label, Space space) const { return bytes_[index_of(label)][index_of(space)]; }

std::size_t Ledger::bytes(Label label) const {
  const Spaces& spaces = bytes_[index_of(label)];
  return std::accumulate(spaces.begin(), spaces.end(), std::size_t{0});
}

std::size_t Ledger::node_bytes(Kind kind) const {
  std::size_t sum = 0;
  for (const Spaces& spaces : bytes_) {
    for (const Space space : {Space::device, Space::pinned, Space::host}) {
      if (is_node_memory(kind, space)) sum += spaces[index_of(space)];
    }
  }
  return sum;
}

std::size_t Ledger::total_bytes() const {
  std::size_t sum = 0;
  for (const Spaces& spaces : bytes_) sum = std::accumulate(spaces.begin(), spaces.end(), sum);
  return sum;
}

}  // namespace sft::device
