// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/merged_weights.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <cmath>
#include <span>
#include <stdexcept>
#include <utility>

#include "expert_products.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/tensor_map.hpp"

namespace sft::hub {

namespace {

const std::string peft_prefix = "model/base_model.model.", a_suffix = ".lora_A.weight", b_suffix = ".lora_B.weight",
                  magnitude_suffix = ".lora_magnitude_vector", weight_suffix = ".weight",
                  embedding_name = "model/model.embed_tokens.weight", head_name = "model/lm_head.weight";

[[noreturn]] void refuse(const io::TensorSource& adapter, const std::string& why) {
  throw_data_error(fmt::format("the adapter in {} does not fit the model", adapter.path()), why,
                   "give the model that it was trained for; its adapter_config.json may name it");
}

/// Refuses an adapter that PEFT has and this program does not merge, whatever the model is.
[[noreturn]] void refuse_kind(const io::TensorSource& adapter, const std::string& why) {
  throw_data_error(fmt::format("cannot merge the adapter in {}", adapter.path()), why,
                   "merge this adapter with PEFT's merge_and_unload");
}

/// Refuses what PEFT stores of modules that it adapts or trains whole and that have no place here: `path` is that of a
/// tensor in the model, which is neither a matrix of LoRA nor a module trained whole.
void check_kind(const io::TensorSource& adapter, const config::Lora& lora, const FileLayout& layout,
                const std::string& path) {
  for (const char* table : {"embed_tokens", "lm_head"}) {
    const auto has = [&](const char* part) { return path.find(fmt::format("{}.{}", table, part)) != path.npos; };
    if (!has("lora_") && !has("base_layer.")) continue;
    refuse_kind(adapter, fmt::format("it has {}, and adapters on {} are not merged here", path, table));
  }
  for (std::size_t dot = path.rfind('.'); dot != std::string::npos && dot > 0; dot = path.rfind('.', dot - 1)) {
    const std::string module = path.substr(0, dot);
    if (!lora.saves(module) && !lora.saves(module_in_transformers(layout, module))) continue;
    refuse_kind(adapter, fmt::format("its modules_to_save name {}, which has modules of its own: only single weights "
                                     "that were trained whole are merged here",
                                     module));
  }
}

/// Whether target_parameters names the weight of a module, as PEFT compares them.
bool is_target_parameter(const config::Lora& lora, const std::string& module) {
  return std::ranges::any_of(lora.lora_target_parameters, [&](const std::string& name) {
    return ("." + module + weight_suffix).ends_with("." + name);
  });
}

bool is_target(const io::TensorSource& adapter, const TargetModules& targets, const std::string& module) {
  try {
    return targets.contains(module);
  } catch (const std::invalid_argument& reason) {
    refuse(adapter, fmt::format("target_modules of its adapter_config.json cannot be matched: {}", reason.what()));
  }
}

/// Whether the tensor is a module that was trained whole; modules_to_save has its name in transformers.
bool is_whole_module(const config::Lora& lora, const FileLayout& layout, const std::string& name) {
  if (!name.starts_with(peft_prefix) || !name.ends_with(weight_suffix)) return false;
  const std::string module = name.substr(peft_prefix.size(), name.size() - peft_prefix.size() - weight_suffix.size());
  return lora.saves(module) || lora.saves(module_in_transformers(layout, module));
}

std::vector<float> read_whole(const io::TensorSource& source, const io::TensorInfo& tensor) {
  std::vector<float> values(tensor.num_elements());
  const std::int64_t num_columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  source.read(tensor.name, {.row_begin = 0, .num_rows = tensor.shape[0], .num_columns = num_columns}, DType::float32,
              values.data());
  return values;
}

}  // namespace

MergedWeights::MergedWeights(std::unique_ptr<io::TensorSource> base, bool is_head_tied,
                             std::unique_ptr<io::TensorSource> adapter_in, const AdapterConfig& config,
                             const FileLayout& layout)
    : base_(std::move(base)), adapter_(std::move(adapter_in)) {
  const io::TensorSource& adapter = *adapter_;
  std::map<std::string, std::vector<std::int64_t>> shapes;
  for (const io::TensorInfo& tensor : base_->tensors()) {
    shapes[tensor.name] = tensor.shape;
    widths_[tensor.name] = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  }
  const auto found_embedding = shapes.find(embedding_name);
  for (const io::TensorInfo& tensor : adapter.tensors()) {
    const bool is_tied_head = is_head_tied && tensor.name == peft_prefix + "lm_head.weight";
    if (is_tied_head && config.ensures_weight_tying) continue;  // the embeddings again
    if (is_of_experts(tensor.name, config.lora)) continue;
    const bool is_a = tensor.name.ends_with(a_suffix), is_b = tensor.name.ends_with(b_suffix);
    const bool is_magnitude = config.lora.use_dora && tensor.name.ends_with(magnitude_suffix);
    if (is_whole_module(config.lora, layout, tensor.name)) {
      const std::string replaced = fmt::format("model/{}", tensor.name.substr(peft_prefix.size()));
      const auto found = is_tied_head ? found_embedding : shapes.find(replaced);
      if (found == shapes.end() || found->second != tensor.shape) {
        refuse(adapter, fmt::format("the model has no {} of the same shape", replaced.substr(replaced.find('/') + 1)));
      }
      replacements_[replaced] = tensor.name;
      const bool is_of_table = is_tied_head || replaced == embedding_name;
      unties_head_ = unties_head_ || (is_head_tied && is_of_table && !config.ensures_weight_tying);
      continue;
    }
    if (!tensor.name.starts_with(peft_prefix) || (!is_a && !is_b && !is_magnitude)) {
      if (tensor.name.starts_with(peft_prefix)) {
        check_kind(adapter, config.lora, layout, tensor.name.substr(peft_prefix.size()));
      }
      refuse(adapter, fmt::format("tensor {} is none of LoRA, nor of modules_to_save",
                                  tensor.name.substr(tensor.name.find('/') + 1)));
    }
    const std::string& suffix = is_a ? a_suffix : is_b ? b_suffix : magnitude_suffix;
    const std::string module =
        tensor.name.substr(peft_prefix.size(), tensor.name.size() - peft_prefix.size() - suffix.size());
    if (is_head_tied && module == "lm_head") {
      refuse_kind(adapter,
                  "it adapts lm_head, and adapters on a head that is the table of embeddings are not merged here");
    }
    const auto weight = shapes.find(fmt::format("model/{}.weight", module));
    if (weight == shapes.end() || weight->second.size() != 2)
      refuse(adapter, fmt::format("the model has no matrix {}", module));
    const std::string stored = module_in_transformers(layout, module);
    if (is_target_parameter(config.lora, stored) || is_target_parameter(config.lora, module)) {
      refuse_kind(adapter, fmt::format("its target_parameters name the weight of {}, and only those of experts are "
                                       "merged here",
                                       stored));
    }
    if (!is_target(adapter, config.targets, stored) && !is_target(adapter, config.targets, module)) {
      refuse(
          adapter,
          fmt::format("it has matrices of {}, which target_modules of its adapter_config.json does not name", stored));
    }
    if (!config.lora.transforms_block_of(module)) {
      refuse(adapter, fmt::format("it has matrices of {}, whose block layers_to_transform of its adapter_config.json "
                                  "does not name",
                                  module));
    }
    Product& product = products_[weight->first];
    const config::AdapterSize size = config.lora.size_of(stored);
    product.rank = size.rank;
    product.scale = static_cast<float>(size.scale);
    product.rows = weight->second[0];
    product.columns = weight->second[1];
    std::vector<std::int64_t> expected{product.rows};
    if (is_a) expected = {product.rank, product.columns};
    if (is_b) expected.push_back(product.rank);
    if (tensor.shape != expected) {
      refuse(adapter, fmt::format("{}{} should have {} elements", module, suffix, fmt::join(expected, " x ")));
    }
    (is_a ? product.a : is_b ? product.b : product.magnitudes) = read_whole(adapter, tensor);
  }
  for (ExpertProduct& found : expert_products_of(adapter, shapes, config.lora, layout,
                                                 [&](const std::string& why) { refuse(adapter, why); })) {
    products_[found.weight] = {.rank = found.rank,
                               .rows = found.rows,
                               .columns = found.columns,
                               .scale = found.scale,
                               .a = std::move(found.a),
                               .b = std::move(found.b)};
  }
  for (const auto& [name, product] : products_) {
    if (product.a.empty() || product.b.empty())
      refuse(adapter, fmt::format("it has only one of the two matrices of {}", name));
    if (config.lora.use_dora && product.magnitudes.empty())
      refuse(adapter, fmt::format("it has no magnitudes of {}", name));
  }
}

void MergedWeights::Product::add_to(std::int64_t row_begin, std::span<float> weight) const {
  std::vector<float> sum(columns);
  for (std::int64_t row = row_begin; !weight.empty(); ++row, weight = weight.subspan(columns)) {
    std::ranges::fill(sum, 0.0F);
    for (std::int64_t r = 0; r < rank; ++r) {
      const float factor = b[row * rank + r];
      const float* from = a.data() + r * columns;
      for (std::size_t c = 0; c < sum.size(); ++c) sum[c] += factor * from[c];
    }
    double squares = 0.0;
    for (std::size_t c = 0; c < sum.size(); ++c) {
      weight[c] += scale * sum[c];
      squares += static_cast<double>(weight[c]) * static_cast<double>(weight[c]);
    }
    if (magnitudes.empty() || squares == 0.0) continue;
    const auto factor = static_cast<float>(magnitudes[row] / std::sqrt(squares));
    for (std::size_t c = 0; c < sum.size(); ++c) weight[c] *= factor;
  }
}

std::vector<io::TensorInfo> MergedWeights::tensors() const {
  std::vector<io::TensorInfo> all = base_->tensors();
  if (!unties_head_) return all;
  io::TensorInfo head = *std::ranges::find(all, embedding_name, &io::TensorInfo::name);
  head.name = head_name;
  all.push_back(std::move(head));
  return all;
}

void MergedWeights::read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const {
  if (unties_head_ && name == head_name) {  // no element of the base is read for the fingerprint twice
    const auto trained = replacements_.find(name);
    return trained == replacements_.end() ? base_->read(embedding_name, where, dtype, values)
                                          : adapter_->read(trained->second, where, dtype, values);
  }
  const auto found = products_.find(name);
  const auto replacement = replacements_.find(name);
  if (found == products_.end() && replacement == replacements_.end() && !fingerprint_) {
    base_->read(name, where, dtype, values);
    return;
  }
  std::vector<float> merged(where.num_elements());
  base_->read(name, where, DType::float32, merged.data());
  if (fingerprint_) fingerprint_->add(name.substr(name.find('/') + 1), widths_.at(name), where, merged);
  if (replacement != replacements_.end()) {
    adapter_->read(replacement->second, where, dtype, values);
    return;
  }
  if (found == products_.end()) {
    io::convert(merged, dtype, values);
    return;
  }
  const Product& product = found->second;
  if (where.num_columns == product.columns) {
    product.add_to(where.row_begin, merged);
    io::convert(merged, dtype, values);
    return;
  }
  // Norms are those of whole rows.
  std::vector<float> row(product.columns);
  for (std::int64_t r = 0; r < where.num_rows; ++r) {
    base_->read(name, {.row_begin = where.row_begin + r, .num_rows = 1, .num_columns = product.columns}, DType::float32,
                row.data());
    product.add_to(where.row_begin + r, row);
    std::copy_n(row.data() + where.column_begin, where.num_columns, merged.data() + r * where.num_columns);
  }
  io::convert(merged, dtype, values);
}

}  // namespace sft::hub
