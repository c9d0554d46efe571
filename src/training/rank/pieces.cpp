// SPDX-License-Identifier: Apache-2.0
#include "sft/rank/pieces.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "sft/config/head_groups.hpp"

namespace sft::rank {

namespace {

/// Sizes of pieces where a key asks for none, that is, where it is auto.
struct Pieces {
  std::int64_t tile_tokens = 0, head_groups = 1;
};

config::ValidConfig with_pieces(const config::ValidConfig& config, const Pieces& pieces) {
  return config.with([&](config::Config& changed) {
    changed.train.mlp_tile_tokens = changed.train.mlp_tile_tokens.value_or(pieces.tile_tokens);
    changed.train.attention_head_groups = changed.train.attention_head_groups.value_or(pieces.head_groups);
  });
}

/// Whether some MLP is not one of experts, which work on all tokens that chose them.
bool has_mlps(const config::Model& model) {
  return model.num_experts == 0 || model.has_dense_layers() || model.n_shared_experts > 0;
}

/// What may be tried behind no pieces, in this order.
std::vector<Pieces> candidates(const config::ValidConfig& config) {
  const bool may_tile = !config->train.mlp_tile_tokens && has_mlps(config->model);
  const bool may_group = !config->train.attention_head_groups && config::why_all_heads_at_once(*config).empty();
  std::vector<Pieces> all;
  Pieces pieces;
  if (may_tile) {
    pieces.tile_tokens = auto_mlp_tile_tokens;
    all.push_back(pieces);
  }
  if (may_group && config::most_head_groups(*config) > 1) {
    pieces.head_groups = config::most_head_groups(*config);
    all.push_back(pieces);
  }
  return all;
}

std::string why(const Pieces& pieces, std::int64_t num_kv_heads) {
  std::vector<std::string> parts;
  if (pieces.tile_tokens > 0) {
    parts.push_back(
        fmt::format("mlp_tile_tokens = auto: MLPs work on {} tokens at a time, as the run does not fit in "
                    "memory where they work on all",
                    pieces.tile_tokens));
  }
  if (pieces.head_groups > 1) {
    parts.push_back(fmt::format(
        "attention_head_groups = auto: attention works on {}, as the run does not fit in memory where it "
        "works on all",
        pieces.head_groups == num_kv_heads
            ? fmt::format("each of {} key/value heads alone", num_kv_heads)
            : fmt::format("{} of {} key/value heads at a time", num_kv_heads / pieces.head_groups, num_kv_heads)));
  }
  return fmt::format("{}", fmt::join(parts, "; "));
}

}  // namespace

ChosenPieces choose_pieces(const config::ValidConfig& config, const Fits& fits) {
  ChosenPieces whole{with_pieces(config, {}), ""};
  if (candidates(config).empty()) return whole;
  return fit_in_pieces(config, fits).value_or(std::move(whole));
}

std::optional<ChosenPieces> fit_in_pieces(const config::ValidConfig& config, const Fits& fits) {
  if (const config::ValidConfig whole = with_pieces(config, {}); fits(whole)) return ChosenPieces{whole, ""};
  for (const Pieces& pieces : candidates(config)) {
    const config::ValidConfig in_pieces = with_pieces(config, pieces);
    if (fits(in_pieces)) return ChosenPieces{in_pieces, why(pieces, config::kv_heads_of_rank(*config))};
  }
  return std::nullopt;
}

}  // namespace sft::rank
