// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/tensor_map.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "family_rules.hpp"
#include "sft/core/ensure.hpp"
#include "sft/hub/expert_factors.hpp"
#include "tensor_names.hpp"

namespace sft::hub {

namespace {

std::string without_entry(const std::string& name) { return name.substr(name.find('/') + 1); }

/// Whether it is what an adapter began with, where that is a part of the weight.
bool is_start(const io::TensorInfo& tensor) { return io::entry_of(tensor.name).ends_with("_start"); }

/// The model's tensors, one after the other, turned into those of files.
class Mapper {
 public:
  Mapper(const FileLayout& layout, AdapterRanks adapters, const config::Lora* lora)
      : layout_(layout), adapters_(adapters), lora_(lora) {}

  /// Notes that a part of a stored matrix, or an expert, has an adapter, before any is mapped.
  void note_adapter(const io::TensorInfo& tensor) {
    if (const auto factor = factor_in(tensor)) {
      StackedRows& rows = stacked_[factor->experts][factor->parameter];
      rows.num_experts = std::max(rows.num_experts, factor->expert + 1);
      if (!factor->is_a && factor->expert == 0) rows.of_b += tensor.shape[0];
      return;
    }
    const TensorName name = name_of(layout_, without_entry(tensor.name));
    if (name.kind != TensorKind::lora_a) return;
    ranks_[name.stored_module()][{name.part, is_start(tensor)}] = tensor.shape[0];
    has_parts_ = has_parts_ || (name.rule != nullptr && name.rule->parts.size() > 1);
  }

  MappedTensor map(const io::TensorInfo& tensor) {
    if (const auto factor = factor_in(tensor)) return map_factor(*factor, tensor);
    const TensorName name = name_of(layout_, without_entry(tensor.name));
    const std::int64_t rows = tensor.shape[0], width = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
    MappedTensor mapped{.shape = tensor.shape};
    const auto whole = [&](std::size_t file, std::int64_t first, std::int64_t row_stride) {
      mapped.stripes.push_back({0, rows, file, first, row_stride});
    };
    if (name.kind == TensorKind::lora_a || name.kind == TensorKind::lora_b) {
      if (name.kind == TensorKind::lora_b && is_joined()) mapped.factor = factor_of(without_entry(tensor.name));
      map_adapter(name, is_start(tensor), rows, width, mapped);
      return mapped;
    }
    if (name.rule == nullptr) {
      whole(file_of(name.stored(), tensor.shape), 0, width);
      return mapped;
    }
    switch (name.rule->cut) {
      case Cut::rows: {
        std::vector<std::int64_t> shape = tensor.shape;
        if (name.rule->parts.size() > 1) shape[0] = sum_of_rows(name, name.rule->parts.size());
        whole(file_of(name.stored(), shape), sum_of_rows(name, name.part) * width, width);
        break;
      }
      case Cut::rotary_pairs:
        map_pairs(file_of(name.stored(), tensor.shape), rows, {.first = 0, .width = width}, mapped);
        break;
      case Cut::experts:
        map_expert(name, rows, width, mapped);
        break;
    }
    return mapped;
  }

  std::vector<FileTensor> take() { return std::move(files_); }
  std::vector<StackedTensor> take_stacked() { return std::move(stacked_tensors_); }

 private:
  /// The part of a stored matrix that an adapter belongs to, and whether it is what that adapter began with.
  using AdapterPart = std::pair<std::size_t, bool>;

  /// Of the adapters that a run trains. In files these names are those of experts that are modules of their own, as
  /// transformers 4 had them, with plain adapters.
  [[nodiscard]] std::optional<ExpertFactor> factor_in(const io::TensorInfo& tensor) const {
    return adapters_ == AdapterRanks::added ? expert_factor_of(without_entry(tensor.name)) : std::nullopt;
  }

  std::size_t file_of(const std::string& name, const std::vector<std::int64_t>& shape) {
    const auto [found, is_new] = numbers_.emplace(name, files_.size());
    if (is_new) files_.push_back({name, "", shape});
    SFT_ENSURE(files_[found->second].shape == shape, "the parts of a stored tensor fit one another");
    return found->second;
  }

  [[nodiscard]] std::int64_t sum_of_rows(const TensorName& name, std::size_t num_parts) const {
    std::int64_t sum = 0;
    for (std::size_t part = 0; part < num_parts; ++part) sum += rows_of(layout_, name.rule->parts[part].rows);
    return sum;
  }

