// SPDX-License-Identifier: Apache-2.0
#pragma once
// Runs an op on the CPU backend and on the CUDA backend, on the same memory, and compares all of it. The same tests are
// linked with an emulated GPU (tests/emulation) and with a real one (tests/device).

#include <omp.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::testing {

/// Whether sizes of real models are tried too: on a real GPU, which is fast enough, unless SFT_OPS_SIZES=small says
/// that a tool makes it slow.
inline bool has_large_sizes() {
#ifdef SFT_REAL_GPU
  static const bool is_asked_small = [] {
    const char* const sizes = std::getenv("SFT_OPS_SIZES");
    return sizes != nullptr && std::strcmp(sizes, "small") == 0;
  }();
  return !is_asked_small;
#else
  return false;
#endif
}

/// `sizes`, and where large ones are tried `large` behind them.
template <class T>
std::vector<T> with_large(std::vector<T> sizes, const std::vector<T>& large) {
  if (has_large_sizes()) sizes.insert(sizes.end(), large.begin(), large.end());
  return sizes;
}

/// Random numbers of a test's own `seed` and of SFT_OPS_SEED, by which all tests get other inputs; 0 by default.
inline std::mt19937 random_of(unsigned seed) {
  static const unsigned long fresh = [] {
    const char* const text = std::getenv("SFT_OPS_SEED");
    return text != nullptr ? std::strtoul(text, nullptr, 10) : 0UL;
  }();
  return std::mt19937(seed + static_cast<unsigned>(fresh) * 1000003U);
}

inline double get(const std::byte* at, DType dtype) {
  switch (dtype) {
    case DType::float32: {
      float x;
      std::memcpy(&x, at, sizeof(x));
      return x;
    }
    case DType::bf16: {
      std::uint16_t bits;
      std::memcpy(&bits, at, sizeof(bits));
      return float32_of_bf16(bits);
    }
    case DType::float64: {
      double x;
      std::memcpy(&x, at, sizeof(x));
      return x;
    }
    case DType::int32: {
      std::int32_t x;
      std::memcpy(&x, at, sizeof(x));
      return x;
    }
    case DType::uint8:
      return std::to_integer<int>(*at);
  }
  return 0.0;
}

inline void put(std::byte* at, DType dtype, double value) {
  const auto write = [&](auto x) { std::memcpy(at, &x, sizeof(x)); };
  switch (dtype) {
    case DType::float32:
      return write(static_cast<float>(value));
    case DType::bf16:
      return write(bf16_of_float32(static_cast<float>(value)));
    case DType::float64:
      return write(value);
    case DType::int32:
      return write(static_cast<std::int32_t>(value));
    case DType::uint8:
      return write(static_cast<std::uint8_t>(value));
  }
}

/// What no operation may read or write. Of floating-point numbers a signaling NaN: whatever is added to it, its bits
/// change.
inline void poison(std::byte* at, DType dtype) {
  const auto write = [&](auto bits) { std::memcpy(at, &bits, sizeof(bits)); };
  switch (dtype) {
    case DType::float32:
      return write(std::uint32_t{0x7fa00001});
    case DType::bf16:
      return write(std::uint16_t{0x7fa1});
    case DType::float64:
      return write(std::uint64_t{0x7ff4000000000001});
    case DType::int32:
      return write(std::int32_t{-7});
    case DType::uint8:
      return write(std::uint8_t{7});
  }
}

/// How a tensor lies in its memory: `gap` elements between rows, `offset` elements before the first.
struct Layout {
  std::int64_t gap = 0, offset = 0;
};
/// Contiguous and aligned; strided and aligned; strided so that hardly any row is aligned.
inline const std::vector<Layout> layouts = {{}, {.gap = 16}, {.gap = 3, .offset = 1}};
/// Of tensors that have to be contiguous.
inline const std::vector<Layout> flat_layouts = {{}, {.offset = 1}};

inline const std::vector<DType> compute_dtypes = {DType::float32, DType::bf16};

/// The name of a dtype, for texts that begin with it.
inline std::string text_of(DType dtype) { return name_of(dtype); }

/// Whose attention the CUDA backend runs: set it before the first use of the backends.
inline AttentionKernels& tested_attention() {
  static AttentionKernels kernels = AttentionKernels::own;
  return kernels;
}

