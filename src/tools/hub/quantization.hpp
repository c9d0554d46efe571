// SPDX-License-Identifier: Apache-2.0
#pragma once
// quantization_config of a config.json: in which form the matrices of a folder are stored.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "config_fields.hpp"

namespace sft::hub {

enum class StoredForm {
  numbers,    ///< not quantized
  four_bits,  ///< those of bitsandbytes (nf4.hpp)
  mxfp4,      ///< experts of gpt-oss (mxfp4.hpp)
  fp8,        ///< 8-bit floats with scales (fp8.hpp)
};

struct Quantization {
  StoredForm form = StoredForm::numbers;
  std::int64_t block_rows = 128, block_columns = 128;  ///< of fp8: elements of a matrix that share a scale
  /// For four_bits: llm_int8_skip_modules, modules that stay as they are; none: those that transformers leaves out
  /// unasked, which no linear layer of a block is.
  std::vector<std::string> skipped_modules;

  /// Whether config.json leaves the module out. transformers 4 takes a name of skipped_modules for modules on the way
  /// to it, version 5 for the beginning of its path up to a dot, or the end of it. `path`: as files have it.
  [[nodiscard]] bool skips(const std::string& path) const;
};

/// Reads quantization_config or compression_config; refuses by field where it cannot.
[[nodiscard]] Quantization read_quantization(ConfigFields& fields);
/// Reads FOLDER/config.json, of the whole model and of its text tower; plain values where it has none.
[[nodiscard]] Quantization quantization_of(const std::string& folder);

/// Whether a tensor of so many dims is the matrix of what is torch.nn.Linear in a block of transformers: paths end in
/// self_attn, mlp or shared_experts, and a name.
[[nodiscard]] bool is_linear_of_block(const std::string& name, std::size_t num_dims);

}  // namespace sft::hub
