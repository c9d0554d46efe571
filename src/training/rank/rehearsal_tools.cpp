// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/rehearsal_tools.hpp"

#include <vector>

#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/factory.hpp"
#include "sft/ops/null_backend.hpp"

namespace sft::rank {

namespace {

/// Moves nothing: where memory is only counted.
class NullMover final : public transfer::Mover {
 public:
  void read(std::size_t /*lane*/, const std::vector<transfer::Move>& /*moves*/) override {}
  void write(std::size_t /*lane*/, const std::vector<transfer::Move>& /*moves*/) override {}
  void finish(std::size_t /*lane*/, device::Stream& /*stream*/) override {}
  void reads_follow(std::size_t /*lane*/) override {}
  void reads_follow(device::Event& /*event*/) override {}
  void reads_follow_ops() override {}
  void ops_follow_writes() override {}
  void drain() noexcept override {}
};

}  // namespace

std::unique_ptr<ops::Backend> RehearsalTools::make_ops(device::Device& /*device*/, device::Stream& compute,
                                                       ops::AttentionKernels attention,
                                                       bool /*repeats_launches*/) const {
  switch (work_) {
    case Work::noted:
      return ops::make_product_counter(compute);
    case Work::listed:
      return ops::make_product_list(compute);
    case Work::attention:
      return ops::make_attention_list(compute, attention);
    case Work::counted:
      break;
  }
  return std::make_unique<ops::NullBackend>(compute);
}

std::unique_ptr<ops::Backend> RehearsalTools::make_step_ops(device::Device& device, device::Stream& stream) const {
  return make_ops(device, stream, ops::AttentionKernels::own, /*repeats_launches=*/false);
}

std::unique_ptr<transfer::Mover> RehearsalTools::make_mover(const model::DecoderBuffers& /*buffers*/,
                                                            const std::string& /*folder*/, device::Device& /*device*/,
                                                            device::Stream& /*compute*/) const {
  return std::make_unique<NullMover>();
}

}  // namespace sft::rank