/// Whether attention in this dtype is tested: where tested_attention() says whose it is.
inline bool is_tested(DType dtype) { return tested_attention() != AttentionKernels::hopper || dtype == DType::bf16; }
inline std::vector<DType> attention_dtypes() {
  std::vector<DType> dtypes;
  std::copy_if(compute_dtypes.begin(), compute_dtypes.end(), std::back_inserter(dtypes), is_tested);
  return dtypes;
}

/// The two backends, with what they need.
class Backends {
 public:
  static Backends& get() {
    static Backends backends;
    return backends;
  }

  Backend& cpu() { return *cpu_; }
  Backend& gpu() { return *gpu_; }

  [[nodiscard]] device::Device::Block allocate(std::size_t bytes) { return gpu_device_->allocate(bytes); }

  /// `bytes` of pinned memory, the same every time.
  [[nodiscard]] std::byte* staging(std::size_t bytes) {
    if (bytes > staging_bytes_) {
      staging_ = gpu_device_->allocate(bytes, device::Space::pinned);
      staging_bytes_ = bytes;
    }
    return static_cast<std::byte*>(staging_.get());
  }
  /// Queued, between device memory and staging.
  void copy(void* destination, const void* source, std::size_t bytes) {
    gpu_device_->copy(destination, source, bytes, *gpu_stream_);
  }
  void synchronize() { gpu_stream_->synchronize(); }

 private:
  static constexpr Shapes shapes{
      .tokens = 4096, .hidden = 8192, .q_heads = 32, .kv_heads = 32, .head_dim = 256, .mlp = 8192, .vocab = 32000};

  Backends() {
    omp_set_num_threads(has_large_sizes() ? omp_get_max_threads() : 1);
    AttentionNeeds needs;
    if (has_large_sizes()) needs = {.num_keys = 4096, .longest_lane = 4096, .num_kv_heads = 32, .head_dim = 256};
    if (tested_attention() == AttentionKernels::cudnn) {
      needs.library = {
          .tokens = 512, .q_heads = 8, .kv_heads = 8, .head_dim = 256, .has_backward = true, .merges = true};
      if (has_large_sizes()) {
        needs.library.tokens = 2048;
        needs.library.q_heads = 32;
      }
    }
    const auto bytes_of = [&](device::Kind kind) {
      return ops::workspace_bytes(kind, omp_get_max_threads(), shapes, needs);
    };
    const auto tensor = [](void* data, std::size_t bytes) {
      return Tensor(data, DType::bf16, {static_cast<std::int64_t>(bytes / 2)});
    };
    const std::size_t cpu_bytes = bytes_of(device::Kind::cpu), gpu_bytes = bytes_of(device::Kind::cuda);
    cpu_workspace_ = cpu_device_->allocate(cpu_bytes);
    gpu_workspace_ = gpu_device_->allocate(gpu_bytes);
    cpu_->set_workspace(tensor(cpu_workspace_.get(), cpu_bytes));
    gpu_->set_workspace(tensor(gpu_workspace_.get(), gpu_bytes));
  }

  std::unique_ptr<device::Device> cpu_device_ = device::make_device(device::Kind::cpu),
                                  gpu_device_ = device::make_device(device::Kind::cuda);
  std::unique_ptr<device::Stream> cpu_stream_ = cpu_device_->make_stream(), gpu_stream_ = gpu_device_->make_stream();
  device::Device::Block cpu_workspace_, gpu_workspace_, staging_;
  std::size_t staging_bytes_ = 0;
  std::unique_ptr<Backend> cpu_ = make_backend(*cpu_device_, *cpu_stream_),
                           gpu_ = make_backend(*gpu_device_, *gpu_stream_, tested_attention());
};

