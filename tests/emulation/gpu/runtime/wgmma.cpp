// SPDX-License-Identifier: Apache-2.0
#include "runtime/wgmma.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "runtime/block_state.hpp"
#include "runtime/running.hpp"
#include "runtime/shadow.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

constexpr int warp_size = 32, depth = 16, rows_of_warp = 16, max_columns = 256;
constexpr std::uintptr_t pattern_bytes = 1024;  ///< of the swizzle: the hardware looks at addresses

std::uintptr_t window_begin() {
  return reinterpret_cast<std::uintptr_t>(running.shared_begin) / pattern_bytes * pattern_bytes;
}

float value_of_bf16(std::uint32_t bits) {
  bits <<= 16;
  float value = 0;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}

/// A tile in shared memory as a descriptor names it: with the 128-byte swizzle, which is all that kernels here use.
class Operand {
 public:
  Operand(std::uint64_t descriptor, bool is_transposed)
      : start_((descriptor & 0x3fff) << 4),
        leading_(((descriptor >> 16) & 0x3fff) << 4),
        stride_(((descriptor >> 32) & 0x3fff) << 4),
        is_transposed_(is_transposed) {
    if (descriptor >> 62 != 1 || ((descriptor >> 49) & 7) != 0) {
      fault(where_running() + ": wgmma of a tile without the 128-byte swizzle, or with a base offset");
    }
    if (start_ / 128 % 8 != 0) fault(where_running() + ": wgmma of rows that are not the first of 8 of the swizzle");
  }

  /// Where element (row, k) is: 16 k, which the sum goes over.
  [[nodiscard]] const char* at(int row, int k) const {
    const std::uintptr_t linear = is_transposed_
                                      ? start_ + row / 64 * leading_ + row % 64 * 2 + k / 8 * stride_ + k % 8 * 128
                                      : start_ + row / 8 * stride_ + row % 8 * 128 + k * 2;
    return reinterpret_cast<const char*>(window_begin() + (linear ^ (linear / 128 % 8 * 16)));
  }
  [[nodiscard]] float value(int row, int k) const {
    std::uint16_t bits = 0;
    std::memcpy(&bits, at(row, k), sizeof bits);
    return value_of_bf16(bits);
  }
  /// Of rows [begin, begin + count), 8 numbers at a time, as one thread reads them.
  void check(int begin, int count) const {
    for (int row = begin; row < begin + count; row += is_transposed_ ? 8 : 1) {
      for (int k = 0; k < depth; k += is_transposed_ ? 1 : 8) {
        const char* const place = at(row, k);
        if (place < running.shared_begin || place + 16 > running.shared_end) {
          fault(where_running() + ": wgmma reads beyond the block's shared memory");
        }
        check_access(place, 16, 16, Access::read, "wgmma");
      }
    }
  }

 private:
  std::uintptr_t start_, leading_, stride_;
  bool is_transposed_;
};

/// 1 + SFT_EMULATED_WGMMA_WRONG: what products are multiplied with, which are right without that variable.
float factor_of_products() {
  static const char* const text = std::getenv("SFT_EMULATED_WGMMA_WRONG");
  static const float factor = text == nullptr ? 1.0F : 1.0F + std::strtof(text, nullptr);
  return factor;
}

int rows_begin_of_warp() { return static_cast<int>(running.thread) % 128 / warp_size * rows_of_warp; }

void check_tiles(const Wgmma& product) {
  if (product.a_registers == nullptr) Operand(product.a, false).check(rows_begin_of_warp(), rows_of_warp);
  Operand(product.b, product.transposes_b).check(0, product.columns);
}

/// What the product has of the 16 rows of a warp; products[lane] is the same one, as that lane has started it.
void compute(StartedWgmma* const* products) {
  const Wgmma& any = products[0]->product;
  check_tiles(any);
  static float a[rows_of_warp][depth], b[depth][max_columns];
  for (int lane = 0; lane < warp_size; ++lane) {
    const StartedWgmma& started = *products[lane];
    if (started.product.a_registers == nullptr) continue;
    if (!std::equal(started.a_values.begin(), started.a_values.end(), started.product.a_registers)) {
      fault(where_running() + ": registers that wgmma reads were written before it was waited for");
    }
    for (int i = 0; i < 4; ++i) {
      for (int half = 0; half < 2; ++half) {
        a[lane / 4 + i % 2 * 8][lane % 4 * 2 + i / 2 * 8 + half] =
            value_of_bf16(started.a_values[i] >> (16 * half) & 0xffffU);
      }
    }
  }
  if (any.a_registers == nullptr) {
    const Operand operand(any.a, false);
    for (int row = 0; row < rows_of_warp; ++row) {
      for (int k = 0; k < depth; ++k) a[row][k] = operand.value(rows_begin_of_warp() + row, k);
    }
  }
  for (int i = 0; i < any.columns / 8; ++i) count_matrix_product();  // of 16 x 8 x 16
  const Operand operand(any.b, any.transposes_b);
  for (int column = 0; column < any.columns; ++column) {
    for (int k = 0; k < depth; ++k) b[k][column] = operand.value(column, k);
  }
  for (int lane = 0; lane < warp_size; ++lane) {
    const Wgmma& product = products[lane]->product;
    std::vector<float>& sums = *products[lane]->sums;
    for (int i = 0; i < product.columns / 2; ++i) {
      const int row = lane / 4 + i / 2 % 2 * 8, column = i / 4 * 8 + lane % 4 * 2 + i % 2;
      float sum = 0;
      for (int k = 0; k < depth; ++k) sum += a[row][k] * b[k][column];
      sums[i] = (product.adds ? sums[i] : 0.0F) + factor_of_products() * sum;
    }
  }
}

}  // namespace

