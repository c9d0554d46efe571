// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/tensor_map.hpp"

#include <algorithm>
#include <utility>

#include "family_rules.hpp"
#include "sft/core/ensure.hpp"
#include "tensor_names.hpp"

namespace sft::hub {

namespace {

std::string without_entry(const std::string& name) { return name.substr(name.find('/') + 1); }

/// The model's tensors, one after the other, turned into those of files.
class Mapper {
 public:
  Mapper(const FileLayout& layout, AdapterRanks adapters) : layout_(layout), adapters_(adapters) {}

  /// Notes that a part of a stored matrix has an adapter, before any is mapped.
  void note_adapter(const io::TensorInfo& tensor) {
    const TensorName name = name_of(layout_, without_entry(tensor.name));
    if (name.kind == TensorKind::lora_a && name.rule != nullptr)
      ranks_[name.stored_module()][name.part] = tensor.shape[0];
  }

  MappedTensor map(const io::TensorInfo& tensor) {
    const TensorName name = name_of(layout_, without_entry(tensor.name));
    const std::int64_t rows = tensor.shape[0], width = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
    MappedTensor mapped{tensor.shape, {}};
    const auto whole = [&](std::size_t file, std::int64_t first, std::int64_t row_stride) {
      mapped.stripes.push_back({0, rows, file, first, row_stride});
    };
    if (name.rule == nullptr || (name.kind == TensorKind::lora_a && name.rule->parts.size() == 1)) {
      whole(file_of(name.stored(), tensor.shape), 0, width);
      return mapped;
    }
    if (name.kind == TensorKind::lora_a || name.kind == TensorKind::lora_b) {
      map_adapter(name, rows, width, mapped);
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
        map_pairs(file_of(name.stored(), tensor.shape), rows, width, mapped);
        break;
      case Cut::experts:
        map_expert(name, rows, width, mapped);
        break;
    }
    return mapped;
  }

  std::vector<FileTensor> take() { return std::move(files_); }

 private:
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

  /// In each head of the file row 2 i comes from row i, and row 2 i + 1 from row i + rotary_dim / 2; others stay.
  void map_pairs(std::size_t file, std::int64_t rows, std::int64_t width, MappedTensor& mapped) {
    const std::int64_t half = layout_.rotary_dim / 2, dim = layout_.head_dim;
    SFT_ENSURE(dim > 0 && rows % dim == 0, "heads are whole");
    for (std::int64_t row = 0; row < rows; row += dim) {
      const std::int64_t first = row * width;
      if (half > 0) {
        mapped.stripes.push_back({row, half, file, first, 2 * width});
        mapped.stripes.push_back({row + half, half, file, first + width, 2 * width});
      }
      if (2 * half == dim) continue;
      mapped.stripes.push_back({row + 2 * half, dim - 2 * half, file, first + 2 * half * width, width});
    }
  }

  void map_adapter(const TensorName& name, std::int64_t rows, std::int64_t width, MappedTensor& mapped) {
    const std::map<std::size_t, std::int64_t>& ranks = ranks_.at(name.stored_module());
    std::int64_t before = 0, total = 0;
    for (const auto& [part, rank] : ranks) {
      if (part < name.part) before += rank;
      total += rank;
    }
    if (adapters_ == AdapterRanks::shared) {
      before = 0;
      total = ranks.begin()->second;
    }
    const std::string stored = name.stored();
    if (name.kind == TensorKind::lora_a) {
      mapped.stripes.push_back({0, rows, file_of(stored, {total, width}), before * width, width});
      return;
    }
    if (name.rule->cut == Cut::rotary_pairs) {
      map_pairs(file_of(stored, {rows, width}), rows, width, mapped);
      return;
    }
    const std::size_t file = file_of(stored, {sum_of_rows(name, name.rule->parts.size()), total});
    mapped.stripes.push_back({0, rows, file, sum_of_rows(name, name.part) * total + before, total});
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

  const FileLayout& layout_;
  AdapterRanks adapters_;
  std::vector<FileTensor> files_;
  std::map<std::string, std::size_t> numbers_;
  std::map<std::string, std::map<std::size_t, std::int64_t>> ranks_;  ///< of adapters, by stored module and part
};

}  // namespace

TensorMap::TensorMap(const FileLayout& layout, const std::vector<io::TensorInfo>& model, AdapterRanks adapters) {
  Mapper mapper(layout, adapters);
  for (const io::TensorInfo& tensor : model) mapper.note_adapter(tensor);
  for (const io::TensorInfo& tensor : model) model_.emplace(tensor.name, mapper.map(tensor));
  files_ = mapper.take();
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
