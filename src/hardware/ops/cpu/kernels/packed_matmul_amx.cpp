// SPDX-License-Identifier: Apache-2.0
// Matrix products of bf16 numbers in AMX tiles, on copies of both operands in the order that tiles read them. Tiles
// multiply so fast that a product waits for memory about as long: c is fetched before it is written, and sums are
// rounded while the next ones are made.

#include "ops/cpu/kernels.hpp"
#include "ops/cpu/kernels/amx_packing.hpp"
#include "ops/cpu/kernels/amx_tile.hpp"

namespace sft::ops::cpu::SFT_ISA {

void enter_packed_matmul_amx(Kernels& table);

namespace {

/// Terms of sums at a time: a panel of b stays in a first-level cache of 48 KiB.
constexpr std::int64_t block_terms = 512;
/// Rows of a and columns of b at a time, at most: their copies, and sums that wait, share a second-level cache of 2
/// MiB.
constexpr std::int64_t most_block_rows = 512, block_columns = 128;
constexpr std::int64_t panel_sums = panel_lines * panel_lines;

// The sums of a panel of a and one of b are tiles 0 to 3, row by row.

void clear_sums() {
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
}

void load_sums(const float* from, std::int64_t stride) {
  finish_stores();
  const std::int64_t bytes = stride * 4;
  _tile_loadd(0, from, bytes);
  _tile_loadd(1, from + tile_lines, bytes);
  _tile_loadd(2, from + tile_lines * stride, bytes);
  _tile_loadd(3, from + tile_lines * stride + tile_lines, bytes);
}

void store_sums(float* to, std::int64_t stride) {
  const std::int64_t bytes = stride * 4;
  _tile_stored(0, to, bytes);
  _tile_stored(1, to + tile_lines, bytes);
  _tile_stored(2, to + tile_lines * stride, bytes);
  _tile_stored(3, to + tile_lines * stride + tile_lines, bytes);
}

/// Adds the products of the panels to the sums; of the upper tile of a alone, if its lower one has no lines. Loads of a
/// leave the first-level cache to b, whose panel the next one of a reads again. Calls `beside` after every 32 terms.
template <bool has_lower, class Beside>
void add_products(const Bf16* a, const Bf16* b, std::int64_t depth, Beside& beside) {
  for (std::int64_t term = 0; term < depth; term += tile_terms) {
    const Bf16 *left = a + term * panel_lines, *right = b + term * panel_lines;
    finish_stores();
    _tile_stream_loadd(4, left, 64);
    if constexpr (has_lower) _tile_stream_loadd(5, left + tile_numbers, 64);
    _tile_loadd(6, right, 64);
    _tile_loadd(7, right + tile_numbers, 64);
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    if constexpr (has_lower) {
      _tile_dpbf16ps(2, 5, 6);
      _tile_dpbf16ps(3, 5, 7);
    }
    beside.step();
  }
}

/// The part of c that one panel of a and one of b make.
template <class C>
struct Target {
  std::int64_t row = 0, column = 0, rows = 0, columns = 0;
  C* c = nullptr;
  std::int64_t stride = 0;

  [[nodiscard]] bool is_whole() const { return rows == panel_lines && columns == panel_lines; }
  [[nodiscard]] C* at(std::int64_t i) const { return c + i * stride; }
  void write(std::int64_t i, const C* numbers) const {
    if (columns == panel_lines) {  // a copy of a size that the compiler knows
      __builtin_memcpy(at(i), numbers, panel_lines * sizeof(C));
    } else {
      __builtin_memcpy(at(i), numbers, columns * sizeof(C));
    }
  }
};

/// Sums that are rounded, some rows at a time, to where they belong.
class Rounding {
 public:
  /// Rounds the sums of tiles, once those before are.
  void begin(const Target<Bf16>& target) {
    finish();
    store_sums(sums_, panel_lines);
    target_ = target;
    row_ = 0;
  }
  void step(std::int64_t num_rows) {
    for (const std::int64_t end = min(target_.rows, row_ + num_rows); row_ < end; ++row_) {
      Bf16 rounded[panel_lines];
      round_rows(rounded, panel_lines, sums_ + row_ * panel_lines, panel_lines, {1, panel_lines});
      target_.write(row_, rounded);
    }
  }
  void finish() { step(panel_lines); }

