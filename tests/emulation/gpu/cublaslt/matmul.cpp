// SPDX-License-Identifier: Apache-2.0
// cublasLtMatmul: checks of what the real library refuses, then the product as queued work.

#include <cublasLt.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "algo.hpp"
#include "handle.hpp"
#include "product.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft::emulation;

namespace {

Verdict invalid(const std::string& why) { return {CUBLAS_STATUS_INVALID_VALUE, why}; }

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

/// An operand in device memory.
struct Region {
  const char* name;
  const void* data;
  std::size_t bytes;
  std::uint32_t alignment_bytes;
};

Verdict judge_region(const Region& region, cudaStream_t stream) {
  const std::string name = region.name;
  if (region.data == nullptr) return invalid(name + " is null");
  if (alignment_of(region.data, region.alignment_bytes) < region.alignment_bytes) {
    return invalid(name + " is not aligned to " + std::to_string(region.alignment_bytes) +
                   " bytes, as the query for the algorithm promised");
  }
  if (memory_kind(stream, region.data, region.bytes) != MemoryKind::device) {
    return invalid(name + " of " + std::to_string(region.bytes) + " bytes is not in one piece of the device's memory");
  }
  return {};
}

/// Alpha and beta as they are when the product runs.
Verdict judge_scalars(const Problem& problem, const Product& product, cudaStream_t stream) {
  if (product.alpha == nullptr || product.beta == nullptr) return invalid("alpha or beta is null");
  const bool is_on_device = problem.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const std::size_t bytes = size_of(static_cast<std::uint32_t>(problem.desc.scale_type));
  for (const void* scalar : {product.alpha, product.beta}) {
    const MemoryKind kind = memory_kind(stream, scalar, bytes);
    if (is_on_device && kind == MemoryKind::unknown) return invalid("alpha or beta is not the device's to read");
    if (!is_on_device && kind == MemoryKind::device) return invalid("alpha or beta is not the host's to read");
  }
  return {};
}

Verdict judge_data(const Problem& problem, const Algo& algo, const Product& product, void* workspace,
                   std::size_t workspace_bytes, cudaStream_t stream) {
  if (algo.problem != problem.hash()) return invalid("the algorithm was chosen for another product");
  if (algo.workspace_bytes > workspace_bytes) {
    return invalid("the algorithm needs " + std::to_string(algo.workspace_bytes) + " bytes of workspace, and got " +
                   std::to_string(workspace_bytes));
  }
  std::vector<Region> read = {{"A", product.a, extent_bytes(problem.a), algo.alignment_bytes[0]},
                              {"B", product.b, extent_bytes(problem.b), algo.alignment_bytes[1]}};
  if (problem.has_bias()) {
    const std::size_t bytes = problem.m() * size_of(problem.bias_type());
    read.push_back({"the bias", problem.desc.bias, bytes, algo.bias_alignment_bytes});
  }
  if (problem.is_fp8()) {
    const auto scales_of = [&](const char* name, const void* data, std::int32_t mode, std::uint64_t lines) {
      const std::uint32_t alignment = mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F ? sizeof(float) : 16;
      // Without a pointer the scale is 1.
      if (data != nullptr || mode != CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F) {
        read.push_back({name, data, scale_layout(mode, lines, problem.k()).count * sizeof(float), alignment});
      }
    };
    scales_of("the scales of A", problem.desc.a_scale, problem.desc.a_scale_mode, problem.m());
    scales_of("the scales of B", problem.desc.b_scale, problem.desc.b_scale_mode, problem.n());
    for (const void* data : {product.a, product.b, product.c, static_cast<const void*>(product.d)}) {
      if (alignment_of(data, 16) < 16) return invalid("a matrix is not aligned to 16 bytes");
    }
  }
  const bool is_in_place = product.c == product.d;
  if (is_in_place && !(problem.c == problem.d)) return invalid("C is D, but their layouts differ");
  if (!is_in_place) read.push_back({"C", product.c, extent_bytes(problem.c), algo.alignment_bytes[2]});
  std::vector<Region> written = {{"D", product.d, extent_bytes(problem.d), algo.alignment_bytes[3]}};
  if (workspace_bytes > 0) written.push_back({"the workspace", workspace, workspace_bytes, 256});
  for (const std::vector<Region>* regions : {&read, &written}) {
    for (const Region& region : *regions) {
      if (Verdict verdict = judge_region(region, stream); verdict.status != CUBLAS_STATUS_SUCCESS) return verdict;
    }
  }
  for (std::size_t i = 0; i < written.size(); ++i) {
    std::vector<Region> others = read;
    others.insert(others.end(), written.begin(), written.begin() + static_cast<std::ptrdiff_t>(i));
    for (const Region& other : others) {
      if (overlap(written[i].data, written[i].bytes, other.data, other.bytes)) {
        return invalid(std::string(written[i].name) + " shares memory with " + other.name);
      }
    }
  }
  return {};
}

/// What the real library does without an algorithm: it asks its heuristic, for these pointers and this workspace.
Verdict choose_for(const Problem& problem, const Product& product, std::size_t workspace_bytes, Algo& algo) {
  Preference preference;
  preference.max_workspace_bytes = workspace_bytes;
  const void* data[] = {product.a, product.b, product.c, product.d};
  for (int i = 0; i < 4; ++i) preference.min_alignment_bytes[i] = alignment_of(data[i], 256);
  return choose(problem, preference, algo);
}

}  // namespace

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t desc, const void* alpha, const void* a,
                              cublasLtMatrixLayout_t a_layout, const void* b, cublasLtMatrixLayout_t b_layout,
                              const void* beta, const void* c, cublasLtMatrixLayout_t c_layout, void* d,
                              cublasLtMatrixLayout_t d_layout, const cublasLtMatmulAlgo_t* algo, void* workspace,
                              size_t workspace_bytes, cudaStream_t stream) {
  const auto refuse = [](cublasStatus_t status, const std::string& why) {
    set_last_refusal(why);
    return status;
  };
  if (!is_alive(handle)) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed");
  const std::optional<Problem> problem = problem_of(desc, a_layout, b_layout, c_layout, d_layout);
  if (!problem) return refuse(CUBLAS_STATUS_INVALID_VALUE, "no descriptor, or one that was destroyed");
  if (device_of(handle) != device_of(stream)) {
    return refuse(CUBLAS_STATUS_INVALID_VALUE, "the stream belongs to another device than the handle");
  }
  Product product{.problem = *problem, .alpha = alpha, .beta = beta, .a = a, .b = b, .c = c, .d = d};
  Verdict verdict = judge(*problem);
  Algo chosen{};
  if (verdict.status == CUBLAS_STATUS_SUCCESS) {
    if (algo == nullptr) {
      verdict = choose_for(*problem, product, workspace_bytes, chosen);
    } else if (const auto* given = inside<Algo>(algo)) {
      chosen = *given;
    } else {
      verdict = invalid("the algorithm is none");
    }
  }
  if (verdict.status == CUBLAS_STATUS_SUCCESS) verdict = judge_scalars(*problem, product, stream);
  if (verdict.status == CUBLAS_STATUS_SUCCESS) {
    verdict = judge_data(*problem, chosen, product, workspace, workspace_bytes, stream);
  }
  if (verdict.status != CUBLAS_STATUS_SUCCESS) return refuse(verdict.status, verdict.why);
  if (has_fault()) return refuse(CUBLAS_STATUS_EXECUTION_FAILED, "a kernel broke off");
  set_last_refusal("");
  product.workspace = workspace;
  product.workspace_bytes = chosen.workspace_bytes;
  product.delay_us = chosen.delay_us;
  product.read_host_scalars();
  ++counts().products;
  enqueue(stream, "cublasLtMatmul", [product] {
    product.run();
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}
