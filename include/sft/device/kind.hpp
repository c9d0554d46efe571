// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kind of processor a rank computes on, and the memories it works with.

namespace sft::device {

enum class Kind { cpu, cuda };

/// Where memory lies. `device`: what ops compute on; the host must not dereference a GPU's. `pinned`: the node's memory
/// that a GPU copies from and to without staging. `host`: the node's ordinary memory.
enum class Space { device, pinned, host };

/// Whether memory of `space` is part of the node's RAM: all but a GPU's own.
[[nodiscard]] constexpr bool is_node_memory(Kind kind, Space space) {
  return kind == Kind::cpu || space != Space::device;
}

}  // namespace sft::device
