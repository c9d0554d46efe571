// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tile registers of Intel's Advanced Matrix Extensions in software: what the instructions of AMX-TILE and AMX-BF16
// do, and which of their uses a processor refuses.

#include <cstddef>
#include <cstdint>
#include <stdexcept>

namespace sft::ops::testing {

/// What a processor ends a program for, #UD or #GP.
class TileFault : public std::logic_error {
 public:
  using std::logic_error::logic_error;
};

/// The tiles of one thread. Every function but configure and release throws a TileFault where tiles are not configured.
/// Strides are in bytes; a tile holds zeros behind the rows and bytes that it is configured for.
class TileRegisters {
 public:
  static constexpr int num_tiles = 8, max_rows = 16, max_row_bytes = 64;

  /// LDTILECFG: takes 64 bytes, and zeroes all tiles. Throws a TileFault where they configure what is not there.
  void configure(const void* config);
  /// TILERELEASE
  void release();
  /// TILEZERO
  void zero(int tile);
  /// TILELOADD
  void load(int tile, const void* base, std::ptrdiff_t stride);
  /// TILESTORED
  void store(int tile, void* base, std::ptrdiff_t stride) const;
  /// TDPBF16PS: sums (rows, columns) float32 += left (rows, depth) right (depth, columns), paired as in bf16_pairs.hpp.
  /// Throws a TileFault where the shapes disagree or a tile is named twice.
  void multiply_add(int sums, int left, int right);

 private:
  struct Shape {
    int rows = 0, row_bytes = 0;
  };
  [[nodiscard]] const Shape& shape_of(int tile) const;

  bool is_configured_ = false;
  Shape shapes_[num_tiles];
  std::uint32_t words_[num_tiles][max_rows][max_row_bytes / 4] = {};
};

/// Those of the calling thread.
[[nodiscard]] TileRegisters& tiles_of_thread();

/// How many threads have tiles that are configured and not released.
[[nodiscard]] int num_configured_threads();
/// How often any thread has configured its tiles.
[[nodiscard]] std::int64_t num_configurations();

}  // namespace sft::ops::testing
