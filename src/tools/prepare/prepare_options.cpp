// SPDX-License-Identifier: Apache-2.0
#include "prepare/prepare_options.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <string>

#include "sft/core/error.hpp"

namespace sft::prepare {

namespace {

constexpr std::int64_t max_row_length =
    (std::int64_t{1} << 30) - 1;  // HDF5 holds chunks, of a row at least, below 4 GiB

constexpr std::int64_t max_small_multiple = 65536;  ///< that any row may be padded to

void check_lengths(const PrepareOptions& options) {
  const bool has_limit = options.max_length != PrepareOptions::no_max_length;
  if (!has_limit && options.packing_strategy != PackingStrategy::none) {
    throw_config_error("max_length = none is impossible with packing", "it is the length of the rows",
                       "give a number, or --packing false");
  }
  if (has_limit && (options.max_length < 2 || options.max_length > max_row_length)) {
    throw_config_error(fmt::format("max_length = {} is impossible", options.max_length),
                       "a row needs a token to predict from and one to predict, and is counted in 32 bits",
                       fmt::format("give 2 to {}, e.g. 1024", max_row_length));
  }
  if (options.pad_to_multiple_of < 1) {
    throw_config_error(fmt::format("pad_to_multiple_of = {} is impossible", options.pad_to_multiple_of),
                       "rows are padded to a multiple of it", "give 1 or more");
  }
  const std::int64_t max_multiple = std::max(options.max_length, max_small_multiple);
  if (options.pad_to_multiple_of > max_multiple) {
    throw_config_error(fmt::format("pad_to_multiple_of = {} is impossible", options.pad_to_multiple_of),
                       "rows would be padding for the most part",
                       fmt::format("give {} or less, e.g. 64", max_multiple));
  }
  if (padded_length(options, options.max_length) > max_row_length) {
    throw_config_error(fmt::format("pad_to_multiple_of = {} is impossible", options.pad_to_multiple_of),
                       fmt::format("rows would have more than {} tokens", max_row_length), "give less");
  }
}

void check_counts(const PrepareOptions& options) {
  if (options.num_shards < 0) {
    throw_config_error(fmt::format("num_shards = {} is impossible", options.num_shards), "it counts files",
                       "give 1 or more, or 0 to have it chosen");
  }
  if (options.packing_blocks.num_shards < 1) {
    throw_config_error(fmt::format("dataset_num_proc = {} is impossible", options.packing_blocks.num_shards),
                       "it counts the parts that are packed apart", "give 1 or more");
  }
  constexpr int max_threads = 4096;
  if (options.num_threads < 0 || options.num_threads > max_threads) {
    throw_config_error(fmt::format("num_threads = {} is impossible", options.num_threads), "it counts threads",
                       fmt::format("give 1 to {}, or 0 for one on each core", max_threads));
  }
}

void check_shares(const PrepareOptions& options) {
  if (!std::isfinite(options.eval_split) || options.eval_split < 0.0 ||
      (options.eval_split > 1.0 && options.eval_split != std::floor(options.eval_split))) {
    throw_config_error(fmt::format("eval_split = {} is impossible", options.eval_split),
                       "it is a share below 1 or a number of documents", "give 0.05 or 500, say");
  }
  const auto is_share = [](double weight) { return std::isfinite(weight) && weight > 0.0; };
  if (!std::ranges::all_of(options.input_weights, is_share)) {
    throw_config_error("an impossible input_weight", "weights are positive numbers", "leave an input out instead");
  }
  const std::size_t num_groups =
      options.input_groups.empty() ? options.inputs.size() : std::ranges::max(options.input_groups) + 1;
  if (!options.input_weights.empty() && options.input_weights.size() != num_groups) {
    throw_config_error(
        fmt::format("there are {} input_weights for {} inputs", options.input_weights.size(), num_groups),
        "every --input needs one", "give --input_weight once for each --input, in their order");
  }
  if (!options.input_slices.empty() && options.input_slices.size() != num_groups) {
    throw_config_error(fmt::format("there are {} input_slices for {} inputs", options.input_slices.size(), num_groups),
                       "every --input needs one",
                       "give --input_slice once for each --input, in their order, and `:` for all of one");
  }
}

}  // namespace

std::int64_t padded_length(const PrepareOptions& options, std::int64_t length) {
  const std::int64_t step = options.pad_to_multiple_of;
  return (length + step - 1) / step * step;
}

void check_options(const PrepareOptions& options) {
  check_lengths(options);
  check_counts(options);
  check_shares(options);
  if (!options.example.end_of_turn.empty() && !options.example.assistant_only_loss) {
    throw_config_error("end_of_turn has no effect by itself", "it says where turns end that are trained on alone",
                       "give --assistant_only_loss with it");
  }
  if (options.keep_end && options.packing_strategy != PackingStrategy::none) {
    throw_config_error("truncation_mode = keep_end is impossible with packing", "packing keeps the start of documents",
                       "leave it out, or give --packing false");
  }
}

}  // namespace sft::prepare
