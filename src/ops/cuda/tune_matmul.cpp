// SPDX-License-Identifier: Apache-2.0
// Which of the algorithms that cuBLASLt proposes is fastest on this GPU, product by product.

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <vector>

#include "ops/backends.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/matmul.hpp"
#include "ops/cuda/view.hpp"
#include "ops/product_key.hpp"
#include "sft/core/ensure.hpp"

namespace sft::ops::cuda {
namespace {

constexpr std::size_t line_bytes = 256;  ///< the largest alignment that algorithms ask for

std::size_t aligned(std::size_t bytes) { return (bytes + line_bytes - 1) / line_bytes * line_bytes; }

/// Bytes from the first element to the last.
std::size_t span_bytes(const ConstTensor& x) {
  if (x.data == nullptr) return 0;
  const std::int64_t rows = x.ndim == 2 ? x.shape[0] : 1, columns = x.ndim == 2 ? x.shape[1] : x.shape[0];
  const std::int64_t stride = rows > 1 ? x.stride0 : columns;
  return static_cast<std::size_t>((rows - 1) * stride + columns) * size_of(x.dtype);
}

/// Memory for the operands of one product at a time, as aligned as those of the run.
class Operands {
 public:
  Operands(device::Device& device, std::size_t most_bytes, cudaStream_t stream)
      : device_(device), most_bytes_(most_bytes), stream_(stream) {}

  /// `product` with operands that are there and have normal numbers; nothing where there is no room for them.
  [[nodiscard]] std::optional<Matmul> place(const Matmul& product) {
    Matmul placed = product;
    const std::size_t bytes = needs(product.a) + needs(product.b) + needs(product.c) + needs(product.bias);
    if (bytes > most_bytes_) return std::nullopt;
    if (bytes > num_bytes_) {
      block_ = nullptr;
      block_ = device_.allocate(bytes);
      num_bytes_ = bytes;
    }
    used_bytes_ = 0;
    placed.a = fill(product.a);
    placed.b = fill(product.b);
    placed.c = fill(product.c);
    placed.bias = fill(product.bias);
    SFT_ENSURE(key_of(placed) == key_of(product), "tune_matmul: the same product in other memory");
    return placed;
  }

 private:
  static std::size_t needs(const ConstTensor& x) { return aligned(span_bytes(x) + line_bytes); }

  /// `x` in the next part of the block, as far from a line of memory as it is now.
  [[nodiscard]] Tensor fill(const ConstTensor& x) {
    Tensor placed(nullptr, x.dtype, {1});
    placed.ndim = x.ndim;
    placed.shape = x.shape;
    placed.stride0 = x.stride0;
    if (x.data == nullptr) return placed;
    auto* const begin =
        static_cast<std::byte*>(block_.get()) + used_bytes_ + reinterpret_cast<std::uintptr_t>(x.data) % line_bytes;
    used_bytes_ += needs(x);
    placed.data = begin;
    // Between rows too. Zeros would draw less power, and the clock would be faster than in a run.
    const auto elements = static_cast<std::int64_t>(span_bytes(x) / size_of(x.dtype));
    constexpr std::uint64_t seed = 1;
    fill_normal(flat_view_of(Tensor(begin, x.dtype, {elements})), seed, 0, 1.0F, stream_);
    return placed;
  }

  device::Device& device_;
  std::size_t most_bytes_, num_bytes_ = 0, used_bytes_ = 0;
  cudaStream_t stream_;
  device::Device::Block block_;
};

}  // namespace

std::string matmul_library(const device::Device& device) {
  return fmt::format("cuBLASLt {} on {}", cublasLtGetVersion(), device.description());
}

MatmulTuning tune_matmul(device::Device& device, std::span<const Matmul> products, const MatmulAlgorithms& known) {
  MatmulTuning tuning;
  tuning.algorithms.library = matmul_library(device);
  if (known.library == tuning.algorithms.library) tuning.algorithms = known;
  const std::unique_ptr<device::Stream> stream = device.make_stream();
  const auto native = static_cast<cudaStream_t>(stream->native());
  const device::Device::Block scratch = device.allocate(scratch_bytes);
  const device::OwnMemory memory = device.own_memory().value_or(device::OwnMemory{});
  Operands operands(device, (memory.total_bytes - std::min(memory.used_bytes, memory.total_bytes)) / 3, native);
  MatmulEngine engine(native);
  for (const Matmul& product : products) {
    const std::string name = key_of(product).text();
    if (tuning.algorithms.of_products.contains(name)) continue;
    const std::optional<Matmul> placed = operands.place(product);
    if (!placed) {
      ++tuning.num_without_memory;
      continue;
    }
    const MatmulEngine::Timing timing = engine.time(*placed, {scratch.get(), scratch_bytes});
    tuning.algorithms.of_products.emplace(name, timing.algorithm);
    ++tuning.num_measured;
    tuning.seconds_first += timing.first_s;
    tuning.seconds_fastest += timing.fastest_s;
  }
  stream->synchronize();
  return tuning;
}

}  // namespace sft::ops::cuda
