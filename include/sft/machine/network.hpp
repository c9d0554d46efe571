// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a node's network promises, to compare with what is reached.

#include <filesystem>
#include <string>
#include <vector>

namespace sft::machine {

/// The network adapters of this node that have a link, each with the rate that Linux gives for it: "mlx5_0 400 Gb/s (4X
/// NDR)" for InfiniBand and RoCE, which come first, "eth0 25 Gb/s" for Ethernet. Those whose rate is not known, such as
/// virtual ones, are left out. `root` is where /sys is looked for; only tests have another one.
[[nodiscard]] std::vector<std::string> network_adapters(const std::filesystem::path& root = "/");

}  // namespace sft::machine