  /// Columns of a tensor of the files from `first` on, whose rows have `width`.
  struct Columns {
    std::int64_t first, width;
  };

  /// In each head of the file row 2 i comes from row i, and row 2 i + 1 from row i + rotary_dim / 2; others stay.
  void map_pairs(std::size_t file, std::int64_t rows, const Columns& columns, MappedTensor& mapped) {
    const std::int64_t half = layout_.rotary_dim / 2, dim = layout_.head_dim, width = columns.width;
    SFT_ENSURE(dim > 0 && rows % dim == 0, "heads are whole");
    for (std::int64_t row = 0; row < rows; row += dim) {
      const std::int64_t first = row * width + columns.first;
      if (half > 0) {
        mapped.stripes.push_back({row, half, file, first, 2 * width});
        mapped.stripes.push_back({row + half, half, file, first + width, 2 * width});
      }
      if (2 * half == dim) continue;
      mapped.stripes.push_back({row + 2 * half, dim - 2 * half, file, first + 2 * half * width, width});
    }
  }

  /// The rank of every adapter in files with fused modules: the largest sum of the ranks of parts. Readers that know no
  /// rank_pattern take the scale of all adapters from one rank.
  [[nodiscard]] std::int64_t common_rank() const {
    std::int64_t largest = 0;
    for (const auto& [module, parts] : ranks_) {
      std::int64_t sum = 0;
      for (const auto& [part, rank] : parts) sum += rank;
      largest = std::max(largest, sum);
    }
    return largest;
  }

  /// Whether adapters of all modules get one rank and a scale that follows from it and lora_alpha.
  [[nodiscard]] bool is_joined() const { return lora_ != nullptr && has_parts_; }

  /// The scale of an adapter by that one.
  [[nodiscard]] float factor_of(const std::string& tensor) const {
    constexpr std::string_view prefix = "base_model.model.", suffix = ".lora_B.weight";
    const std::string module = tensor.substr(prefix.size(), tensor.size() - prefix.size() - suffix.size());
    const double joined = lora_->beside_whole_weights().lora_alpha / static_cast<double>(common_rank());
    return static_cast<float>(lora_->size_of(module).scale / joined);
  }

  /// What an adapter began with is a further part of it.
  void map_adapter(const TensorName& name, bool is_start, std::int64_t rows, std::int64_t width, MappedTensor& mapped) {
    const bool is_a = name.kind == TensorKind::lora_a;
    std::map<AdapterPart, std::int64_t> ranks = ranks_[name.stored_module()];
    const AdapterPart own{name.part, is_start};
    ranks.emplace(own, is_a ? rows : width);  // of a B without an A
    std::int64_t before = 0, total = 0;
    for (const auto& [part, rank] : ranks) {
      if (part < own) before += rank;
      total += rank;
    }
    if (is_joined()) total = common_rank();
    if (adapters_ == AdapterRanks::shared) {
      before = 0;
      total = ranks.begin()->second;
    }
    const std::string stored = name.stored();
    if (is_a) {
      mapped.stripes.push_back({0, rows, file_of(stored, {total, width}), before * width, width});
      return;
    }
    if (name.rule != nullptr && name.rule->cut == Cut::rotary_pairs) {
      map_pairs(file_of(stored, {rows, total}), rows, {.first = before, .width = total}, mapped);
      return;
    }
    if (name.rule == nullptr || name.rule->parts.size() == 1) {
      mapped.stripes.push_back({0, rows, file_of(stored, {rows, total}), before, total});
      return;
    }
    const std::size_t file = file_of(stored, {sum_of_rows(name, name.rule->parts.size()), total});
    mapped.stripes.push_back({0, rows, file, sum_of_rows(name, name.part) * total + before, total});
  }

  /// Of an expert's adapter, which is in PEFT's of all experts. B comes expert by expert at first (StackedTensor).
  MappedTensor map_factor(const ExpertFactor& factor, const io::TensorInfo& tensor) {
    const std::map<std::string, StackedRows>& of_module = stacked_.at(factor.experts);
    const StackedRows& stacked = of_module.at(factor.parameter);
    const bool is_inner = of_module.size() > 1 && factor.parameter == of_module.rbegin()->first;
    const TensorName name = name_of(layout_, fmt::format("base_model.model.{}.weight", factor.experts));
    const std::string stored = fmt::format("{}{}.lora_{}.weight", name.stored_module(), is_inner ? ".base_layer" : "",
                                           factor.is_a ? "A" : "B");
    const std::int64_t rows = tensor.shape[0], width = tensor.shape[1];
    MappedTensor mapped{.shape = tensor.shape};
    if (factor.is_a) {
      const std::size_t file = file_of(stored, {stacked.num_experts * rows, width});
      mapped.stripes.push_back({0, rows, file, factor.expert * rows * width, width});
      return mapped;
    }
    const std::size_t num_files = files_.size(), file = file_of(stored, {stacked.of_b, width * stacked.num_experts});
    if (file == num_files) stacked_tensors_.push_back({file, stacked.num_experts, stacked.of_b, width});
    const std::int64_t first_row = factor.expert * stacked.of_b + factor.part * rows;
    mapped.stripes.push_back({0, rows, file, first_row * width, width});
    return mapped;
  }

