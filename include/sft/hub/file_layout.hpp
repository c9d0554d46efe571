// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the files of a model folder hold the tensors of its decoder. Most families store each tensor of the model under
// its own name; others store several as one, in another order of rows, expert by expert, or below a prefix alongside
// the towers of images and sounds. The rules of a family are in its file of src/tools/hub/families.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::hub {

/// A tensor of a file, as its header says it: any number of dims.
struct FileTensor {
  std::string name;
  std::string dtype;  ///< "F32", "BF16" ...
  std::vector<std::int64_t> shape;
  std::uint64_t num_bytes = 0;

  bool operator==(const FileTensor&) const = default;
};

/// What the names and cuts of a folder's files follow from. By default each tensor of the model has its own name.
struct FileLayout {
  std::string family;  ///< model_type of the decoder: chooses the rules; empty or not known: there are none
  std::int64_t num_attention_heads = 0, num_key_value_heads = 0, head_dim = 0, intermediate_size = 0;
  std::int64_t rotary_dim = 0;   ///< of a head: the first ones are rotated
  std::int64_t num_experts = 0;  ///< of a layer
  /// What stands in the files for "model." and "lm_head." of the model's names.
  std::string body = "model.", head = "lm_head.";
  /// Experts lie in blocks of 4-bit numbers with a scale each (MXFP4). Folders are written without.
  bool is_mxfp4 = false;
  /// Tensors that the decoder has no part in: those of other towers, or of layers behind its own.
  std::vector<FileTensor> carried = {};

  /// Whether the decoder is the text tower of a model with others.
  [[nodiscard]] bool is_tower() const { return body != "model."; }
  bool operator==(const FileLayout&) const = default;
};

/// What the files of a folder with this config.json and these tensors follow. `source` names the text in messages.
/// A data Error for fields that are needed and are not there. Pure.
[[nodiscard]] FileLayout parse_file_layout(const std::string& config_json, const std::string& source,
                                           const std::vector<FileTensor>& files);
/// The layout of FOLDER, by its config.json, and the names in its safetensors files where these decide; where it has no
/// config.json the default one.
[[nodiscard]] FileLayout read_file_layout(const std::string& folder);

/// The layout as one text, and back: for ranks that did not read the folder.
[[nodiscard]] std::string to_json(const FileLayout& layout);
[[nodiscard]] FileLayout file_layout_of_json(const std::string& text);

}  // namespace sft::hub
