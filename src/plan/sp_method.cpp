// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/sp_method.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "sft/config/head_groups.hpp"
#include "sft/core/cast.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/plan/traffic.hpp"

namespace sft::plan {

namespace {

using config::SpMethod;

/// The documents of a micro-batch of the mean size. Their lengths lie evenly between a half and three halves of the
/// mean, as those of data do: documents of one length would end with chunks, where nothing has to be sent.
std::vector<std::int32_t> typical_documents(const SpFacts& facts) {
  constexpr double golden_ratio = 0.6180339887498949;
  const std::int64_t tokens = std::max<std::int64_t>(1, std::llround(facts.micro_batch_tokens));
  std::vector<std::int32_t> documents;
  for (std::int64_t left = tokens; left > 0; left -= documents.back()) {
    const bool is_one = facts.document_tokens >= facts.micro_batch_tokens;
    const double turn = golden_ratio * static_cast<double>(documents.size() + 1);
    const double share = is_one ? 1.0 : 0.5 + turn - std::floor(turn);
    documents.push_back(
        checked_cast<std::int32_t>(std::clamp<std::int64_t>(std::llround(share * facts.document_tokens), 1, left)));
  }
  return documents;
}

/// What a rank of several in sp sends over it in a step of one micro-batch of the mean size, on a model of `num_layers`
/// layers, in the mean over ranks of an sp group.
double sent_bytes(const config::ValidConfig& config, const SpFacts& facts, std::int64_t num_layers) {
  const config::ValidConfig planned = config.with([=](config::Config& changed) {
    changed.model.num_hidden_layers = num_layers;
    changed.train.gradient_accumulation_steps = 1;
  });
  const std::vector<std::int32_t> documents = typical_documents(facts);
  const mesh::Place first(planned, 0);
  const std::vector<WorldRank> ranks = first.layout().members(0, {Axis::sp});
  constexpr std::size_t most_asked = 16;
  const std::size_t num_asked = std::min(ranks.size(), most_asked);
  double sum = 0.0;
  for (std::size_t i = 0; i < num_asked; ++i) {
    const WorldRank rank = ranks[i * (ranks.size() - 1) / (num_asked - 1)];
    for (const comm::SentBytes& sent : plan_traffic(planned, documents, first.peer(rank), {})) {
      if (sent.group == name_of(Axis::sp)) sum += static_cast<double>(sent.bytes);
    }
  }
  return sum / static_cast<double>(num_asked);
}

/// The same model with layers that all attend within `window`, so that there may be any number of them.
config::ValidConfig with_layers_alike(const config::ValidConfig& config, std::int64_t window) {
  return config.with([=](config::Config& changed) {
    changed.model.sliding_window = window;
    changed.model.layer_types.clear();
    changed.model.no_rope_layers.clear();
  });
}

/// Of one token of a rank in one layer. All layers whose attention is of one kind send alike, but for the last of the
/// model, which alone is never computed again in the backward pass: so one layer, and what a second one adds, tell of
/// any number.
double bytes_of_token(const config::ValidConfig& config, const SpFacts& facts) {
  const std::vector<model::LayerPlan> layers = model::layer_plans(config->model);
  const sequence::AttentionWindows windows = model::attention_windows(config->model);
  double bytes = 0.0;
  for (const sequence::AttentionKind kind : windows.indices()) {
    const config::ValidConfig alike = with_layers_alike(config, windows[kind]);
    const bool has_last = layers.back().attention == kind;
    const auto is_of_kind = [=](const model::LayerPlan& layer) { return layer.attention == kind; };
    const auto num_further = std::ranges::count_if(layers, is_of_kind) - (has_last ? 1 : 0);
    const double one = sent_bytes(alike, facts, 1);
    if (has_last) bytes += one;
    if (num_further > 0) bytes += static_cast<double>(num_further) * (sent_bytes(alike, facts, 2) - one);
  }
  const double tokens = std::max(1.0, facts.micro_batch_tokens / config->parallel.sp_size);
  return bytes / (static_cast<double>(layers.size()) * tokens);
}

config::ValidConfig with_method(const config::ValidConfig& config, SpMethod method, int ulysses_size) {
  return config.with([=](config::Config& changed) {
    changed.parallel.sp_method = method;
    changed.parallel.ulysses_size = method == SpMethod::hybrid ? ulysses_size : 0;
  });
}

/// "ulysses", "hybrid of 4 x 2 (ulysses x ring)".
std::string describe(const SpCandidate& candidate, int sp_size) {
  switch (candidate.method) {
    case SpMethod::all_gather:
      return "all_gather";
    case SpMethod::ulysses:
      return "ulysses";
    case SpMethod::hybrid:
      return fmt::format("hybrid of {} x {}", candidate.ulysses_size, sp_size / candidate.ulysses_size);
    case SpMethod::ring:
    case SpMethod::automatic:
      break;
  }
  return "ring";
}

/// Without their bytes.
std::vector<SpCandidate> fitting_methods(const config::ValidConfig& config, int ranks_per_node) {
  const config::Parallel& parallel = config->parallel;
  // Of a group of heads, whose memory the next group takes.
  const std::int64_t head_groups = config->train.attention_head_groups.value_or(1);
  const std::int64_t q_heads = config->model.num_attention_heads / parallel.tp_size / head_groups;
  const std::int64_t kv_heads = config::kv_heads_of_rank(*config) / head_groups;
  std::vector<SpCandidate> candidates = {{SpMethod::ring, 1, 0.0}};
  // A head of the whole row is as much as sp_size heads of a rank's tokens.
  const bool fits_memory_of_ring = parallel.sp_size <= 2 * kv_heads;
  if (fits_memory_of_ring) candidates.push_back({SpMethod::all_gather, 1, 0.0});
  for (int size = 2; size <= parallel.sp_size; ++size) {
    const bool is_within_node = ranks_per_node % (size * parallel.tp_size) == 0;
    if (parallel.sp_size % size != 0 || q_heads % size != 0 || !is_within_node) continue;
    candidates.push_back({size == parallel.sp_size ? SpMethod::ulysses : SpMethod::hybrid, size, 0.0});
  }
  return candidates;
}

}  // namespace

SpFacts SpFacts::of(const config::ValidConfig& config, const data::PackedDataset& data, int ranks_per_node) {
  const auto num_tokens = static_cast<double>(data.num_tokens());
  return {num_tokens / static_cast<double>(std::max<std::int64_t>(1, data.num_documents())),
          num_tokens / static_cast<double>(data.num_rows()) *
              static_cast<double>(config->train.per_device_train_batch_size),
          ranks_per_node};
}

std::vector<SpCandidate> sp_candidates(const config::ValidConfig& config, const SpFacts& facts) {
  std::vector<SpCandidate> candidates = fitting_methods(config, facts.ranks_per_node);
  if (config->parallel.sp_size == 1) return candidates;
  for (SpCandidate& candidate : candidates) {
    candidate.bytes = bytes_of_token(with_method(config, candidate.method, candidate.ulysses_size), facts);
  }
  return candidates;
}

ResolvedSpMethod resolve_sp_method(const config::ValidConfig& config, const SpFacts& facts) {
  const config::Parallel& parallel = config->parallel;
  const bool lacks_ulysses_size = parallel.sp_method == SpMethod::hybrid && parallel.ulysses_size == 0;
  if (parallel.sp_method != SpMethod::automatic && !lacks_ulysses_size) return {config, ""};
  if (lacks_ulysses_size) {
    const int size =
        std::ranges::max(fitting_methods(config, facts.ranks_per_node), {}, &SpCandidate::ulysses_size).ulysses_size;
    return {with_method(config, SpMethod::hybrid, size),
            fmt::format("ulysses_size = {}: the most of sp_size = {} ranks whose heads divide and that share a node",
                        size, parallel.sp_size)};
  }
  const std::vector<SpCandidate> candidates = sp_candidates(config, facts);
  const SpCandidate best = *std::ranges::min_element(candidates, {}, &SpCandidate::bytes);
  config::ValidConfig resolved = with_method(config, best.method, best.ulysses_size);
  if (parallel.sp_size == 1) return {std::move(resolved), ""};
  constexpr double kibibyte = 1024.0;
  std::vector<std::string> others;
  for (const SpCandidate& other : candidates) {
    if (other.method == best.method && other.ulysses_size == best.ulysses_size) continue;
    others.push_back(fmt::format("{} {:.1f}", describe(other, parallel.sp_size), other.bytes / kibibyte));
  }
  return {std::move(resolved), fmt::format("auto: sends the least, {:.1f} KiB a token and layer;{}{}",
                                           best.bytes / kibibyte, others.empty() ? "" : " ", fmt::join(others, ", "))};
}

}  // namespace sft::plan
