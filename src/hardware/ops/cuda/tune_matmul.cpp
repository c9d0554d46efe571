// SPDX-License-Identifier: Apache-2.0
// Which of the algorithms that cuBLASLt proposes is fastest on this GPU, product by product.

#include <cublasLt.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "ops/backends.hpp"
#include "ops/cuda/fp8_matmul.hpp"
#include "ops/cuda/matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "ops/cuda/tuning_operands.hpp"
#include "ops/product_key.hpp"
#include "ops/views/tensor.hpp"

namespace sft::ops::cuda {
namespace {

/// Measures product by product.
class Tuner {
 public:
  Tuner(device::Device& device, MatmulAlgorithms known, cudaStream_t stream)
      : tuning_{.algorithms = std::move(known)},
        scratch_(device.allocate(scratch_bytes)),
        operands_(device, bytes_for_operands(device), stream),
        engine_(stream),
        fp8_engine_(stream) {}

  void measure(const Matmul& product) {
    const std::string name = key_of(product).text();
    if (is_known(name)) return;
    measure_placed(product, [&](const Matmul& placed) {
      return std::map<std::string, ProductTiming>{{name, engine_.time(placed, workspace())}};
    });
  }

  void measure(const Fp8Matmul& product) {
    const auto parts = fp8_engine_.parts_of(product);
    if (std::ranges::all_of(parts, [&](const Fp8ProductKey& part) { return is_known(part.text()); })) return;
    measure_placed(product,
                   [&](const Fp8Matmul& placed) { return fp8_engine_.time(placed, workspace(), tuning_.algorithms); });
  }

  [[nodiscard]] const MatmulTuning& result() const { return tuning_; }

 private:
  static std::size_t bytes_for_operands(const device::Device& device) {
    const device::OwnMemory memory = device.own_memory().value_or(device::OwnMemory{});
    return (memory.total_bytes - std::min(memory.used_bytes, memory.total_bytes)) / 3;
  }

  [[nodiscard]] bool is_known(const std::string& name) const { return tuning_.algorithms.find(name) != nullptr; }
  [[nodiscard]] Workspace workspace() const { return {scratch_.get(), scratch_bytes}; }

  /// `time` gives what the product takes, or its parts, by their names.
  template <class Product, class Time>
  void measure_placed(const Product& product, const Time& time) {
    const std::optional<Product> placed = operands_.place(product);
    if (!placed) {
      ++tuning_.num_without_memory;
      return;
    }
    ++tuning_.num_measured;
    for (const auto& [name, timing] : time(*placed)) {
      tuning_.algorithms.of_products.emplace(name, timing.algorithm);
      tuning_.seconds_first += timing.first_s;
      tuning_.seconds_fastest += timing.fastest_s;
    }
  }

  MatmulTuning tuning_;
  device::Device::Block scratch_;
  TuningOperands operands_;
  MatmulEngine engine_;
  Fp8MatmulEngine fp8_engine_;
};

}  // namespace
}  // namespace sft::ops::cuda

namespace sft::ops {

std::string matmul_library(const device::Device& device) {
  return fmt::format("cuBLASLt {} on {}", cublasLtGetVersion(), device.description());
}

MatmulTuning tune_matmul(device::Device& device, const ListedProducts& products, const MatmulAlgorithms& known) {
  MatmulAlgorithms of_this{.library = matmul_library(device), .of_products = {}};
  if (known.library == of_this.library) of_this = known;
  const std::unique_ptr<device::Stream> stream = device.make_stream();
  cuda::Tuner tuner(device, std::move(of_this), static_cast<cudaStream_t>(stream->native()));
  for (const Matmul& product : products.plain) tuner.measure(product);
  for (const Fp8Matmul& product : products.in_fp8) tuner.measure(product);
  stream->synchronize();
  return tuner.result();
}

}  // namespace sft::ops
