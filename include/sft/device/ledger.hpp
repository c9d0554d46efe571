// SPDX-License-Identifier: Apache-2.0
#pragma once
// The account of every byte a rank uses, by what it is for and where it lies. Exact for arenas; the process itself
// (code, libraries, the MPI library's own buffers) is entered once, as measured at start (machine/node.hpp).
//
// A plain table of numbers: planning fills one for any rank of any mesh from sizing arenas, without a device.

#include <array>
#include <cstddef>

#include "sft/device/kind.hpp"

namespace sft::device {

enum class Label {
  parameters,
  gradients,
  optimizer,
  unit_buffers,
  activations,
  workspace,
  communication,
  batches,
  snapshot,
  process
};
inline constexpr std::size_t num_labels = 10;
[[nodiscard]] const char* name_of(Label label);

class Ledger {
 public:
  void add(Label label, Space space, std::size_t bytes) { entry(label, space) += bytes; }
  /// Takes back what add() entered.
  void remove(Label label, Space space, std::size_t bytes) { entry(label, space) -= bytes; }

  [[nodiscard]] std::size_t bytes(Label label, Space space) const;
  /// Bytes of `label`, wherever they lie.
  [[nodiscard]] std::size_t bytes(Label label) const;
  /// Bytes in the node's own RAM, which all its ranks share (see is_node_memory).
  [[nodiscard]] std::size_t node_bytes(Kind kind) const;
  [[nodiscard]] std::size_t total_bytes() const;

 private:
  static constexpr std::size_t num_spaces = 3;
  using Spaces = std::array<std::size_t, num_spaces>;

  /// The number of a label or a space among all of its kind.
  static constexpr std::size_t index_of(auto name) { return static_cast<std::size_t>(name); }
  std::size_t& entry(Label label, Space space) { return bytes_[index_of(label)][index_of(space)]; }

  std::array<Spaces, num_labels> bytes_{};
};

}  // namespace sft::device