std::uint32_t shared_address(const void* pointer) {
  return static_cast<std::uint32_t>(reinterpret_cast<std::uintptr_t>(pointer) - window_begin());
}

void show_to_wgmma() { block().current().wgmma.has_hidden_copies = false; }

void begin_wgmma() { block().current().wgmma.has_begun = true; }

void start_wgmma(const Wgmma& product, Site site) {
  const InRuntime in_runtime;
  BlockThread& self = block().current();
  if (!self.wgmma.has_begun) fault(where_running() + ": wgmma without a wgmma.fence behind the last wait");
  block().check_copies_are_shown();
  StartedWgmma started{product, {}, nullptr};
  if (product.a_registers != nullptr) std::copy_n(product.a_registers, 4, started.a_values.begin());
  auto& sums = self.wgmma.sums[product.d];
  if (sums == nullptr) {
    sums = std::make_shared<std::vector<float>>(product.d, product.d + product.columns / 2);
    std::memset(product.d, 0xff, static_cast<std::size_t>(product.columns / 2) * sizeof(float));
  }
  started.sums = sums;
  self.wgmma.uncommitted.push_back(started);
  const std::uint64_t shape = product.b ^ product.a << 1 ^ static_cast<std::uint64_t>(product.columns) << 40;
  self.wgmma.trace = (self.wgmma.trace ^ shape ^ (product.adds ? 1U : 0U)) * 0x9e3779b97f4a7c15U;
  Wgmma copy = product;
  warp_collective(
      "wgmma", &copy, [](void* const* lanes) { check_tiles(*static_cast<const Wgmma*>(lanes[0])); }, site);
}

void commit_wgmma() {
  auto& wgmma = block().current().wgmma;
  wgmma.groups.push_back(std::move(wgmma.uncommitted));
  wgmma.uncommitted.clear();
}

void wait_wgmma(int num_groups, Site site) {
  struct Wait {
    ThreadWgmma* wgmma;
    std::size_t num_done;
  };
  const InRuntime in_runtime;
  ThreadWgmma& wgmma = block().current().wgmma;
  const std::size_t num_left = std::min(wgmma.groups.size(), static_cast<std::size_t>(num_groups));
  Wait wait{&wgmma, wgmma.groups.size() - num_left};
  warp_collective(
      "wgmma.wait_group", &wait,
      [](void* const* lanes) {
        const auto& first = *static_cast<const Wait*>(lanes[0]);
        for (std::size_t group = 0; group < first.num_done; ++group) {
          for (std::size_t i = 0; i < first.wgmma->groups[group].size(); ++i) {
            StartedWgmma* products[warp_size];
            for (int lane = 0; lane < warp_size; ++lane) {
              auto& groups = static_cast<const Wait*>(lanes[lane])->wgmma->groups;
              if (groups.size() <= group || groups[group].size() <= i) {
                fault(where_running() + ": lanes of a warp have started different products");
              }
              products[lane] = &groups[group][i];
            }
            compute(products);
          }
        }
      },
      site);
  wgmma.groups.erase(wgmma.groups.begin(), wgmma.groups.begin() + static_cast<std::ptrdiff_t>(wait.num_done));
  wgmma.has_begun = false;
  for (auto entry = wgmma.sums.begin(); entry != wgmma.sums.end();) {
    const auto is_of_entry = [&](const StartedWgmma& started) { return started.sums == entry->second; };
    const bool is_under_way = std::any_of(wgmma.groups.begin(), wgmma.groups.end(), [&](const auto& group) {
      return std::any_of(group.begin(), group.end(), is_of_entry);
    });
    if (is_under_way) {
      ++entry;
      continue;
    }
    std::copy(entry->second->begin(), entry->second->end(), entry->first);
    entry = wgmma.sums.erase(entry);
  }
}

}  // namespace sft::emulation
