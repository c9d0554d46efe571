// SPDX-License-Identifier: Apache-2.0
// Which calls are the same one: launches are repeated in place of calls whose key is the same, so every tensor of an op
// must be in its key.

#include <boost/test/unit_test.hpp>
#include <memory>
#include <set>
#include <string>

#include "checked_calls.hpp"
#include "ops/backends.hpp"
#include "sft/ops/null_backend.hpp"
#include "sft/simulator/clocked_device.hpp"

namespace sft::ops {

namespace {

using checked::Memory;
using checked::Op;
using checked::Tensors;

/// A backend that computes nothing, over a tape that records each chain when it comes for the first time.
class Recorded {
 public:
  /// Whether the call is recorded, twice in a chain, as one that has not come before.
  [[nodiscard]] bool is_new(const Op& op, const Tensors& tensors) {
    device::LaunchTape& tape = *stream_->tape();
    const std::int64_t before = tape.counts().recordings;
    device::defer_launches(&tape, [&] {
      for (int call = 0; call < 2; ++call) op.call(*backend_, tensors);
    });
    return tape.counts().recordings > before;
  }

 private:
  simulator::ClockedDevice device_{{.products = {{1, 1e9}, {1000, 1e9}},
                                    .attention_forward_flops_per_s = 1e9,
                                    .attention_backward_flops_per_s = 1e9,
                                    .memory_bytes_per_s = 1e9,
                                    .host_bytes_per_s = 1e9}};
  const std::unique_ptr<device::Stream> stream_ = device_.make_stream(device::Priority::compute);
  const std::unique_ptr<Backend> backend_ = repeated::make_backend(std::make_unique<NullBackend>(*stream_));
};

/// Of these the arguments differ from one micro-batch to the next, or they are no part of one.
const std::set<std::string> plain{"add_direction_squares",
                                  "add_uniform",
                                  "combine_rows",
                                  "combine_weights_backward",
                                  "cross_entropy_finish",
                                  "divide_by_norm",
                                  "expert_order",
                                  "fill_normal",
                                  "fill_uniform",
                                  "gather_tokens",
                                  "grouped_bias_gradient",
                                  "grouped_matmul",
                                  "grouped_weight_gradient",
                                  "raise_scales",
                                  "router_backward",
                                  "router_forward",
                                  "router_sums",
                                  "router_sums_backward",
                                  "sum_squares",
                                  "sum_squares_by_dim",
                                  "update",
                                  "update_blockwise",
                                  "update_factored",
                                  "update_factors"};

}  // namespace

BOOST_AUTO_TEST_SUITE(repeated_calls)

BOOST_AUTO_TEST_CASE(a_call_is_another_where_any_tensor_lies_elsewhere) {
  Recorded recorded;
  std::set<std::string> plain_here;
  for (const Op& op : checked::all_ops()) {
    BOOST_TEST_CONTEXT(op.name) {
      if (op.name.starts_with("attention_forward") || op.name.starts_with("attention_backward"))
        continue;  // have plans
      Memory memory;
      const Tensors tensors = memory.of(op.operands);
      if (!recorded.is_new(op, tensors)) {
        plain_here.insert(op.name);
        continue;
      }
      BOOST_TEST(!recorded.is_new(op, tensors));
      const Tensors others = memory.of(op.operands);
      for (const auto& operand : op.operands) {
        Tensors moved = tensors;
        moved.at(operand.first) = others.at(operand.first);
        BOOST_TEST(recorded.is_new(op, moved), operand.first);
      }
    }
  }
  BOOST_TEST(plain_here == plain, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops
