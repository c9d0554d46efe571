// SPDX-License-Identifier: Apache-2.0
// Which tensors of the model the tensors of files make up, and whether they are whole.
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/hub/tensor_map.hpp"
#include "tensor_names.hpp"

namespace sft::hub {

namespace {

using Shape = std::vector<std::int64_t>;

constexpr std::int64_t longest = std::int64_t{1} << 32;  ///< dim, so that products do not overflow

/// Whether the rule gives a module another name, and no more.
bool is_renamed_alone(const Rule& rule) {
  return rule.cut == Cut::rows && rule.parts.size() == 1 && rule.parts.front().rows == Rows::as_stored;
}

class Collector {
 public:
  Collector(const FileLayout& layout, std::string source) : layout_(layout), source_(std::move(source)) {}

  void add(const FileTensor& tensor) {
    const StoredName name = stored_name_of(layout_, tensor.name);
    if (name.rule == nullptr) {
      const TensorName again = name_of(layout_, name.of_model());
      const bool is_factor = name.kind == TensorKind::lora_a || name.kind == TensorKind::lora_b;
      const bool has_other_name = again.rule != nullptr && again.stored_module() != name.stem + name.module;
      if (has_other_name && !is_factor) refuse_name(tensor, again.stored());
      return add(name.of_model(), tensor.shape);
    }
    const Rule& rule = *name.rule;
    const Shape& shape = tensor.shape;
    if (std::ranges::any_of(shape, [](std::int64_t size) { return size < 1 || size > longest; }))
      refuse(tensor, "sizes");
    const bool may_be_norm = name.kind == TensorKind::weight && is_renamed_alone(rule) && shape.size() == 1;
    const std::size_t num_dims =
        may_be_norm ? 1 : (name.kind == TensorKind::bias ? 1 : 2) + (rule.cut == Cut::experts ? 1 : 0);
    if (shape.size() != num_dims) refuse(tensor, fmt::format("{} dims", num_dims));
    if (name.kind == TensorKind::lora_a) {
      for (std::size_t part = 0; part < rule.parts.size(); ++part) add(name.of_model(part), shape);
      return;
    }
    switch (rule.cut) {
      case Cut::rows:
      case Cut::rotary_pairs:
        return add_rows(tensor, name);
      case Cut::experts:
        return add_experts(tensor, name);
    }
  }

  std::vector<io::TensorInfo> take() { return std::move(tensors_); }

  /// Refuses a tensor under a name that files of the family do not have: transformers has it in memory.
  [[noreturn]] void refuse_name(const FileTensor& tensor, const std::string& stored) const {
    throw_data_error(fmt::format("{} has a tensor {}", source_, tensor.name),
                     fmt::format("files of this family call it {}", stored),
                     "save the model with transformers' save_pretrained in its original format");
  }

  [[noreturn]] void refuse(const FileTensor& tensor, const std::string& expected) const {
    throw_data_error(
        fmt::format("tensor {} of {} has the shape ({})", tensor.name, source_, fmt::join(tensor.shape, ", ")),
        fmt::format("by config.json it has {}", expected),
        "its config.json and its weights do not belong together: copy or download the folder again");
  }

 private:
  void add(const std::string& name, const Shape& shape) {
    if (names_.insert(name).second) tensors_.push_back({"model/" + name, shape, DType::float32});
  }

  void add_rows(const FileTensor& tensor, const StoredName& name) {
    std::int64_t expected = 0;
    std::string parts;
    for (const PartRule& part : name.rule->parts) {
      expected += rows_of(layout_, part.rows);
      parts += fmt::format("{}{}", parts.empty() ? "" : " + ", rows_of(layout_, part.rows));
    }
    const bool is_as_stored = name.rule->parts.front().rows == Rows::as_stored;
    if (!is_as_stored && tensor.shape[0] != expected) refuse(tensor, fmt::format("{} rows", parts));
    for (std::size_t part = 0; part < name.rule->parts.size(); ++part) {
      Shape shape = tensor.shape;
      if (!is_as_stored) shape[0] = rows_of(layout_, name.rule->parts[part].rows);
      add(name.of_model(part), shape);
    }
  }

  void add_experts(const FileTensor& tensor, const StoredName& name) {
    if (tensor.shape[0] != layout_.num_experts) refuse(tensor, fmt::format("{} experts", layout_.num_experts));
    Shape shape(tensor.shape.begin() + 1, tensor.shape.end());
    if (name.kind == TensorKind::weight && layout_.is_mxfp4) std::swap(shape[0], shape[1]);
    for (std::int64_t expert = 0; expert < layout_.num_experts; ++expert) add(name.of_expert(0, expert), shape);
  }

  const FileLayout& layout_;
  std::string source_;
  std::vector<io::TensorInfo> tensors_;
  std::set<std::string> names_;
};

}  // namespace

std::vector<io::TensorInfo> tensors_of_model(const FileLayout& layout, const std::vector<FileTensor>& files,
                                             const std::string& source) {
  Collector collector(layout, source);
  std::map<std::string, const FileTensor*> stored;
  for (const FileTensor& tensor : files) {
    if (std::ranges::find(layout.carried, tensor.name, &FileTensor::name) != layout.carried.end()) continue;
    stored[tensor.name] = &tensor;
    collector.add(tensor);
  }
  std::vector<io::TensorInfo> tensors = collector.take();
  const auto require = [&](const std::string& name) -> const FileTensor& {
    const auto found = stored.find(name);
    if (found == stored.end()) {
      throw_data_error(fmt::format("{} has no tensor {}", source, name), "others of its kind are there",
                       "copy or download the folder again");
    }
    return *found->second;
  };
  for (const io::TensorInfo& tensor : tensors) {  // before they are mapped, which takes this for granted
    TensorName name = name_of(layout, tensor.name.substr(tensor.name.find('/') + 1));
    if (name.kind == TensorKind::lora_b && name.rule != nullptr) {
      name.suffix = ".lora_A.weight";
      const Shape& a = require(name.stored()).shape;
      if (tensor.shape[1] != a[0]) collector.refuse(require(name.stored()), fmt::format("{} rows", tensor.shape[1]));
    }
  }
  return tensors;
}

}  // namespace sft::hub