 private:
  alignas(64) float sums_[panel_sums];
  Target<Bf16> target_;
  std::int64_t row_ = 0;
};

/// What happens while the tiles of two panels multiply: sums before them are rounded, and the part of c behind them
/// comes nearer.
template <class C>
class Beside {
 public:
  Rounding rounding;

  /// A product of so many steps begins; `next` has no rows where nothing of c is needed.
  void begin(const Target<C>& next, std::int64_t num_steps) {
    next_ = next;
    row_ = 0;
    rows_of_step_ = divide_up(panel_lines, num_steps);
  }
  void step() {
    for (const std::int64_t end = min(next_.rows, row_ + rows_of_step_); row_ < end; ++row_) {
      __builtin_prefetch(next_.at(row_), 1);
      __builtin_prefetch(next_.at(row_) + next_.columns - 1, 1);
    }
    rounding.step(rows_of_step_);
  }

 private:
  Target<C> next_;
  std::int64_t rows_of_step_ = panel_lines, row_ = 0;
};

/// Rows, terms and columns of a product that are copied at a time.
struct Block {
  std::int64_t row, rows, term, depth, column, columns;
  bool is_first, is_last;  ///< of the terms

  [[nodiscard]] std::int64_t num_steps() const { return divide_up(depth, tile_terms); }  ///< of two panels
};

/// A product on the calling thread, whose tiles are configured: in blocks, as packed_matmul.cpp has them. The scratch
/// has packed_matmul_floats(64, whether c is bf16) floats or more, and is used while this lives.
template <class C>
class AmxProduct {
 public:
  AmxProduct(const MatmulArguments& product, Scratch scratch) : product_(product) {
    const auto floats = [&](std::int64_t rows) {
      return (rows + block_columns) * block_terms / 2 + (keeps_sums() ? rows * block_columns : 0);
    };
    while (rows_ > panel_lines && floats(rows_) > scratch.num_floats) rows_ /= 2;
    b_ = reinterpret_cast<Bf16*>(scratch.data);
    a_ = b_ + block_columns * block_terms;
    kept_ = reinterpret_cast<float*>(a_ + rows_ * block_terms);
    if (keeps_sums()) {
      const std::int64_t room = scratch.num_floats - (kept_ - scratch.data);
      group_columns_ = room / rows_ / block_columns * block_columns;
    }
  }

  void run() {
    for (std::int64_t row = 0; row < product_.m; row += rows_) {
      for (std::int64_t column = 0; column < product_.n; column += group_columns_) multiply_group(row, column);
    }
    beside_.rounding.finish();
  }

 private:
  static constexpr bool in_place = sizeof(C) == sizeof(float);
  static_assert((panel_lines + block_columns) * block_terms / 2 + (in_place ? 0 : panel_lines * block_columns) <=
                packed_matmul_floats(64, !in_place));

  [[nodiscard]] bool keeps_sums() const { return !in_place && product_.k > block_terms; }

  void multiply_group(std::int64_t row, std::int64_t first_column) {
    const std::int64_t end_column = min(product_.n, first_column + group_columns_);
    for (std::int64_t term = 0; term < product_.k; term += block_terms) {
      const std::int64_t depth = min(block_terms, product_.k - term);
      Block block{row, min(rows_, product_.m - row), term, depth, 0, 0, term == 0, term + depth == product_.k};
      pack_panels<Form::lines>(a_, product_.rows(row, term, block.rows, depth));
      for (block.column = first_column; block.column < end_column; block.column += block_columns) {
        block.columns = min(block_columns, end_column - block.column);
        pack_panels<Form::pairs>(b_, product_.columns(block.column, term, block.columns, depth));
        multiply_block(block, kept_ + (block.column - first_column) * panel_lines);
      }
    }
  }

