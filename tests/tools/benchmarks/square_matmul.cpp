// SPDX-License-Identifier: Apache-2.0
#include "tools/benchmarks/square_matmul.hpp"

#include <bit>
#include <cstddef>
#include <cstdint>
#include <oneapi/dnnl/dnnl.hpp>

#include "ops/cpu/onednn_matmul.hpp"

namespace sft::bench {

struct SquareMatmul::Impl {
  Impl(int n, DType wanted) : size(n), dtype(wanted) {
    if (!describe()) dtype = DType::float32;  // bf16 on AVX2
    const dnnl::memory::desc descriptor = square();
    product = dnnl::matmul(describe());
    for (dnnl::memory* matrix : {&a, &b, &c}) *matrix = dnnl::memory(descriptor, engine);
    for (const dnnl::memory* matrix : {&a, &b}) fill(*matrix);
  }

  [[nodiscard]] dnnl::memory::desc square() const {
    return {{size, size},
            dtype == DType::bf16 ? dnnl::memory::data_type::bf16 : dnnl::memory::data_type::f32,
            dnnl::memory::format_tag::ab};
  }
  /// Converts to false when oneDNN has no product of this dtype.
  [[nodiscard]] dnnl::matmul::primitive_desc describe() const {
    return ops::cpu::describe_matmul(engine, square(), square(), nullptr, square(), {});
  }

  /// Numbers of mixed size: some processors run faster on zeros.
  void fill(const dnnl::memory& matrix) const {
    const std::size_t num_elements = square().get_size() / size_of(dtype);
    for (std::size_t i = 0; i < num_elements; ++i) {
      const float value = static_cast<float>((i * 2654435761U) % 1024) / 512.0f - 1.0f;
      const auto bits = std::bit_cast<std::uint32_t>(value);
      if (dtype == DType::bf16) {
        static_cast<std::uint16_t*>(matrix.get_data_handle())[i] = static_cast<std::uint16_t>(bits >> 16);
      } else {
        static_cast<float*>(matrix.get_data_handle())[i] = value;
      }
    }
  }

  int size;
  DType dtype;
  dnnl::engine engine{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream{engine};
  dnnl::matmul product;
  dnnl::memory a, b, c;
};

SquareMatmul::SquareMatmul(int size, DType dtype) : impl_(std::make_unique<Impl>(size, dtype)) {}
SquareMatmul::~SquareMatmul() = default;

void SquareMatmul::run() {
  impl_->product.execute(impl_->stream,
                         {{DNNL_ARG_SRC, impl_->a}, {DNNL_ARG_WEIGHTS, impl_->b}, {DNNL_ARG_DST, impl_->c}});
  impl_->stream.wait();
}

double SquareMatmul::flops() const {
  const double n = impl_->size;
  return 2.0 * n * n * n;
}

}  // namespace sft::bench
