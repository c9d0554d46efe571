// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/adapter_source.hpp"

#include <algorithm>
#include <cstddef>
#include <string_view>

#include "sft/checkpoint/checkpoint.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::string_view held_entry = "adapter/", start_entry = "adapter_start/", shown_entry = "model/";

}  // namespace

AdapterSource::AdapterSource(const std::string& folder) : checkpoint_(open_source(folder)) {
  std::vector<io::TensorInfo> starts;
  const auto note = [&](const std::string& shown, const io::TensorInfo& held, std::int64_t row, std::int64_t column) {
    const std::int64_t num_columns = held.shape.size() > 1 ? held.shape[1] : 1;
    parts_[shown].push_back({held.name, row, column, held.shape[0], num_columns});
  };
  for (const io::TensorInfo& held : checkpoint_->tensors()) {
    if (held.name.starts_with(start_entry)) starts.push_back(held);
    if (!held.name.starts_with(held_entry)) continue;
    io::TensorInfo& shown = tensors_.emplace_back(held);
    shown.name = std::string(shown_entry) + held.name.substr(held_entry.size());
    note(shown.name, held, 0, 0);
  }
  for (const io::TensorInfo& held : starts) {
    const std::string name = std::string(shown_entry) + held.name.substr(start_entry.size());
    const auto whole = std::ranges::find(tensors_, name, &io::TensorInfo::name);
    if (whole == tensors_.end()) continue;
    const std::size_t dim = name.ends_with("lora_A.weight") ? 0 : 1;  // along which ranks are counted
    note(name, held, dim == 0 ? whole->shape[0] : 0, dim == 0 ? 0 : whole->shape[1]);
    whole->shape[dim] += held.shape[dim];
  }
}

void AdapterSource::read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const {
  for (const Part& part : parts_.at(name)) {
    const std::int64_t row_begin = std::max(where.row_begin, part.row_begin),
                       row_end = std::min(where.row_begin + where.num_rows, part.row_begin + part.num_rows),
                       column_begin = std::max(where.column_begin, part.column_begin),
                       column_end =
                           std::min(where.column_begin + where.num_columns, part.column_begin + part.num_columns);
    if (row_begin >= row_end || column_begin >= column_end) continue;
    const io::Rectangle held{row_begin - part.row_begin, row_end - row_begin, column_begin - part.column_begin,
                             column_end - column_begin};
    const std::size_t element = size_of(dtype), row_bytes = held.num_columns * element;
    std::vector<std::byte> read(held.num_elements() * element);
    checkpoint_->read(part.held, held, dtype, read.data());
    for (std::int64_t row = 0; row < held.num_rows; ++row) {
      const std::int64_t to =
          (row_begin - where.row_begin + row) * where.num_columns + column_begin - where.column_begin;
      std::copy_n(read.data() + row * row_bytes, row_bytes, static_cast<std::byte*>(values) + to * element);
    }
  }
}

}  // namespace sft::checkpoint
