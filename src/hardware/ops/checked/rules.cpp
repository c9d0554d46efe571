// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/rules.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <sstream>
#include <stdexcept>

namespace sft::ops::checked {

namespace {

std::string text_of(const std::vector<std::int64_t>& shape) { return fmt::format("({})", fmt::join(shape, ", ")); }

std::vector<std::int64_t> dims_of(const ConstTensor& x) { return {x.shape.begin(), x.shape.begin() + x.ndim}; }

/// The dtypes that are meant; `compute` is that of the call, if it is known.
std::string text_of(Types types, std::optional<DType> compute) {
  std::string of_call = compute ? name_of(*compute) : "float32 or bf16";
  switch (types) {
    case Types::float32:
      return name_of(DType::float32);
    case Types::bf16:
      return name_of(DType::bf16);
    case Types::float64:
      return name_of(DType::float64);
    case Types::int32:
      return name_of(DType::int32);
    case Types::uint8:
      return name_of(DType::uint8);
    case Types::compute:
      return of_call;
    case Types::compute_or_float32:
      return compute == DType::float32 ? of_call : "float32 or bf16";
    default:
      return "float32 or bf16";
  }
}

/// Whether there are rows, and they do not follow each other.
bool has_gaps(const ConstTensor& x) { return x.ndim > 0 && x.shape[0] > 1 && x.stride0 != x.row_elements(); }

std::string text_of(const ConstTensor& x) {
  if (x.ndim == 0) return "empty";
  std::string text = fmt::format("{} {}", text_of(dims_of(x)), name_of(x.dtype));
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

void Rules::in(std::string_view name, const ConstTensor& x, std::string_view dims, Types types, Form form) {
  if ((form & optional) != 0 && x.empty()) return;
  check(name, x, dims, types, form);
  operands_.push_back({name, x, false});
}

void Rules::out(std::string_view name, const Tensor& x, std::string_view dims, Types types, Form form) {
  if ((form & optional) != 0 && x.empty()) return;
  check(name, x, dims, types, form);
  operands_.push_back({name, x, true});
}

void Rules::require(bool holds, std::string_view problem) const {
  if (!holds) throw std::logic_error(fmt::format("internal error: {}: {}", op_, problem));
}

void Rules::plan(const AttentionPlan& plan, char queries, char keys) {
  require(plan.num_queries() == size_of(queries) && plan.num_keys() == size_of(keys),
          fmt::format("plan is for {} queries and {} keys", plan.num_queries(), plan.num_keys()));
}

void Rules::check_memory() const {
  for (const Operand& written : operands_) {
    if (!written.is_written) continue;
    for (const Operand& other : operands_) {
      if (&other == &written || !share_memory(written.tensor, other.tensor)) continue;
      require(is_exception(written, other) && are_same(written.tensor, other.tensor),
              fmt::format("{} shares memory with {}", written.name, other.name));
    }
  }
}

std::vector<std::int64_t> Rules::shape_of(const ConstTensor& x, std::string_view dims) {
  if (dims == "*") return dims_of(x);
  if (dims == "...") return any_dims_ ? *any_dims_ : *(any_dims_ = dims_of(x));
  std::vector<std::int64_t> shape;
  std::istringstream words{std::string(dims)};
  for (std::string word; words >> word;) {
    std::int64_t factor = 1, added = 0;
    const char* const end = word.data() + word.size();
    const char* at = std::from_chars(word.data(), end, factor).ptr;
    const bool has_factor = at != word.data();
    if (at == end) {
      shape.push_back(factor);
      continue;
    }
    std::optional<std::int64_t>& size = size_of(*at++);
    if (at != end) (void)std::from_chars(at + 1, end, added);
    if (!size && !has_factor && added == 0 && std::ssize(shape) < x.ndim) size = x.shape[shape.size()];
    shape.push_back(factor * size.value_or(0) + added);
  }
  return shape;
}

bool Rules::fits(DType dtype, Types types) {
  const bool is_compute = dtype == DType::float32 || dtype == DType::bf16;
  switch (types) {
    case Types::float32:
      return dtype == DType::float32;
    case Types::bf16:
      return dtype == DType::bf16;
    case Types::float64:
      return dtype == DType::float64;
    case Types::int32:
      return dtype == DType::int32;
    case Types::uint8:
      return dtype == DType::uint8;
    case Types::any:
      return is_compute;
    case Types::compute_or_float32:
      return dtype == DType::float32 || dtype == compute_;
    default:
      if (!compute_ && is_compute) compute_ = dtype;
      return dtype == compute_;
  }
}

void Rules::check(std::string_view name, const ConstTensor& x, std::string_view dims, Types types, Form form) {
  const std::vector<std::int64_t> shape = shape_of(x, dims);
  const bool is_type = fits(x.dtype, types);
  const bool rows_fit = !has_gaps(x) || ((form & strided) != 0 && x.stride0 >= x.row_elements());
  const bool has_memory = x.data != nullptr || x.num_elements() == 0;
  if (dims_of(x) == shape && is_type && rows_fit && has_memory) return;
  require(false, fmt::format("{} is {}; it must be {} {}{}", name, text_of(x), text_of(shape), text_of(types, compute_),
                             (form & strided) == 0 ? ", contiguous" : ""));
}

bool Rules::is_exception(const Operand& a, const Operand& b) const {
  return std::ranges::any_of(exceptions_, [&](const Exception& pair) {
    return (pair.name == a.name && pair.other == b.name) || (pair.name == b.name && pair.other == a.name);
  });
}

}  // namespace sft::ops::checked
