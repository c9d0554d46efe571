// SPDX-License-Identifier: Apache-2.0
#pragma once
// Named tensors in storage, whatever its format: what a model's state is read from and written to. A format implements
// one or both of these interfaces; what fills the memory of a rank from a source, or empties it into a sink
// (checkpoint/state.hpp), knows the interfaces alone.
//
// Names are "ENTRY/PARAMETER", as in "model/model.norm.weight" or "exp_avg/model.norm.weight". A format that stores
// weights alone, under other names perhaps, gives them as those of the entry that they are.

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/core/four_bits.hpp"

namespace sft::io {

/// A rectangle of a 1-D or 2-D tensor (1-D: columns = 1, column_begin = 0). One without elements is legal.
struct Rectangle {
  std::int64_t row_begin = 0, num_rows = 0, column_begin = 0, num_columns = 1;

  [[nodiscard]] std::int64_t num_elements() const { return num_rows * num_columns; }
};

struct TensorInfo {
  std::string name;                 ///< "model/model.norm.weight"
  std::vector<std::int64_t> shape;  ///< of the whole tensor: one or two dims
  DType dtype = DType::float32;     ///< as it is stored

  [[nodiscard]] std::int64_t num_elements() const;
};

/// Tensors that can be read. Each rank reads on its own; nothing is collective. Errors are data Errors that name the
/// file, and the tensor where one is concerned.
class TensorSource {
 public:
  virtual ~TensorSource() = default;
  /// The file or folder, for messages.
  [[nodiscard]] virtual const std::string& path() const = 0;
  /// Every tensor, those of an entry one after the other, numbers in names by value (layers.2 before layers.10).
  [[nodiscard]] virtual std::vector<TensorInfo> tensors() const = 0;
  /// Reads a rectangle of the tensor `name` into host memory: (num_rows, num_columns) of `dtype`, row-major. Exact
  /// where `dtype` holds every number of the stored one, else rounded to the nearest. std::logic_error for a dtype that
  /// the format cannot give.
  virtual void read(const std::string& name, const Rectangle& where, DType dtype, void* values) const = 0;
  /// The matrix `name` in 4 bits, where it is stored so and its rows are whole blocks; none: read() has its numbers.
  [[nodiscard]] virtual std::optional<FourBitMatrix> read_four_bits(const std::string& name) const {
    static_cast<void>(name);
    return std::nullopt;
  }
};

/// Tensors that are written, by all ranks together: each writes the rectangles that it owns, every element of a tensor
/// by exactly one rank. What all ranks agree on (names, shapes, dtypes) and how a file is finished is each format's
/// own.
class TensorSink {
 public:
  virtual ~TensorSink() = default;
  /// Writes a rectangle of the tensor `name` from host memory: (num_rows, num_columns) of `dtype`, float32, bf16 or
  /// uint8, row-major. Local. Throws a data Error that names the file when it cannot be written.
  virtual void write(const std::string& name, const Rectangle& where, DType dtype, const void* values) = 0;
};

/// The entry of a tensor's name: what is before the first "/".
[[nodiscard]] std::string entry_of(const std::string& name);

/// `values` as numbers of `dtype`, float32 or bf16 (to the nearest, ties to even), at `out`: for sources whose files
/// hold float32. std::logic_error for another dtype.
void convert(std::span<const float> values, DType dtype, void* out);

/// `count` float32 or bf16 numbers as float32, which is exact: `values` itself, or `scratch` filled.
[[nodiscard]] const float* as_float32(const void* values, DType dtype, std::size_t count, std::vector<float>& scratch);

}  // namespace sft::io
