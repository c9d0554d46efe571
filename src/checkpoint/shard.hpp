#pragma once
// Shard files, and the state that goes in and out of them through a small staging buffer.

#include <cstdint>
#include <string>
#include <vector>

#include "header.hpp"

namespace sft::checkpoint {

/// Pinned host memory between files and the device.
class Staging {
 public:
  explicit Staging(device::Device& device);

  [[nodiscard]] float* data() const { return static_cast<float*>(block_.get()); }
  [[nodiscard]] static std::int64_t capacity_elements() { return capacity_bytes / sizeof(float); }

 private:
  static constexpr std::int64_t capacity_bytes = 1 << 20;
  device::Device::Block block_;
};

/// The tensors of `state` in the order of group_names.
[[nodiscard]] std::vector<Tensor> tensors_of(const State& state);

/// Writes PATH with the flat datasets /model, /exp_avg and /exp_avg_sq of the rank shard, synced; its size and
/// checksum.
[[nodiscard]] Shard write_shard(const std::string& folder, const std::string& name, const State& state,
                                device::Device& device, device::Stream& stream);

/// Refuses a shard that is missing or has another size.
void check_presence(const std::string& folder, const Shard& shard);
/// Refuses a shard that is missing or holds other bytes than were written.
void check_contents(const std::string& folder, const Shard& shard);

}  // namespace sft::checkpoint
