// SPDX-License-Identifier: Apache-2.0
#include "entry_memory.hpp"

#include <span>

#include "sft/core/ensure.hpp"

namespace sft::checkpoint {

void EntryMemory::clear_padding(const Entry& entry) {
  if (entry.in_file != nullptr) return;  // a file has zeros there from its beginning, and nobody writes them
  std::int64_t end = 0;                  // of the parts so far
  const auto clear_up_to = [&](std::int64_t begin) {
    if (begin == end) return;
    const Tensor zeros = entry.tensor.rows(end, begin - end);
    device_.fill_zero(zeros.data, zeros.size_bytes(), stream_);
  };
  for (const parallel::StoredPart& part : entry.layout->parts(*entry.shard_map)) {
    clear_up_to(part.where.shard_offset);
    end = part.where.shard_offset + part.where.num_rows * part.where.num_columns;
  }
  clear_up_to(entry.tensor.num_elements());
}

void EntryMemory::put(const std::string& source, const Entry& entry, const parallel::Parameter& parameter,
                      const io::Rectangle& where, std::int64_t begin, DType dtype, const void* values) {
  const std::size_t count = where.num_elements();
  const bool is_model = entry.name == "model", is_adapter = entry.name == "adapter";
  SFT_ENSURE((dtype == DType::uint8) == (entry.dtype() == DType::uint8), "codes are no numbers");
  if (is_model || is_adapter || dtype != entry.dtype()) {
    const std::span<const float> numbers(io::as_float32(values, dtype, count, values_), count);
    const std::string name = entry.name + "/" + parameter.name;
    if (is_model) seen_.add(source, name, parameter, where, numbers);
    if (is_adapter) require_finite(source, name, where, numbers);
    if (dtype != entry.dtype()) {
      converted_.resize(count * size_of(entry.dtype()));
      io::convert(numbers, entry.dtype(), converted_.data());
      values = converted_.data();
    }
  }
  const ConstTensor read(values, entry.dtype(), {where.num_elements()});
  if (entry.in_file != nullptr) return entry.in_file->write(begin, read);
  device_.copy(entry.tensor.rows(begin, read.num_elements()).data, read.data, read.size_bytes(), stream_);
  stream_.synchronize();
}

}  // namespace sft::checkpoint
