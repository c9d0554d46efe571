// SPDX-License-Identifier: Apache-2.0
#pragma once
// Command line of sft-convert.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/core/four_bits.hpp"
#include "sft/hub/weights.hpp"

namespace sft::apps {

struct ConvertOptions {
  std::string from, to;
  bool to_gguf = false;                  ///< `to` is a file in GGUF
  std::string gguf_converter;            ///< empty: the one on PATH
  std::string gguf_type = "auto";        ///< of llama.cpp's converter
  std::optional<FourBitForm> four_bits;  ///< what matrices of `from` are quantized to
  std::string adapter;                   ///< PEFT folder to merge into `from`; empty: nothing is merged
  bool takes_run = false;                ///< `from` is a run's folder, `adapter` in it; it names its model
  bool has_dtype = false, has_max_shard_size = false;  ///< were given
  [[nodiscard]] bool has_output_options() const { return has_dtype || has_max_shard_size; }
  hub::WeightType dtype = hub::WeightType::float32;
  std::uint64_t max_shard_bytes = 5'000'000'000;
};

/// Reads the command line; none when help or version was asked for and printed. Configuration Errors.
[[nodiscard]] std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& arguments);
/// What the program says about itself.
[[nodiscard]] cli::Manual convert_manual();

}  // namespace sft::apps