  void multiply_block(const Block& block, float* kept) {
    for (std::int64_t column = 0; column < block.columns; column += panel_lines) {
      for (std::int64_t row = 0; row < block.rows; row += panel_lines) {
        float* const sums = kept + row * group_columns_ + column * panel_lines;
        const Target<C> target = target_of(block, row, column);
        begin_sums(target, block, sums);
        Target<C> next;
        if (in_place || block.is_last) {
          const bool is_column_done = row + panel_lines >= block.rows;
          next =
              is_column_done ? target_of(block, 0, column + panel_lines) : target_of(block, row + panel_lines, column);
        }
        beside_.begin(next, block.num_steps());
        const std::int64_t panel_terms = block.num_steps() * tile_terms;
        const Bf16 *a = a_ + row * panel_terms, *b = b_ + column * panel_terms;
        if (target.rows > tile_lines) {
          add_products<true>(a, b, block.depth, beside_);
        } else {
          add_products<false>(a, b, block.depth, beside_);
        }
        finish_sums(target, block, sums);
      }
    }
  }

  /// Without columns behind the block.
  [[nodiscard]] Target<C> target_of(const Block& block, std::int64_t row, std::int64_t column) const {
    const std::int64_t first_row = block.row + row, first_column = block.column + column;
    if (column >= block.columns) return {};
    return {first_row,
            first_column,
            min(panel_lines, block.rows - row),
            min(panel_lines, block.columns - column),
            product_.result(first_row, first_column),
            product_.c_stride};
  }

  void begin_sums(const Target<C>& target, const Block& block, const float* kept) const {
    if (!block.is_first && !in_place) return load_sums(kept, panel_lines);
    if (block.is_first && !product_.has_terms_before()) return clear_sums();
    if constexpr (in_place) {
      const bool are_in_c = !block.is_first || product_.bias == nullptr;
      if (are_in_c && target.is_whole()) return load_sums(target.c, target.stride);
    }
    alignas(64) float sums[panel_sums] = {};
    for (std::int64_t i = 0; i < target.rows; ++i) {
      if (block.is_first) {
        product_.read_terms_before(sums + i * panel_lines, target.row + i, target.column, target.columns);
      } else {
        __builtin_memcpy(sums + i * panel_lines, target.at(i), target.columns * sizeof(C));
      }
    }
    load_sums(sums, panel_lines);
  }

  void finish_sums(const Target<C>& target, const Block& block, float* kept) {
    if constexpr (!in_place) {
      if (!block.is_last) return store_sums(kept, panel_lines);
      beside_.rounding.begin(target);
    } else {
      if (target.is_whole()) return store_sums(target.c, target.stride);
      alignas(64) float sums[panel_sums];
      store_sums(sums, panel_lines);
      for (std::int64_t i = 0; i < target.rows; ++i) target.write(i, sums + i * panel_lines);
    }
  }

  const Product<Bf16, C> product_;
  std::int64_t rows_ = most_block_rows, group_columns_ = product_.n;
  Bf16 *a_, *b_;
  float* kept_;  ///< sums of a bf16 result that wait for more terms: of the rows of a block, and of a group of columns
  Beside<C> beside_;
};

Kernels fallback;

void packed_matmul(const MatmulArguments& product, Scratch scratch) {
  if (!product.has_bf16_operands) return fallback.packed_matmul(product, scratch);
  [[maybe_unused]] const AmxTiles tiles;
  if (product.has_bf16_result) return AmxProduct<Bf16>(product, scratch).run();
  AmxProduct<float>(product, scratch).run();
}

}  // namespace

void enter_packed_matmul_amx(Kernels& table) {
  fallback = table;
  table.packed_matmul = packed_matmul;
}

}  // namespace sft::ops::cpu::SFT_ISA