/// A tensor twice, in host and in device memory, with the same contents: NaN, also around it and between its rows,
/// until it is filled.
class Twin {
 public:
  Twin(DType dtype, std::initializer_list<std::int64_t> shape, Layout layout = {}) : cpu_(nullptr, dtype, shape) {
    constexpr std::int64_t margin = 64;  // elements, on either side
    cpu_.stride0 += layout.gap;
    const std::int64_t size = 2 * margin + layout.offset + cpu_.shape[0] * cpu_.stride0 + layout.gap;
    bytes_.resize(static_cast<std::size_t>(size) * size_of(dtype));
    offset_bytes_ = static_cast<std::size_t>(margin + layout.offset) * size_of(dtype);
    block_ = Backends::get().allocate(bytes_.size());
    gpu_ = cpu_;
    cpu_.data = bytes_.data() + offset_bytes_;
    gpu_.data = static_cast<std::byte*>(block_.get()) + offset_bytes_;
    for (std::int64_t i = 0; i < size; ++i) poison(bytes_.data() + static_cast<std::size_t>(i) * size_of(dtype), dtype);
  }
  Twin(Twin&&) = default;
  Twin& operator=(Twin&&) = default;

  [[nodiscard]] const Tensor& cpu() const { return cpu_; }
  [[nodiscard]] const Tensor& gpu() const { return gpu_; }
  [[nodiscard]] std::vector<std::byte>& bytes() { return bytes_; }
  [[nodiscard]] void* device_bytes() const { return block_.get(); }

  [[nodiscard]] std::byte* at(std::vector<std::byte>& bytes, std::int64_t row, std::int64_t column) const {
    return bytes.data() + offset_bytes_ + static_cast<std::size_t>(row * cpu_.stride0 + column) * size_of(cpu_.dtype);
  }
  /// Calls f(row, column) for all elements.
  template <class F>
  void for_each(F f) const {
    for (std::int64_t r = 0; r < cpu_.shape[0]; ++r) {
      for (std::int64_t c = 0; c < cpu_.row_elements(); ++c) f(r, c);
    }
  }
  template <class F>
  Twin&& filled(F value) && {
    for_each([&](std::int64_t r, std::int64_t c) { put(at(bytes_, r, c), cpu_.dtype, value(r, c)); });
    return std::move(*this);
  }
  Twin&& filled(double value) && {
    return std::move(*this).filled([&](std::int64_t, std::int64_t) { return value; });
  }
  Twin&& normal(unsigned seed, double stddev = 1.0, double mean = 0.0) && {
    std::mt19937 generator = random_of(seed);
    std::normal_distribution<double> distribution(mean, stddev);
    return std::move(*this).filled([&](std::int64_t, std::int64_t) { return distribution(generator); });
  }
  Twin&& uniform(unsigned seed, int low, int high) && {
    std::mt19937 generator = random_of(seed);
    std::uniform_int_distribution<int> distribution(low, high);
    return std::move(*this).filled([&](std::int64_t, std::int64_t) { return distribution(generator); });
  }

 private:
  std::vector<std::byte> bytes_;
  std::size_t offset_bytes_ = 0;
  device::Device::Block block_;
  Tensor cpu_, gpu_;
};

/// What a tensor may differ by: the sum of `of_largest` of the largest expected magnitude, `of_itself` of its own, and
/// `absolute`. All 0: by no bit, but for NaN, which may have others.
struct Tolerance {
  double of_largest = 0.0, of_itself = 0.0, absolute = 0.0;
};
/// Rounding of results: a unit of bf16, which is 2^-7 of a number at most, where the float32 results round to different
/// sides; a few of float32.
inline Tolerance tolerance_of(DType dtype) {
  if (dtype == DType::bf16) return {.of_largest = 0.004, .of_itself = 0.004};
  return {.of_largest = 3e-6};
}

/// Of sums of `num_terms` products. Tensor cores take 16 terms of bf16 at a time and cut the sum off behind each 16, at
/// its last bit: half of one on average, and no sum on the way is taken to be larger than the largest result.
inline Tolerance tolerance_of_products(DType compute, DType stored, std::int64_t num_terms) {
  Tolerance tolerance = tolerance_of(stored);
  if (compute == DType::bf16 && stored == DType::float32) {
    tolerance.of_largest += 0x1p-24 * static_cast<double>(num_terms) / 16;
  }
  return tolerance;
}

/// An operand of an op, and whether it is compared.
struct Operand {
  Twin* twin;
  bool is_output;
  Tolerance tolerance;
};
inline Operand in(Twin& twin) { return {&twin, false, {}}; }
inline Operand out(Twin& twin, Tolerance tolerance) { return {&twin, true, tolerance}; }
inline Operand out(Twin& twin) { return out(twin, tolerance_of(twin.cpu().dtype)); }

