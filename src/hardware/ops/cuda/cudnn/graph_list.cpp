// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/graph_list.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <string>

#include "ops/cuda/cudnn/rectangles.hpp"
#include "sft/core/ensure.hpp"
#include "sft/ops/attention_graphs.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// Who does what of a plan: the CUDA backend's TilePlan without its tiles.
struct ListedPlan final : AttentionPlan {
  std::optional<DocumentSizes> documents;
  bool has_rest = false;        ///< beside the documents
  bool has_rectangles = false;  ///< in the rest, or where there are no documents

  ListedPlan(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries, std::int64_t num_keys)
      : AttentionPlan(num_queries, num_keys) {
    const auto found = find_documents(spans, num_queries, num_keys);
    if (found) documents = found->sizes(num_queries, num_keys);
    has_rest = found && !found->rest.empty();
    has_rectangles = !split_rectangles(found ? found->rest : spans).rectangles.empty();
  }
};

const ListedPlan& listed(const AttentionPlan& plan) {
  const auto* const found = dynamic_cast<const ListedPlan*>(&plan);
  SFT_ENSURE(found != nullptr, "ops: a plan is for the backend that made it");
  return *found;
}

}  // namespace

std::unique_ptr<AttentionPlan> GraphList::plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                         std::int64_t num_queries, std::int64_t num_keys) {
  return std::make_unique<ListedPlan>(spans, num_queries, num_keys);
}

void GraphList::expect_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                                 std::int64_t num_keys) {
  if (const auto found = find_documents(spans, num_queries, num_keys)) {
    expected_.add(found->sizes(num_queries, num_keys));
  }
}

void GraphList::run(const Call& call) {
  if (const auto* const forward = std::get_if<AttentionForward>(&call)) list(*forward);
  if (const auto* const backward = std::get_if<AttentionBackward>(&call)) list(*backward);
}

void GraphList::list(const AttentionForward& attention) {
  const ListedPlan& plan = listed(attention.plan);
  if (attention.merge) {
    if (plan.has_rectangles && !plan.documents) note(merge_shape(attention, version_));
    return;
  }
  if (!plan.documents || (plan.has_rest && attention.out.dtype != DType::float32)) return;
  const std::optional<GraphShape> shape = forward_shape(attention, *plan.documents, version_);
  note(shape);
  if (shape && plan.has_rectangles) note(merge_shape(attention, version_));
}

void GraphList::list(const AttentionBackward& attention) {
  const ListedPlan& plan = listed(attention.plan);
  const auto note_rectangles = [&] {
    AttentionBackward beside = attention;
    beside.accumulate_dq = beside.accumulate_dkv = true;
    note(rectangles_backward_shape(beside, version_, in_order_));
  };
  if (attention.accumulate_dq) {
    if (plan.has_rectangles && !plan.documents) note_rectangles();
    return;
  }
  if (!plan.documents || (plan.has_rest && !are_sums(attention))) return;
  const std::optional<GraphShape> shape = backward_shape(attention, *plan.documents, version_, in_order_);
  note(shape);
  if (shape && plan.has_rectangles) note_rectangles();
}

std::vector<GraphShape> GraphList::shapes() const {
  std::vector<GraphShape> all;
  for (const GraphShape& called : called_) {
    for (const GraphShape& shape : expected_.shapes_like(called)) {
      if (std::ranges::find(all, shape) == all.end()) all.push_back(shape);
    }
  }
  return all;
}

void GraphList::note(const std::optional<GraphShape>& shape) {
  if (shape && std::ranges::find(called_, *shape) == called_.end()) called_.push_back(*shape);
}

}  // namespace sft::ops::cuda::cudnn

namespace sft::ops {

std::string kinds_of_attention(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
                               std::int64_t num_keys) {
  const cuda::cudnn::ListedPlan plan(spans, num_queries, num_keys);
  const auto rounded = [](std::int64_t rows) { return std::bit_ceil(static_cast<std::uint64_t>(rows)); };
  return fmt::format("{}x{}:{}{}{} ", rounded(num_queries), rounded(num_keys),
                     plan.documents ? (plan.documents->are_tails() ? "t" : "d") : "", plan.has_rest ? "+" : "",
                     plan.has_rectangles ? "r" : "");
}

}  // namespace sft::ops
