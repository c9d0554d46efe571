// SPDX-License-Identifier: Apache-2.0
#pragma once
// A backend that computes nothing: for planning, over the addresses of sizing arenas.

#include "sft/ops/backend.hpp"

namespace sft::ops {

class NullBackend : public Backend {
 public:
  explicit NullBackend(device::Stream& stream) : stream_(stream) {}

  [[nodiscard]] device::Stream& stream() override { return stream_; }
  void set_workspace(Tensor /*workspace*/) override {}
  void run(const Call& /*call*/) override {}
  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& /*spans*/,
                                                              std::int64_t num_queries,
                                                              std::int64_t num_keys) override {
    return std::make_unique<AttentionPlan>(num_queries, num_keys);
  }

 private:
  device::Stream& stream_;
};

}  // namespace sft::ops
