// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/sp_method.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "sft/config/head_groups.hpp"
#include "sft/core/cast.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"
#include "sft/rank/traffic.hpp"

namespace sft::rank {

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

/// Bytes that layers of one kind of attention send, of which there are `num_layers`. All send alike but for the last of
/// the model, which alone is never computed again in the backward pass: so one layer, and what a second one adds, tell
/// of any number.
double bytes_of_kind(const config::ValidConfig& alike, const SpFacts& facts, std::ptrdiff_t num_layers, bool has_last) {
  const double one = sent_bytes(alike, facts, 1);
  const std::ptrdiff_t num_further = num_layers - (has_last ? 1 : 0);
  const double further = num_further == 0 ? 0.0 : sent_bytes(alike, facts, 2) - one;
  return (has_last ? one : 0.0) + static_cast<double>(num_further) * further;
}

/// The kind of attention that a block sends by; none where no sublayer attends.
std::optional<sequence::AttentionKind> attention_of(const model::BlockParameters& block) {
  for (const model::BlockSublayer& sublayer : block.sublayers) {
    if (const auto kind = sublayer.layer->attention_kind()) return kind;
  }
  return std::nullopt;
}

/// Bytes that a rank sends for one of its tokens, on average over layers. Where all layers attend, two models of few
/// layers tell of any number; else the whole model is asked.
double bytes_of_token(const config::ValidConfig& config, const SpFacts& facts) {
  const std::shared_ptr<const model::Architecture> architecture = model::shared_architecture(config);
  std::vector<std::optional<sequence::AttentionKind>> kinds;
  std::ranges::transform(architecture->parameters.blocks, std::back_inserter(kinds), attention_of);
  const sequence::AttentionWindows windows = model::attention_windows(config->model);
  double bytes = 0.0;
  const auto attends = [](const std::optional<sequence::AttentionKind>& kind) { return kind.has_value(); };
  if (!std::ranges::all_of(kinds, attends)) {  // layers differ in more than windows
    bytes = sent_bytes(config, facts, config->model.num_hidden_layers);
  } else {
    for (const sequence::AttentionKind kind : windows.indices()) {
      const std::ptrdiff_t num_layers = std::ranges::count(kinds, std::optional(kind));
      bytes += bytes_of_kind(with_layers_alike(config, windows[kind]), facts, num_layers, kinds.back() == kind);
    }
  }
  const double tokens = std::max(1.0, facts.micro_batch_tokens / config->parallel.sp_size);
  return bytes / (static_cast<double>(kinds.size()) * tokens);
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

/// A method, and what becomes of it where the memory is not enough for the one that sends least.
struct SpWay {
  SpCandidate candidate;         ///< sends so much in the pieces that it fits with
  bool fits = true;              ///< as far as anybody asked
  std::int64_t head_groups = 1;  ///< of these pieces

  [[nodiscard]] std::pair<double, std::int64_t> cost() const { return {candidate.bytes, head_groups}; }
};

/// Those whose heads divide, and that exchange them within a node; without their bytes.
std::vector<SpCandidate> possible_methods(const config::ValidConfig& config, int ranks_per_node) {
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

/// The saved method, if it is one that auto may take: on any nodes, as its numbers do not depend on them.
std::optional<SpChoice> saved_choice(const config::ValidConfig& config, const SpFacts& facts) {
  if (!facts.saved) return std::nullopt;
  const int all_ranks = config->parallel.sp_size * config->parallel.tp_size;
  const bool may_be = std::ranges::any_of(possible_methods(config, all_ranks), [&](const SpCandidate& candidate) {
    return SpChoice{candidate.method, candidate.ulysses_size} == *facts.saved;
  });
  return may_be ? facts.saved : std::nullopt;
}

/// hybrid of as many neighbours as may be.
ResolvedSpMethod choose_ulysses(const config::ValidConfig& config, const SpFacts& facts, const Fits& fits) {
  std::set<int, std::greater<>> sizes;
  for (const SpCandidate& candidate : possible_methods(config, facts.ranks_per_node)) {
    sizes.insert(candidate.ulysses_size);
  }
  const auto resolved = [&](int size, const std::string& but) {
    return ResolvedSpMethod{
        with_method(config, SpMethod::hybrid, size),
        fmt::format("ulysses_size = {}: the most of sp_size = {} ranks whose heads divide and that share a node{}",
                    size, config->parallel.sp_size, but)};
  };
  const auto is_enough = [&](int size) {
    return fit_in_pieces(with_method(config, SpMethod::hybrid, size), fits).has_value();
  };
  if (sizes.size() == 1) return resolved(*sizes.begin(), "");
  const auto found = std::ranges::find_if(sizes, is_enough);
  if (found == sizes.begin()) return resolved(*found, "");
  if (found == sizes.end()) return resolved(*sizes.begin(), "; none fits in memory");
  return resolved(*found, fmt::format(", of those that fit in memory; {} would not", *std::prev(found)));
}

constexpr double kibibyte = 1024.0;

/// "ring 40.0, ulysses 12.5 does not fit": what the others would send.
std::string describe_others(const std::vector<SpWay>& ways, const SpWay& taken, int sp_size) {
  std::vector<std::string> others;
  for (const SpWay& way : ways) {
    if (&way == &taken) continue;
    others.push_back(fmt::format("{} {:.1f}{}", describe(way.candidate, sp_size), way.candidate.bytes / kibibyte,
                                 way.fits ? "" : " does not fit"));
  }
  return others.empty() ? "" : fmt::format(" {}", fmt::join(others, ", "));
}

/// What auto takes of sp_candidates.
ResolvedSpMethod choose_method(const config::ValidConfig& config, const SpFacts& facts, const Fits& fits) {
  std::vector<SpWay> ways;
  for (const SpCandidate& candidate : sp_candidates(config, facts)) ways.push_back({.candidate = candidate});
  const auto with = [&](const SpWay& way) {
    return with_method(config, way.candidate.method, way.candidate.ulysses_size);
  };
  const auto taken = [&](const SpWay& way, const char* least, const char* end) {
    return ResolvedSpMethod{with(way), fmt::format("auto: sends the least{}, {:.1f} KiB a token and layer;{}{}", least,
                                                   way.candidate.bytes / kibibyte,
                                                   describe_others(ways, way, config->parallel.sp_size), end)};
  };
  const SpWay& first = *std::ranges::min_element(ways, {}, &SpWay::cost);
  if (ways.size() == 1 || fits(with(first))) return taken(first, "", "");
  for (SpWay& way : ways) {
    const std::optional<ChosenPieces> chosen = fit_in_pieces(with(way), fits);
    way.fits = chosen.has_value();
    if (!chosen) continue;
    way.head_groups = chosen->config->train.attention_head_groups.value_or(1);
    if (way.head_groups > 1) way.candidate.bytes = bytes_of_token(chosen->config, facts);
  }
  const auto costs_less = [](const SpWay& a, const SpWay& b) {
    return a.fits != b.fits ? a.fits : a.cost() < b.cost();
  };
  const SpWay& best = *std::ranges::min_element(ways, costs_less);
  if (!best.fits) return taken(first, "", "; none fits in memory");
  return taken(best, " of what fits in memory", "");
}

}  // namespace

SpFacts SpFacts::of(const config::ValidConfig& config, const Datasets& datasets, int ranks_per_node) {
  const rows::PackedDataset& data = datasets.train;
  const auto num_tokens = static_cast<double>(data.num_tokens());
  return {.document_tokens = num_tokens / static_cast<double>(std::max<std::int64_t>(1, data.num_documents())),
          .micro_batch_tokens = num_tokens / static_cast<double>(data.num_rows()) *
                                static_cast<double>(config->train.per_device_train_batch_size),
          .ranks_per_node = ranks_per_node,
          .saved = datasets.saved_sp};
}

std::vector<SpCandidate> sp_candidates(const config::ValidConfig& config, const SpFacts& facts) {
  std::vector<SpCandidate> candidates = possible_methods(config, facts.ranks_per_node);
  if (config->parallel.sp_size == 1) return candidates;
  for (SpCandidate& candidate : candidates) {
    candidate.bytes = bytes_of_token(with_method(config, candidate.method, candidate.ulysses_size), facts);
  }
  return candidates;
}

ResolvedSpMethod resolve_sp_method(const config::ValidConfig& config, const SpFacts& facts, const Fits& fits) {
  const config::Parallel& parallel = config->parallel;
  if (parallel.sp_method == SpMethod::hybrid && parallel.ulysses_size == 0) return choose_ulysses(config, facts, fits);
  if (parallel.sp_method != SpMethod::automatic) return {config, ""};
  if (parallel.sp_size == 1) return {with_method(config, SpMethod::ring, 1), ""};
  if (const std::optional<SpChoice> saved = saved_choice(config, facts)) {
    config::ValidConfig as_saved = with_method(config, saved->method, saved->ulysses_size);
    if (fit_in_pieces(as_saved, fits)) {
      return {std::move(as_saved), "auto: as in the checkpoint that the run goes on from"};
    }
  }
  return choose_method(config, facts, fits);
}

}  // namespace sft::rank
