// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ops of a step, each by itself, over memory of its own: what a rank does of each kind in a second.

#include <chrono>
#include <functional>
#include <initializer_list>
#include <memory>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/simulator/rates.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::check {

/// How long the ranks of `world` go on with each thing that is measured.
struct Window {
  const comm::Group& world;
  double seconds;
  double share = 1;  ///< of a core, that a rank has

  /// Seconds of one `work` where all ranks do it at once, the mean over them, of the middle one of three windows:
  /// what disturbs a machine disturbs the steps of a run, too. Ranks that share cores do not begin and end together,
  /// and have more of a core while others wait: theirs is the processor's time, stretched to their share. `finish`
  /// waits for what was queued. Collective.
  [[nodiscard]] double seconds_of(const std::function<void()>& work, const std::function<void()>& finish) const;
};

/// Memory larger than caches, which is dealt out in turn: what a step touches once, as weights, gradients and moments,
/// has left them since the step before.
class ColdMemory {
 public:
  /// `bytes` of `dtype`, all 0.5.
  ColdMemory(device::Device& device, ops::Backend& ops, DType dtype, std::size_t bytes);

  /// A tensor of that dtype, of memory that was not dealt out for longest.
  [[nodiscard]] Tensor next(std::initializer_list<std::int64_t> shape);

 private:
  Tensor all_;
  device::Device::Block block_;
  std::size_t used_bytes_ = 0;
};

class OpTrial {
 public:
  OpTrial(device::Device& device, DType dtype, const Window& window);

  /// Fills in products, attention and passes. Collective.
  void measure(simulator::Rates& rates);

 private:
  using Work = std::function<void(ops::Backend&)>;

  [[nodiscard]] Tensor take(DType dtype, std::initializer_list<std::int64_t> shape);
  [[nodiscard]] Tensor integers(const std::vector<std::int32_t>& values);
  void reset();
  [[nodiscard]] double seconds_of(const Work& work) const;
  /// Bytes that a clocked backend counts for it.
  [[nodiscard]] static double bytes_of(const Work& work);

  void measure_products(simulator::Rates& rates);
  void measure_memory(simulator::Rates& rates);
  void measure_attention(simulator::Rates& rates);
  void measure_passes(simulator::Rates& rates, std::int64_t num_tokens);
  void measure_loss(simulator::Rates& rates, std::int64_t num_tokens);
  void measure_update(simulator::Rates& rates, std::int64_t num_elements);
  void add(simulator::Rates& rates, ops::Pass pass, const Work& work);

  device::Device& device_;
  const DType dtype_;
  const Window window_;
  const std::unique_ptr<device::Stream> stream_;
  const std::unique_ptr<ops::Backend> ops_;
  device::Device::Block memory_, workspace_, pinned_;
  std::size_t used_bytes_ = 0;
  ColdMemory weights_, sums_;  ///< in the dtype of computing, and in float32
};

}  // namespace sft::check
