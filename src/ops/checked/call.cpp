// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/call.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <stdexcept>

namespace sft::ops::checked {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

std::string text_of(DTypes dtypes) {
  std::vector<std::string_view> names;
  for (const DType dtype : {DType::float32, DType::bf16, DType::float64, DType::int32, DType::uint8}) {
    if (dtypes.contains(dtype)) names.push_back(name_of(dtype));
  }
  return fmt::format("{}", fmt::join(names, " or "));
}

/// Whether there are rows, and they do not follow each other.
bool has_gaps(const ConstTensor& x) { return x.ndim > 0 && x.shape[0] > 1 && x.stride0 != x.row_elements(); }

std::string text_of(const ConstTensor& x) {
  if (x.ndim == 0) return "empty";
  std::string text = fmt::format("{} {}", text_of(shape_of(x)), name_of(x.dtype));
  if (has_gaps(x)) text += fmt::format(", its rows {} elements apart", x.stride0);
  if (x.data == nullptr) text += ", without memory";
  return text;
}

/// Where the rows of a tensor lie, in bytes.
struct Rows {
  std::int64_t begin, size, pitch, count;

  explicit Rows(const ConstTensor& x)
      : begin(static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(x.data))),
        size(x.row_elements() * static_cast<std::int64_t>(size_of(x.dtype))),
        pitch(has_gaps(x) ? x.stride0 * static_cast<std::int64_t>(size_of(x.dtype)) : size),
        count(x.shape[0]) {
    if (pitch != size) return;
    size *= count;
    count = 1;
  }
  [[nodiscard]] std::int64_t end() const { return begin + (count - 1) * pitch + size; }
};

bool are_same(const ConstTensor& a, const ConstTensor& b) {
  const Rows a_rows(a), b_rows(b);
  return a.data == b.data && a.dtype == b.dtype && a_rows.size == b_rows.size && a_rows.count == b_rows.count &&
         (a_rows.count == 1 || a_rows.pitch == b_rows.pitch);
}

}  // namespace

bool share_memory(const ConstTensor& a, const ConstTensor& b) {
  if (a.empty() || b.empty()) return false;
  const Rows rows(a), others(b);
  if (rows.end() <= others.begin || others.end() <= rows.begin) return false;
  for (std::int64_t i = 0; i < rows.count; ++i) {
    const std::int64_t begin = rows.begin + i * rows.pitch;
    // The first row of the others that ends behind `begin`.
    const std::int64_t before = begin - (others.begin + others.size);
    const std::int64_t first = others.count == 1 || before < 0 ? 0 : before / others.pitch + 1;
    if (first < others.count && others.begin + first * others.pitch < begin + rows.size &&
        others.begin + first * others.pitch + others.size > begin) {
      return true;
    }
  }
  return false;
}

DType compute_of(const Call& call, std::string_view name, const ConstTensor& x) {
  call.require(any_compute.contains(x.dtype), fmt::format("{} has another dtype than float32 and bf16", name));
  return x.dtype;
}

void Call::in(std::string_view name, const ConstTensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
              Layout layout) {
  check(name, x, shape, dtypes, layout);
  operands_.push_back({name, x, false});
}

void Call::out(std::string_view name, const Tensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
               Layout layout) {
  check(name, x, shape, dtypes, layout);
  operands_.push_back({name, x, true});
}

void Call::may_be(std::string_view name, std::string_view other) { exceptions_.push_back({name, other}); }

void Call::check_memory() const {
  for (const Operand& written : operands_) {
    if (!written.is_written) continue;
    for (const Operand& other : operands_) {
      if (&other == &written || !share_memory(written.tensor, other.tensor)) continue;
      require(is_exception(written, other) && are_same(written.tensor, other.tensor),
              fmt::format("{} shares memory with {}", written.name, other.name));
    }
  }
}

void Call::require_dims(std::string_view name, const ConstTensor& x, int ndim) const {
  require(x.ndim == ndim, fmt::format("{} is {}; it must have {} dims", name, text_of(x), ndim));
}

void Call::require(bool holds, const std::string& problem) const {
  if (!holds) throw std::logic_error(fmt::format("internal error: {}: {}", op_, problem));
}

void Call::check(std::string_view name, const ConstTensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
                 Layout layout) const {
  const bool rows_fit = !has_gaps(x) || (layout == Layout::strided && x.stride0 >= x.row_elements());
  const bool has_memory = x.data != nullptr || x.num_elements() == 0;
  if (shape_of(x) == shape && dtypes.contains(x.dtype) && rows_fit && has_memory) return;
  require(false, fmt::format("{} is {}; it must be {} {}{}", name, text_of(x), text_of(shape), text_of(dtypes),
                             layout == Layout::contiguous ? ", contiguous" : ""));
}

bool Call::is_exception(const Operand& a, const Operand& b) const {
  return std::ranges::any_of(exceptions_, [&](const Exception& pair) {
    return (pair.name == a.name && pair.other == b.name) || (pair.name == b.name && pair.other == a.name);
  });
}

}  // namespace sft::ops::checked
