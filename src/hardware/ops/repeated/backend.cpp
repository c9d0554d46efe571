// SPDX-License-Identifier: Apache-2.0
#include <cstdint>
#include <utility>
#include <vector>

#include "ops/backends.hpp"
#include "ops/repeated/key.hpp"
#include "ops/repeated/with_plan.hpp"
#include "sft/core/ensure.hpp"
#include "sft/device/launch_tape.hpp"

namespace sft::ops::repeated {
namespace {

/// A plan of the other backend, which lives until the calls that were put off with it are made.
struct SharedPlan final : AttentionPlan {
  explicit SharedPlan(std::unique_ptr<AttentionPlan> plan)
      : AttentionPlan(plan->num_queries(), plan->num_keys()), inner(std::move(plan)) {}
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override { return inner->launch_words(); }

  const std::shared_ptr<const AttentionPlan> inner;
};

/// Ops whose arguments are those of the last micro-batch of as many tokens go to the tape; before any other op the tape
/// is settled. Others are those that cannot repeat, and calls with a plan of attention that no other is like.
class RepeatedBackend final : public Backend {
 public:
  RepeatedBackend(std::unique_ptr<Backend> inner, device::LaunchTape& tape) : inner_(std::move(inner)), tape_(tape) {
    inner_->set_attention_repeats(true);
  }

  device::Stream& stream() override { return inner_->stream(); }
  void set_workspace(Tensor workspace) override { settled().set_workspace(workspace); }

  void run(const Call& call) override {
    std::visit([&](const auto& op) { run_op(op, call); }, call);
  }

  [[nodiscard]] std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                              std::int64_t num_queries,
                                                              std::int64_t num_keys) override {
    return std::make_unique<SharedPlan>(settled().plan_attention(spans, num_queries, num_keys));
  }
  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override {
    settled().expect_attention(spans, num_queries, num_keys);
  }
  [[nodiscard]] LibraryCalls library_calls() const override { return inner_->library_calls(); }

 private:
  template <class Op>
  void run_op(const Op& op, const Call& call) {
    if constexpr (!can_repeat<Op>()) {
      settled().run(call);
    } else if constexpr (requires { op.plan; }) {
      const auto* const shared = dynamic_cast<const SharedPlan*>(&op.plan);
      SFT_ENSURE(shared != nullptr, "ops: an attention plan is for the backend that made it");
      defer(call,
            [this, inner_call = with_plan(op, *shared->inner), plan = shared->inner] { inner_->run(inner_call); });
    } else if (tape_.is_on()) {
      defer(call, [this, op] { inner_->run(op); });
    } else {
      inner_->run(call);
    }
  }

  template <class Work>
  void defer(const Call& call, const Work& work) {
    if (!tape_.is_on()) return work();
    const std::vector<std::uint64_t>& key = key_.of(call);
    if (!key.empty()) return tape_.defer(key, work);
    tape_.settle();
    work();
  }

  /// For an op that is queued now.
  [[nodiscard]] Backend& settled() {
    tape_.settle();
    return *inner_;
  }

  const std::unique_ptr<Backend> inner_;
  device::LaunchTape& tape_;
  Key key_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner) {
  device::LaunchTape* const tape = inner->stream().start_tape() ? inner->stream().tape() : nullptr;
  SFT_ENSURE(tape != nullptr, "ops: the stream of what repeats can record");
  return std::make_unique<RepeatedBackend>(std::move(inner), *tape);
}

}  // namespace sft::ops::repeated
