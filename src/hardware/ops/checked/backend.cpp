// SPDX-License-Identifier: Apache-2.0
#include "ops/backends.hpp"

#include <memory>
#include <utility>

#include "ops/checked/rules.hpp"

namespace sft::ops::checked {
namespace {

void check_spans(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries, std::int64_t num_keys) {
  const Rules rules("plan_attention");
  for (const sequence::AttentionSpan& span : spans) {
    rules.require(span.q_begin >= 0 && span.q_len >= 0 && span.q_begin + span.q_len <= num_queries,
                  "spans has queries outside the rows");
    rules.require(span.k_begin >= 0 && span.k_len >= 0 && span.k_begin + span.k_len <= num_keys,
                  "spans has keys outside the rows");
    rules.require(span.window >= 0 && span.window == spans.front().window, "spans has windows that differ");
  }
}

class CheckedBackend final : public Backend {
 public:
  explicit CheckedBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  device::Stream& stream() override { return inner_->stream(); }
  void set_workspace(Tensor workspace) override { inner_->set_workspace(workspace); }

  void run(const Call& call) override {
    std::visit(
        []<class Op>(const Op& op) {
          Rules rules(Op::name);
          op.describe(rules);
          rules.check_memory();
        },
        call);
    inner_->run(call);
  }

  std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                std::int64_t num_queries, std::int64_t num_keys) override {
    check_spans(spans, num_queries, num_keys);
    return inner_->plan_attention(spans, num_queries, num_keys);
  }
  void expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                        std::int64_t num_keys) override {
    inner_->expect_attention(spans, num_queries, num_keys);
  }
  void set_attention_repeats(bool repeats) override { inner_->set_attention_repeats(repeats); }
  [[nodiscard]] LibraryCalls library_calls() const override { return inner_->library_calls(); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace

std::unique_ptr<Backend> make_backend(std::unique_ptr<Backend> inner) {
  return std::make_unique<CheckedBackend>(std::move(inner));
}

}  // namespace sft::ops::checked
