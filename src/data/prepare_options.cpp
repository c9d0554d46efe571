// SPDX-License-Identifier: Apache-2.0
#include "data/prepare_options.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "sft/core/error.hpp"

namespace sft::data {

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
    throw_config_error("max_length = " + std::to_string(options.max_length) + " is impossible",
                       "a row needs a token to predict from and one to predict, and is counted in 32 bits",
                       "give 2 to " + std::to_string(max_row_length) + ", e.g. 1024");
  }
  if (options.pad_to_multiple_of < 1) {
    throw_config_error("pad_to_multiple_of = " + std::to_string(options.pad_to_multiple_of) + " is impossible",
                       "rows are padded to a multiple of it", "give 1 or more");
  }
  const std::int64_t max_multiple = std::max(options.max_length, max_small_multiple);
  if (options.pad_to_multiple_of > max_multiple) {
    throw_config_error("pad_to_multiple_of = " + std::to_string(options.pad_to_multiple_of) + " is impossible",
                       "rows would be padding for the most part",
                       "give " + std::to_string(max_multiple) + " or less, e.g. 64");
  }
  if (padded_length(options, options.max_length) > max_row_length) {
    throw_config_error("pad_to_multiple_of = " + std::to_string(options.pad_to_multiple_of) + " is impossible",
                       "rows would have more than " + std::to_string(max_row_length) + " tokens", "give less");
  }
}

void check_counts(const PrepareOptions& options) {
  if (options.num_shards < 0) {
    throw_config_error("num_shards = " + std::to_string(options.num_shards) + " is impossible", "it counts files",
                       "give 1 or more, or 0 to have it chosen");
  }
  if (options.packing_blocks.num_shards < 1) {
    throw_config_error("dataset_num_proc = " + std::to_string(options.packing_blocks.num_shards) + " is impossible",
                       "it counts the parts that are packed apart", "give 1 or more");
  }
  constexpr int max_threads = 4096;
  if (options.num_threads < 0 || options.num_threads > max_threads) {
    throw_config_error("num_threads = " + std::to_string(options.num_threads) + " is impossible", "it counts threads",
                       "give 1 to " + std::to_string(max_threads) + ", or 0 for one on each core");
  }
}

void check_shares(const PrepareOptions& options) {
  if (!std::isfinite(options.eval_split) || options.eval_split < 0.0 ||
      (options.eval_split > 1.0 && options.eval_split != std::floor(options.eval_split))) {
    throw_config_error("eval_split = " + std::to_string(options.eval_split) + " is impossible",
                       "it is a share below 1 or a number of documents", "give 0.05 or 500, say");
  }
  const auto is_share = [](double weight) { return std::isfinite(weight) && weight > 0.0; };
  if (!std::ranges::all_of(options.input_weights, is_share)) {
    throw_config_error("an impossible input_weight", "weights are positive numbers", "leave an input out instead");
  }
  if (!options.input_weights.empty() && options.input_weights.size() != options.inputs.size()) {
    throw_config_error("there are " + std::to_string(options.input_weights.size()) + " input_weights for " +
                           std::to_string(options.inputs.size()) + " inputs",
                       "every --input needs one", "give --input_weight once for each --input, in their order");
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
  if (options.keep_end && options.packing_strategy != PackingStrategy::none) {
    throw_config_error("truncation_mode = keep_end is impossible with packing", "packing keeps the start of documents",
                       "leave it out, or give --packing false");
  }
}

}  // namespace sft::data
