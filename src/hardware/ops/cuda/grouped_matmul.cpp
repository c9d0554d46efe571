// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/grouped_matmul.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <mutex>

#include "ops/cuda/cublas_calls.hpp"
#include "ops/cuda/cublas_support.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/product_key.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/core/log.hpp"

namespace sft::ops::cuda {
namespace {

/// Bytes that the library promises to take operands of bf16 at, whatever their sizes.
constexpr std::uintptr_t alignment_bytes = 16;
constexpr std::size_t workspace_alignment_bytes = 256;

bool is_aligned(const ConstTensor& x) { return reinterpret_cast<std::uintptr_t>(x.data) % alignment_bytes == 0; }

/// The length of its sums.
std::int64_t terms_of(const Matmul& product) { return product.a.shape[product.transpose_a ? 0 : 1]; }

/// Whether the library promises to take the product, which is not empty.
bool is_taken(const Matmul& product, const ProductLimits& limits) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  if (a.dtype != c.dtype || (accumulate && bias.data != nullptr) || terms_of(product) == 0) return false;
  if (a.dtype == DType::bf16) {
    for (const ConstTensor& operand : {a, b, ConstTensor(c)}) {
      const std::int64_t stride_bytes = row_stride(operand) * static_cast<std::int64_t>(size_of(operand.dtype));
      if (!is_aligned(operand) || stride_bytes % static_cast<std::int64_t>(alignment_bytes) != 0) return false;
    }
  }
  const ProductBlock block = block_of(product, limits);
  return block.m == c.shape[0] && block.n == c.shape[1] && block.k == terms_of(product);
}

/// What the host tells the library of each product: of c^T = op(b)^T op(a)^T, as matrices lie column by column there.
struct Sizes {
  std::vector<cublasOperation_t> transposes_a, transposes_b;
  std::vector<int> m, n, k, lda, ldb, ldc, group_sizes;
  std::vector<float> alpha, beta;

