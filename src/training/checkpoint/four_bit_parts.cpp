// SPDX-License-Identifier: Apache-2.0
#include "four_bit_parts.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

using parallel::LogicalRectangle;
using parallel::Parameter;
using parallel::Piece;
using parallel::UnitIndex;

constexpr std::int64_t read_elements = std::int64_t{1} << 20;
constexpr std::int64_t staging_bytes = std::int64_t{1} << 20;

const char* name_of(const FourBitForm& form) {
  if (form.type == FourBitType::nf4) return form.is_nested ? "nf4 with nested scales" : "nf4";
  return form.is_nested ? "fp4 with nested scales" : "fp4";
}

/// Rows [begin, end) of a matrix.
struct Rows {
  std::int64_t begin, end;
};

class FourBitLoader {
 public:
  FourBitLoader(const io::TensorSource& source, const Entry& entry, device::Device& device, device::Stream& stream,
                LoadedWeights& seen)
      : source_(source),
        entry_(entry),
        form_(*entry.four_bits->part().four_bits),
        device_(device),
        stream_(stream),
        seen_(seen),
        staging_(device.allocate(staging_bytes, device::Space::pinned)) {}

  void load() {
    device_.fill_zero(entry_.tensor.data, entry_.tensor.size_bytes(), stream_);
    stream_.synchronize();
    const parallel::ShardMap& map = *entry_.shard_map;
    for (const UnitIndex unit : map.unit_indices()) {
      const std::vector<Parameter>& matrices = map.unit(unit).parameters;
      for (std::size_t i = 0; i < matrices.size(); ++i) {
        load_matrix(matrices[i], entry_.four_bits->nested_scales(unit, static_cast<int>(i)));
      }
    }
  }

 private:
  /// The part of a matrix that this rank holds.
  [[nodiscard]] std::vector<Piece> pieces_of(const Parameter& matrix) const {
    std::vector<Piece> pieces;
    std::ranges::copy_if(entry_.shard_map->pieces(), std::back_inserter(pieces),
                         [&](const Piece& piece) { return piece.parameter == &matrix; });
    return pieces;
  }

  void load_matrix(const Parameter& matrix, const Tensor& nested) {
    const std::vector<Piece> pieces = pieces_of(matrix);
    if (pieces.empty() && (!form_.is_nested || matrix.local_elements() == 0)) return;
    std::vector<LogicalRectangle> own;
    Rows rows{matrix.rows, 0};
    for (const Piece& piece : pieces) {
      for (const LogicalRectangle& part : parallel::ShardMap::rectangles(piece)) {
        own.push_back(part);
        rows = {std::min(rows.begin, part.row_begin), std::max(rows.end, part.row_begin + part.num_rows)};
      }
    }
    const std::string name = fmt::format("{}/{}", entry_.name, matrix.name);
    std::optional<FourBitMatrix> stored = source_.read_four_bits(name);
    if (stored) {
      check_form(name, stored->form);
      read_rows(matrix, name, rows, own, nullptr);
      rows = {0, matrix.rows};
    } else {
      if (form_.is_nested) rows = {0, matrix.rows};
      FourBitQuantizer quantizer(form_);
      read_rows(matrix, name, rows, own, &quantizer);
      stored = quantizer.finish();
    }
    if (form_.is_nested) {
      device_.copy(nested.data, stored->nested.data(), nested.size_bytes(), stream_);
      stream_.synchronize();
    }
    for (const LogicalRectangle& part : own) put(*stored, matrix, rows.begin, part);
  }

  void check_form(const std::string& name, const FourBitForm& form) const {
    if (form == form_) return;
    throw_data_error(fmt::format("{} of {} is in {}, not in {}", name.substr(name.find('/') + 1), source_.path(),
                                 name_of(form), name_of(form_)),
                     "codes of one kind are not turned into another",
                     "set lora.bnb_4bit_quant_type and lora.use_bnb_nested_quant as it was made, or give the model "
                     "before it was quantized");
  }

  /// Reads rows of the matrix, a few at a time, shows `seen_` what of them is `own`, and gives them to `quantizer`.
  void read_rows(const Parameter& matrix, const std::string& name, const Rows& rows,
                 const std::vector<LogicalRectangle>& own, FourBitQuantizer* quantizer) {
    const std::int64_t most = std::max<std::int64_t>(read_elements / matrix.columns, 1);
    for (std::int64_t begin = rows.begin; begin < rows.end; begin += most) {
      const io::Rectangle where{.row_begin = begin,
                                .num_rows = std::min(most, rows.end - begin),
                                .column_begin = 0,
                                .num_columns = matrix.columns};
      values_.resize(static_cast<std::size_t>(where.num_elements()));
      source_.read(name, where, DType::float32, values_.data());
      require_finite(source_.path(), name, where, values_);
      for (const LogicalRectangle& part : own) show(matrix, name, where, part);
      if (quantizer != nullptr) quantizer->add(values_);
    }
  }

  /// Shows `seen_` what of `part` is in `where`, which values_ has.
  void show(const Parameter& matrix, const std::string& name, const io::Rectangle& where,
            const LogicalRectangle& part) {
    const std::int64_t begin = std::max(part.row_begin, where.row_begin);
    const std::int64_t end = std::min(part.row_begin + part.num_rows, where.row_begin + where.num_rows);
    for (std::int64_t row = begin; row < end; ++row) {
      const std::span<const float> values(
          values_.data() + (row - where.row_begin) * where.num_columns + part.column_begin,
          static_cast<std::size_t>(part.num_columns));
      seen_.add(source_.path(), name, matrix, {row, 1, part.column_begin, part.num_columns}, values);
    }
  }

  /// Copies the records of a rectangle to their place. `stored` begins with row `first_row` of the matrix.
  void put(const FourBitMatrix& stored, const Parameter& matrix, std::int64_t first_row, const LogicalRectangle& part) {
    const std::int64_t row_blocks = matrix.columns / four_bit_block, part_blocks = part.num_columns / four_bit_block;
    const std::int64_t num_blocks = part.num_rows * part_blocks, bytes = form_.record_bytes();
    const std::int64_t most = staging_bytes / bytes;
    auto* const staging = static_cast<std::uint8_t*>(staging_.get());
    for (std::int64_t begin = 0; begin < num_blocks; begin += most) {
      const std::int64_t count = std::min(most, num_blocks - begin);
      for (std::int64_t i = begin; i < begin + count; ++i) {
        const std::int64_t row = part.row_begin - first_row + i / part_blocks;
        const std::int64_t block = row * row_blocks + part.column_begin / four_bit_block + i % part_blocks;
        stored.write_record(block, staging + (i - begin) * bytes);
      }
      const Tensor to = entry_.tensor.rows((part.shard_offset / four_bit_block + begin) * bytes, count * bytes);
      device_.copy(to.data, staging, to.size_bytes(), stream_);
      stream_.synchronize();
    }
  }

  const io::TensorSource& source_;
  const Entry& entry_;
  FourBitForm form_;
  device::Device& device_;
  device::Stream& stream_;
  LoadedWeights& seen_;
  device::Device::Block staging_;
  std::vector<float> values_;
};

}  // namespace

void load_four_bits(const io::TensorSource& source, const Entry& entry, device::Device& device, device::Stream& stream,
                    LoadedWeights& seen) {
  FourBitLoader(source, entry, device, stream, seen).load();
}

}  // namespace sft::checkpoint
