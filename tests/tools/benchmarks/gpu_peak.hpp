// SPDX-License-Identifier: Apache-2.0
#pragma once
// What NVIDIA's data sheets promise of a GPU.

#include <array>
#include <string>
#include <string_view>

namespace sft::bench {

/// Dense bf16 products with float32 sums, TFLOP/s, of the GPU whose name or description begins like one of these; 0 for
/// others. (Data sheets that give figures "with sparsity" promise half of them for dense matrices.)
[[nodiscard]] inline double peak_bf16_tflops(const std::string& description) {
  struct Entry {
    std::string_view name;
    double tflops;
  };
  // Longer names before those that they begin with.
  static constexpr std::array entries{
      Entry{"NVIDIA H200 NVL", 835.5},  Entry{"NVIDIA H200", 989.4}, Entry{"NVIDIA H100 PCIe", 756.5},
      Entry{"NVIDIA H100 NVL", 835.5},  Entry{"NVIDIA H100", 989.4}, Entry{"NVIDIA GH200", 989.4},
      Entry{"NVIDIA H800 PCIe", 756.5}, Entry{"NVIDIA H800", 989.4}, Entry{"NVIDIA H20", 148.0},
      Entry{"NVIDIA A100", 312.0},      Entry{"NVIDIA A800", 312.0}, Entry{"NVIDIA B200", 2250.0},
      Entry{"NVIDIA L40S", 362.1},
  };
  for (const Entry& entry : entries) {
    if (description.starts_with(entry.name)) return entry.tflops;
  }
  return 0.0;
}

}  // namespace sft::bench