  void add(const Matmul& product) {
    const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
    transposes_a.push_back(transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    transposes_b.push_back(transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    m.push_back(static_cast<int>(c.shape[1]));
    n.push_back(static_cast<int>(c.shape[0]));
    k.push_back(static_cast<int>(terms_of(product)));
    lda.push_back(static_cast<int>(row_stride(b)));
    ldb.push_back(static_cast<int>(row_stride(a)));
    ldc.push_back(static_cast<int>(row_stride(c)));
    group_sizes.push_back(1);
    alpha.push_back(1.0F);
    beta.push_back(accumulate || bias.data != nullptr ? 1.0F : 0.0F);
  }
};

/// What the GPU is told: addresses of the operands, and of biases with where the rows of each product end among all.
class Addresses {
 public:
  explicit Addresses(const std::vector<Matmul>& products) : num_products_(products.size()) {
    for (const auto& member : {&Matmul::b, &Matmul::a}) {
      for (const Matmul& product : products) words_.push_back(reinterpret_cast<std::uint64_t>((product.*member).data));
    }
    for (const Matmul& product : products) words_.push_back(reinterpret_cast<std::uint64_t>(product.c.data));
    if (products.front().bias.data == nullptr) return;
    for (const Matmul& product : products) words_.push_back(reinterpret_cast<std::uint64_t>(product.bias.data));
    std::uint64_t end = 0;
    for (const Matmul& product : products) words_.push_back(end += static_cast<std::uint64_t>(product.c.shape[0]));
  }

  /// Queues their way to `to` and returns the memory behind them.
  [[nodiscard]] Workspace upload_to(Workspace to, cudaStream_t stream) {
    if (words_.size() % 2 != 0) words_.push_back(0);  // upload() copies 16 bytes at a time
    const std::size_t bytes = words_.size() * sizeof(std::uint64_t);
    const std::size_t taken =
        (bytes + workspace_alignment_bytes - 1) / workspace_alignment_bytes * workspace_alignment_bytes;
    SFT_ENSURE(taken <= to.num_bytes, "ops: the workspace holds the addresses of experts");
    upload(to.data, words_.data(), bytes, stream);
    first_ = static_cast<std::uint64_t*>(to.data);
    return {static_cast<std::byte*>(to.data) + taken, to.num_bytes - taken};
  }

  [[nodiscard]] const void* const* b() const { return reinterpret_cast<const void* const*>(first_); }
  [[nodiscard]] const void* const* a() const { return reinterpret_cast<const void* const*>(first_ + num_products_); }
  [[nodiscard]] void* const* c() const { return reinterpret_cast<void* const*>(first_ + 2 * num_products_); }
  [[nodiscard]] const void* const* biases() const {
    return reinterpret_cast<const void* const*>(first_ + 3 * num_products_);
  }
  [[nodiscard]] const std::uint64_t* ends() const { return first_ + 4 * num_products_; }

 private:
  std::size_t num_products_;
  std::vector<std::uint64_t> words_;
  std::uint64_t* first_ = nullptr;  ///< in device memory
};

/// Every row of the products' results becomes the bias of its expert, to which the product is then added: in float32,
/// with one rounding at the end.
void fill_biases(const std::vector<Matmul>& products, const Addresses& addresses, cudaStream_t stream) {
  const Matmul& first = products.front();
  BiasRows rows{.c = addresses.c(),
                .biases = addresses.biases(),
                .ends = addresses.ends(),
                .num_groups = static_cast<std::int64_t>(products.size()),
                .num_rows = 0,
                .num_columns = first.c.shape[1],
                .is_bf16 = first.c.dtype == DType::bf16,
                .is_aligned = true};
  // A group of one row has no stride of its own.
  rows.stride = first.c.stride0;
  for (const Matmul& product : products) {
    SFT_ENSURE(product.c.shape[0] <= 1 || product.c.stride0 == rows.stride, "ops: rows of experts lie alike");
    SFT_ENSURE(product.bias.dtype == product.c.dtype, "ops: biases are as results");
    rows.num_rows += product.c.shape[0];
    rows.is_aligned = rows.is_aligned && is_aligned(product.c) && is_aligned(product.bias);
  }
  cuda::fill_biases(rows, stream);
}

}  // namespace

GroupedMatmulEngine::~GroupedMatmulEngine() {
  if (library_ != nullptr) cublasDestroy_v2(library_);
}

bool GroupedMatmulEngine::has_library() {
  if (library_ != nullptr) return true;
  if (is_missing_) return false;
  try {
    sft_find_grouped_gemm();
  } catch (const Error& error) {
    is_missing_ = true;
    static std::once_flag once;
    std::call_once(once, [&] {
      log_warning(
          fmt::format("products of experts run one by one, which is slower (cuBLAS 12.5 is needed for groups "
                      "of them; {}): install a newer cuBLAS beside cuBLASLt",
                      error.what()));
    });
    return false;
  }
  check(cublasCreate_v2(&library_), "cublasCreate");
  check(cublasSetStream_v2(library_, stream_), "cublasSetStream");
  return true;
}

bool GroupedMatmulEngine::run(const std::vector<Matmul>& products, Workspace workspace) {
  std::vector<Matmul> taken;
  std::ranges::copy_if(products, std::back_inserter(taken), [](const Matmul& product) {
    return !product.c.empty() && !(product.accumulate && terms_of(product) == 0);
  });
  if (taken.size() < 2) return false;
  if (!std::ranges::all_of(taken, [&](const Matmul& product) { return is_taken(product, limits_); })) return false;
  if (!has_library()) return false;
  Sizes sizes;
  for (const Matmul& product : taken) sizes.add(product);
  Addresses addresses(taken);
  const Workspace rest = addresses.upload_to(workspace, stream_);
  if (taken.front().bias.data != nullptr) fill_biases(taken, addresses, stream_);
  // After cublasSetStream, which takes the library back to memory of its own.
  check(cublasSetWorkspace_v2(library_, rest.data, rest.num_bytes), "cublasSetWorkspace");
  const cudaDataType_t type = type_of(taken.front().a);
  note_launch("cublasGemmGroupedBatchedEx", stream_);
  // No TF32: its products have 10 bits.
  check(cublasGemmGroupedBatchedEx(library_, sizes.transposes_a.data(), sizes.transposes_b.data(), sizes.m.data(),
                                   sizes.n.data(), sizes.k.data(), sizes.alpha.data(), addresses.b(), type,
                                   sizes.lda.data(), addresses.a(), type, sizes.ldb.data(), sizes.beta.data(),
                                   addresses.c(), type, sizes.ldc.data(), static_cast<int>(taken.size()),
                                   sizes.group_sizes.data(), CUBLAS_COMPUTE_32F),
        "cublasGemmGroupedBatchedEx");
  return true;
}

}  // namespace sft::ops::cuda
