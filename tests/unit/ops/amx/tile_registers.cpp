// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/amx/tile_registers.hpp"

#include <algorithm>
#include <atomic>
#include <cstring>

namespace sft::ops::testing {
namespace {

std::atomic<int> configured_threads{0};
std::atomic<std::int64_t> configurations{0};

/// The memory that LDTILECFG reads.
struct Config {
  std::uint8_t palette, start_row, reserved[14];
  std::uint16_t row_bytes[16];
  std::uint8_t rows[16];
};
static_assert(sizeof(Config) == 64);

void require(bool holds, const char* problem) {
  if (!holds) throw TileFault(problem);
}

// Neighbours in a row of a tile, in vector registers that every processor has: float32, or pairs of bf16.
constexpr int lanes = 4;
using Floats [[gnu::vector_size(lanes * 4)]] = float;
using Words [[gnu::vector_size(lanes * 4)]] = std::uint32_t;

Words words_at(const std::uint32_t* from) {
  Words words;
  std::memcpy(&words, from, sizeof(words));
  return words;
}

/// Numbers below 2^-126 are 0, whether they are read or written.
Floats flushed(Words bits) {
  const auto is_normal = reinterpret_cast<Words>((bits & 0x7f800000U) != 0U);
  return reinterpret_cast<Floats>(bits & (is_normal | 0x80000000U));
}
Floats flushed(Floats x) { return flushed(reinterpret_cast<Words>(x)); }

Floats firsts_of(Words pairs) { return flushed(pairs << 16U); }
Floats seconds_of(Words pairs) { return flushed(pairs & 0xffff0000U); }

}  // namespace

void TileRegisters::configure(const void* config) {
  Config c;
  std::memcpy(&c, config, sizeof(c));
  if (c.palette == 0) return release();
  require(c.palette == 1, "LDTILECFG: palettes are 0 and 1");
  require(c.start_row == 0, "LDTILECFG: starts where no instruction was interrupted");
  require(std::all_of(c.reserved, c.reserved + sizeof(c.reserved), [](int byte) { return byte == 0; }),
          "LDTILECFG: reserved bytes are not 0");
  for (int tile = 0; tile < 16; ++tile) {
    const Shape shape{c.rows[tile], c.row_bytes[tile]};
    require(shape.rows <= max_rows && shape.row_bytes <= max_row_bytes, "LDTILECFG: a tile is too large");
    require((shape.rows == 0) == (shape.row_bytes == 0),
            "LDTILECFG: a tile has rows without bytes, or bytes without rows");
    require(tile < num_tiles || shape.rows == 0, "LDTILECFG: there are 8 tiles");
  }
  for (int tile = 0; tile < num_tiles; ++tile) shapes_[tile] = {c.rows[tile], c.row_bytes[tile]};
  std::memset(words_, 0, sizeof(words_));
  if (!is_configured_) ++configured_threads;
  ++configurations;
  is_configured_ = true;
}

void TileRegisters::release() {
  if (is_configured_) --configured_threads;
  is_configured_ = false;
}

void TileRegisters::zero(int tile) {
  (void)shape_of(tile);
  std::memset(words_[tile], 0, sizeof(words_[tile]));
}

void TileRegisters::load(int tile, const void* base, std::ptrdiff_t stride) {
  const Shape& shape = shape_of(tile);
  zero(tile);
  for (int r = 0; r < shape.rows; ++r) {
    std::memcpy(words_[tile][r], static_cast<const std::byte*>(base) + r * stride, shape.row_bytes);
  }
}

void TileRegisters::store(int tile, void* base, std::ptrdiff_t stride) const {
  const Shape& shape = shape_of(tile);
  for (int r = 0; r < shape.rows; ++r) {
    std::memcpy(static_cast<std::byte*>(base) + r * stride, words_[tile][r], shape.row_bytes);
  }
}

// A row's sums of first and of second numbers of pairs are apart until its last pair. The product of two bf16 numbers
// is exact in float32, but where it is below 2^-126: a product and a sum round as the fused operation of the
// instruction.
void TileRegisters::multiply_add(int sums, int left, int right) {
  const Shape &c = shape_of(sums), &a = shape_of(left), &b = shape_of(right);
  require(sums != left && sums != right && left != right, "TDPBF16PS: a tile is named twice");
  require(a.row_bytes % 4 == 0 && b.row_bytes % 4 == 0 && c.row_bytes % 4 == 0, "TDPBF16PS: rows end within a pair");
  require(a.rows == c.rows, "TDPBF16PS: sums have not the rows of the left tile");
  require(b.row_bytes == c.row_bytes, "TDPBF16PS: sums have not the columns of the right tile");
  require(a.row_bytes == 4 * b.rows, "TDPBF16PS: tiles have not as many pairs along the sums");
  constexpr int vectors = max_row_bytes / 4 / lanes;
  Floats firsts[max_rows][vectors], seconds[max_rows][vectors];  // of the right tile
  for (int p = 0; p < b.rows; ++p) {
    for (int v = 0; v < vectors; ++v) {
      firsts[p][v] = firsts_of(words_at(&words_[right][p][v * lanes]));
      seconds[p][v] = seconds_of(words_at(&words_[right][p][v * lanes]));
    }
  }
  for (int m = 0; m < c.rows; ++m) {
    Floats first_sums[vectors] = {}, second_sums[vectors] = {}, results[vectors];
    for (int p = 0; p < b.rows; ++p) {
      const Words pair = Words{} + words_[left][m][p];
      const Floats first = firsts_of(pair), second = seconds_of(pair);
#pragma GCC unroll 4
      for (int v = 0; v < vectors; ++v) {
        first_sums[v] = flushed(first_sums[v] + first * firsts[p][v]);
        second_sums[v] = flushed(second_sums[v] + second * seconds[p][v]);
      }
    }
    for (int v = 0; v < vectors; ++v) {
      const Floats before = flushed(words_at(&words_[sums][m][v * lanes]));
      results[v] = flushed(before + flushed(first_sums[v] + second_sums[v]));
    }
    std::memcpy(words_[sums][m], results, static_cast<std::size_t>(c.row_bytes));
  }
}

const TileRegisters::Shape& TileRegisters::shape_of(int tile) const {
  require(is_configured_, "the tiles of this thread are not configured");
  require(tile >= 0 && tile < num_tiles, "there are 8 tiles");
  require(shapes_[tile].rows != 0, "a tile is used that is not configured");
  return shapes_[tile];
}

TileRegisters& tiles_of_thread() {
  static thread_local TileRegisters tiles;
  return tiles;
}

int num_configured_threads() { return configured_threads; }
std::int64_t num_configurations() { return configurations; }

}  // namespace sft::ops::testing