inline void compare(Twin& twin, std::vector<std::byte>& actual, const std::vector<std::byte>& before,
                    const Operand& operand, const std::string& what) {
  const Tensor& x = twin.cpu();
  const std::size_t size = size_of(x.dtype);
  double largest = 1e-30;
  twin.for_each([&](std::int64_t r, std::int64_t c) {
    const double expected = get(twin.at(twin.bytes(), r, c), x.dtype);
    if (std::isfinite(expected)) largest = std::max(largest, std::abs(expected));
  });
  int num_wrong = 0;
  std::string first;
  std::vector<std::byte> rest = actual;  // with the elements taken out: what lies around and between them
  twin.for_each([&](std::int64_t r, std::int64_t c) {
    const double expected = get(twin.at(twin.bytes(), r, c), x.dtype), value = get(twin.at(actual, r, c), x.dtype);
    const auto place = twin.at(rest, r, c) - rest.data();
    std::memcpy(rest.data() + place, before.data() + place, size);
    const Tolerance& tolerance = operand.tolerance;
    const double allowed =
        tolerance.of_largest * largest + tolerance.of_itself * std::abs(expected) + tolerance.absolute;
    const bool is_same = value == expected || (std::isnan(value) && std::isnan(expected));
    if (is_same || (std::isfinite(expected) && std::abs(value - expected) <= allowed)) return;
    if (num_wrong++ == 0) {
      first = "[" + std::to_string(r) + ", " + std::to_string(c) + "] is " + std::to_string(value) + ", not " +
              std::to_string(expected);
    }
  });
  BOOST_TEST(num_wrong == 0,
             what << ": " << num_wrong << " of " << x.num_elements() << " are wrong, the first " << first);
  BOOST_TEST(std::memcmp(rest.data(), before.data(), rest.size()) == 0,
             what << ": memory around the tensor was written");
}

/// The memory of the operands after op on the CUDA backend.
template <class Op>
std::vector<std::vector<std::byte>> run_on_gpu(const std::vector<Operand>& operands, Op op) {
  Backends& backends = Backends::get();
  std::size_t num_bytes = 0;
  for (const Operand& operand : operands) num_bytes += operand.twin->bytes().size();
  std::byte* const staging = backends.staging(num_bytes);
  const auto for_each_part = [&](auto f) {
    std::byte* part = staging;
    for (const Operand& operand : operands) {
      f(*operand.twin, part);
      part += operand.twin->bytes().size();
    }
  };
  for_each_part([&](Twin& twin, std::byte* part) {
    std::memcpy(part, twin.bytes().data(), twin.bytes().size());
    backends.copy(twin.device_bytes(), part, twin.bytes().size());
  });
  op(backends.gpu(), [](const Twin& twin) { return twin.gpu(); });
  for_each_part([&](Twin& twin, std::byte* part) { backends.copy(part, twin.device_bytes(), twin.bytes().size()); });
  backends.synchronize();
  std::vector<std::vector<std::byte>> results;
  for_each_part([&](Twin& twin, std::byte* part) { results.emplace_back(part, part + twin.bytes().size()); });
  return results;
}

/// Calls op(backend, of) with both backends, of(twin) being the tensor for it, and with the CUDA backend once more:
/// that has to give the same bits. Inputs must keep theirs.
template <class Op>
void check(const std::string& what, const std::vector<Operand>& operands, Op op) {
  std::vector<std::vector<std::byte>> results = run_on_gpu(operands, op);
  const bool is_same_again = results == run_on_gpu(operands, op);
  BOOST_TEST(is_same_again, what << ": other bits the second time");
  std::vector<std::vector<std::byte>> before;
  for (const Operand& operand : operands) before.push_back(operand.twin->bytes());
  op(Backends::get().cpu(), [](const Twin& twin) { return twin.cpu(); });
  for (std::size_t i = 0; i < operands.size(); ++i) {
    compare(*operands[i].twin, results[i], before[i], operands[i], what + ", operand " + std::to_string(i));
  }
}

}  // namespace sft::ops::testing
