// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the files of a model folder have every element of the model's tensors; used both ways, to read and to write.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sft/config/lora.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::hub {

/// Some rows of a tensor of the model: its element (row_begin + i, j) is element first + i row_stride + j column_stride
/// of a tensor of the files, both row-major. One of the strides is 1.
struct Stripe {
  std::int64_t row_begin = 0, num_rows = 0;
  std::size_t tensor = 0;  ///< which one of TensorMap::files()
  std::int64_t first = 0, row_stride = 0, column_stride = 1;
};

/// A tensor of the model in stripes.
struct MappedTensor {
  std::vector<std::int64_t> shape;
  /// Factor of the values in the files: B of adapters alongside others on parts of one module, which
  /// have one rank there, and a scale that follows from it.
  float factor = 1.0F;
  std::vector<Stripe> stripes = {};  ///< ascending by row, of all rows

  [[nodiscard]] std::int64_t width() const { return shape.size() > 1 ? shape[1] : 1; }
};

/// Elements without gap in a tensor of the files, equally spaced in the memory of a rectangle.
struct Run {
  std::size_t tensor = 0;  ///< which one of TensorMap::files()
  std::int64_t first = 0, count = 0;
  std::int64_t memory_first = 0, memory_step = 1;
};

/// B of the adapters of all experts in a tensor of the files. By the map it lies there expert by expert, (experts,
/// rows, rank), so that ranks write what they have without gaps; PEFT has the expert as the innermost index, (rows,
/// rank, experts): order_experts() makes that of it.
struct StackedTensor {
  std::size_t tensor;  ///< which one of TensorMap::files()
  std::int64_t num_experts, rows, rank;
};

/// What adapters in PEFT's names on the parts of one stored matrix are in the files.
enum class AdapterRanks {
  added,  ///< one adapter of the sum of their ranks, whose B has blocks of zeros where one part's rows meet another's A
  shared  ///< one adapter whose A each of them has: what PEFT trains
};

/// The files' tensors that make up the model's, and those from them. Pure.
class TensorMap {
 public:
  TensorMap() = default;
  /// `model`: tensors of the model, "ENTRY/NAME", all parts of each stored one; or of adapters, "ENTRY/" and PEFT's
  /// name, on any modules; where ENTRY ends with "_start", what these began with, which is a further part of them.
  /// `lora`: what their scales follow from, where some are on parts of a module: then B takes these in, and all
  /// adapters have the largest rank, by zeros (make_adapter_config says so); null: they stay. std::logic_error for
  /// tensors that are not in the shapes of the layout.
  TensorMap(const FileLayout& layout, const std::vector<io::TensorInfo>& model,
            AdapterRanks adapters = AdapterRanks::added, const config::Lora* lora = nullptr);

  /// In the order of the model's tensors; names and shapes alone.
  [[nodiscard]] const std::vector<FileTensor>& files() const { return files_; }
  /// Those that are not yet as PEFT has them where the map says that the model's elements are.
  [[nodiscard]] const std::vector<StackedTensor>& stacked() const { return stacked_; }
  [[nodiscard]] bool contains(const std::string& name) const { return model_.contains(name); }
  /// `name`: "ENTRY/NAME", as the constructor got it.
  [[nodiscard]] const MappedTensor& tensor(const std::string& name) const { return model_.at(name); }

  /// The elements of a rectangle of the model's tensor `name`, ascending by their place in the files; memory is that of
  /// the rectangle, row-major. What is without gap in both is one run.
  [[nodiscard]] std::vector<Run> runs(const std::string& name, const io::Rectangle& where) const;

 private:
  std::vector<FileTensor> files_;
  std::vector<StackedTensor> stacked_;
  std::map<std::string, MappedTensor> model_;
};

/// The tensors of the model that these tensors of files make up, "model/NAME", with dtype float32, each where its first
/// part stands in `files`; carried ones are left out. Names that no rule is about are the model's own. Those of
/// adapters keep the rank of the stored one (AdapterRanks::shared). A data Error names a tensor whose shape the layout
/// does not allow, or one that is missing; `source` names the folder. Pure.
[[nodiscard]] std::vector<io::TensorInfo> tensors_of_model(const FileLayout& layout,
                                                           const std::vector<FileTensor>& files,
                                                           const std::string& source);

/// What transformers calls the module of the model, such as model.layers.0.self_attn.qkv_proj where the model has a
/// q_proj: PEFT's adapters are named after it.
[[nodiscard]] std::string module_in_transformers(const FileLayout& layout, const std::string& module);

/// The modules of transformers that the modules `adapted` of the model, such as q_proj, are in, by the last part of
/// their names, and how many adapters each has then (AdapterRanks::added).
[[nodiscard]] std::map<std::string, std::int64_t> adapted_modules(const FileLayout& layout,
                                                                  const std::vector<std::string>& adapted);

}  // namespace sft::hub
