// SPDX-License-Identifier: Apache-2.0
#include "sft/plan/mlp_tile.hpp"

#include <fmt/core.h>

namespace sft::plan {

namespace {

config::ValidConfig with_tile(const config::ValidConfig& config, std::int64_t num_tokens) {
  return config.with([=](config::Config& changed) { changed.train.mlp_tile_tokens = num_tokens; });
}

/// Whether some MLP is not one of experts, which work on all tokens that chose them.
bool has_mlps(const config::Model& model) {
  return model.num_experts == 0 || model.has_dense_layers() || model.n_shared_experts > 0;
}

}  // namespace

ChosenTile choose_mlp_tile(const config::ValidConfig& config, const Fits& fits) {
  if (config->train.mlp_tile_tokens) return {config, ""};
  const config::ValidConfig whole = with_tile(config, 0), tiled = with_tile(config, auto_mlp_tile_tokens);
  if (!has_mlps(config->model) || fits(whole) || !fits(tiled)) return {whole, ""};
  return {tiled,
          fmt::format("mlp_tile_tokens = auto: MLPs work on {} tokens at a time, as the run does not fit in memory "
                      "where they work on all",
                      auto_mlp_tile_tokens)};
}

}  // namespace sft::plan