  void map_expert(const TensorName& name, std::int64_t rows, std::int64_t width, MappedTensor& mapped) {
    const std::int64_t num_experts = layout_.num_experts;
    SFT_ENSURE(name.expert < num_experts, "an expert has its place in the files");
    const std::int64_t first = name.expert * rows * width;
    if (name.kind == TensorKind::bias) {
      mapped.stripes.push_back({0, rows, file_of(name.stored(), {num_experts, rows}), first, 1});
    } else if (!layout_.is_mxfp4) {
      mapped.stripes.push_back({0, rows, file_of(name.stored(), {num_experts, rows, width}), first, width});
    } else {  // blocks run along the inner dim, so each expert's matrix is transposed
      mapped.stripes.push_back({0, rows, file_of(name.stored(), {num_experts, width, rows}), first, 1, rows});
    }
  }

  /// Of PEFT's adapter of a weight of all experts.
  struct StackedRows {
    std::int64_t num_experts = 0, of_b = 0;
  };

  const FileLayout& layout_;
  AdapterRanks adapters_;
  const config::Lora* lora_;
  bool has_parts_ = false;  ///< adapters on parts of stored matrices
  std::vector<FileTensor> files_;
  std::map<std::string, std::size_t> numbers_;
  std::map<std::string, std::map<AdapterPart, std::int64_t>> ranks_;   ///< of adapters, by stored module
  std::map<std::string, std::map<std::string, StackedRows>> stacked_;  ///< by the module and the weight of experts
  std::vector<StackedTensor> stacked_tensors_;
};

}  // namespace

TensorMap::TensorMap(const FileLayout& layout, const std::vector<io::TensorInfo>& model, AdapterRanks adapters,
                     const config::Lora* lora) {
  Mapper mapper(layout, adapters, lora);
  for (const io::TensorInfo& tensor : model) mapper.note_adapter(tensor);
  for (const io::TensorInfo& tensor : model) model_.emplace(tensor.name, mapper.map(tensor));
  files_ = mapper.take();
  stacked_ = mapper.take_stacked();
}

std::vector<Run> TensorMap::runs(const std::string& name, const io::Rectangle& where) const {
  const MappedTensor& mapped = tensor(name);
  std::vector<Run> runs;
  if (where.num_elements() == 0) return runs;
  const std::int64_t row_end = where.row_begin + where.num_rows;
  auto stripe = std::ranges::upper_bound(mapped.stripes, where.row_begin, {}, &Stripe::row_begin) - 1;
  for (; stripe != mapped.stripes.end() && stripe->row_begin < row_end; ++stripe) {
    const std::int64_t begin = std::max(where.row_begin, stripe->row_begin);
    const std::int64_t end = std::min(row_end, stripe->row_begin + stripe->num_rows);
    const std::int64_t first =
        stripe->first + (begin - stripe->row_begin) * stripe->row_stride + where.column_begin * stripe->column_stride;
    const std::int64_t memory = (begin - where.row_begin) * where.num_columns;
    if (stripe->column_stride != 1) {
      for (std::int64_t column = 0; column < where.num_columns; ++column) {
        runs.push_back(
            {stripe->tensor, first + column * stripe->column_stride, end - begin, memory + column, where.num_columns});
      }
    } else if (stripe->row_stride == where.num_columns) {
      runs.push_back({stripe->tensor, first, (end - begin) * where.num_columns, memory});
    } else {
      for (std::int64_t row = 0; row < end - begin; ++row) {
        runs.push_back(
            {stripe->tensor, first + row * stripe->row_stride, where.num_columns, memory + row * where.num_columns});
      }
    }
  }
  std::ranges::sort(runs, {}, [](const Run& run) { return std::pair(run.tensor, run.first); });
  return runs;
}

}  // namespace sft::hub
