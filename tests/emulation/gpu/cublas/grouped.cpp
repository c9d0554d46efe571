// SPDX-License-Identifier: Apache-2.0
// cublasGemmGroupedBatchedEx: checks of what the real library refuses, rules out or says nothing about, then the
// products as one piece of queued work.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "cublaslt/problem.hpp"
#include "cublaslt/product.hpp"
#include "handle.hpp"
#include "runtime/host_counts.hpp"
#include "runtime/stream_queue.hpp"

using namespace sft::emulation;

namespace {

/// A line of the table in the documentation of cublasGemmGroupedBatchedEx, of the types that are emulated. C has the
/// type of A and B.
struct Supported {
  cublasComputeType_t compute_type;
  cudaDataType type;
};
constexpr std::array table{Supported{CUBLAS_COMPUTE_32F, CUDA_R_16BF}, Supported{CUBLAS_COMPUTE_32F, CUDA_R_32F},
                           Supported{CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F},
                           Supported{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F},
                           Supported{CUBLAS_COMPUTE_64F, CUDA_R_64F}};

/// The products of one group.
struct Group {
  Problem problem;
  double alpha, beta;
  int size;
};

Layout layout_of(cudaDataType type, int rows, int columns, int leading_dim) {
  return {.type = static_cast<std::uint32_t>(type),
          .rows = static_cast<std::uint64_t>(rows),
          .columns = static_cast<std::uint64_t>(columns),
          .leading_dim = leading_dim};
}

/// What the documentation asks of addresses: nothing of float32 without TF32; of bf16 16 bytes where k is a multiple of
/// 8, and 4 where it is one of 2.
std::uint32_t alignment_for(const Problem& problem) {
  const std::size_t element = size_of(problem.d.type);
  if (problem.d.type != CUDA_R_16BF) return static_cast<std::uint32_t>(element);
  if (problem.k() % 8 == 0) return 16;
  return problem.k() % 2 == 0 ? 4 : 2;
}

bool overlap(const void* a, std::size_t a_bytes, const void* b, std::size_t b_bytes) {
  const auto first = reinterpret_cast<std::uintptr_t>(a), second = reinterpret_cast<std::uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

/// The array of pointers as the GPU finds it.
std::vector<std::byte*> read_pointers(const void* array, std::size_t count) {
  note_read(array, count * sizeof(void*));
  std::vector<std::byte*> pointers(count);
  std::memcpy(pointers.data(), array, count * sizeof(void*));
  return pointers;
}

/// All that is queued.
struct GroupedCall {
  std::vector<Group> groups;
  std::size_t num_products;
  const void *a, *b, *c;  ///< arrays of pointers
  void* workspace;
  std::size_t workspace_bytes;

  void run() const {
    spoil_ends(workspace, workspace_bytes);
    const std::vector<std::byte*> as = read_pointers(a, num_products), bs = read_pointers(b, num_products),
                                  cs = read_pointers(c, num_products);
    std::size_t i = 0;
    std::vector<std::pair<const std::byte*, const std::byte*>> written;
    for (const Group& group : groups) {
      for (int j = 0; j < group.size; ++j, ++i) {
        for (const std::byte* operand : {as[i], bs[i], cs[i]}) {
          if (alignment_of(operand, 16) < alignment_for(group.problem)) {
            fault("cublasGemmGroupedBatchedEx: an operand of product " + std::to_string(i) +
                  " is less aligned than its sizes ask for");
          }
        }
        written.emplace_back(cs[i], cs[i] + extent_bytes(group.problem.c));
        Product product{.problem = group.problem,
                        .alpha = nullptr,
                        .beta = nullptr,
                        .a = as[i],
                        .b = bs[i],
                        .c = cs[i],
                        .d = cs[i]};
        product.host_alpha = group.alpha;
        product.host_beta = group.beta;
        product.run();
      }
    }
    std::ranges::sort(written);
    for (std::size_t k = 1; k < written.size(); ++k) {
      if (written[k].first < written[k - 1].second) fault("cublasGemmGroupedBatchedEx: two results share memory");
    }
  }
};

}  // namespace

cublasStatus_t cublasGemmGroupedBatchedEx(cublasHandle_t handle, const cublasOperation_t transposes_a[],
                                          const cublasOperation_t transposes_b[], const int m[], const int n[],
                                          const int k[], const void* alpha, const void* const a[],
                                          cudaDataType_t a_type, const int lda[], const void* const b[],
                                          cudaDataType_t b_type, const int ldb[], const void* beta, void* const c[],
                                          cudaDataType_t c_type, const int ldc[], int num_groups,
                                          const int group_sizes[], cublasComputeType_t compute_type) {
  const CublasHandle* found = find(handle);
  if (found == nullptr) return refuse(CUBLAS_STATUS_NOT_INITIALIZED, "no handle, or one that was destroyed");
  const bool is_supported = std::ranges::any_of(table, [&](const Supported& line) {
    return line.compute_type == compute_type && line.type == a_type && line.type == b_type && line.type == c_type;
  });
  if (!is_supported) {
    return refuse(CUBLAS_STATUS_NOT_SUPPORTED, "these types are not in cublasGemmGroupedBatchedEx's table");
  }
  if (num_groups <= 0) return refuse(CUBLAS_STATUS_INVALID_VALUE, "there are no groups");
  const auto scalar = [&](const void* array, int group) {
    return compute_type == CUBLAS_COMPUTE_64F ? static_cast<const double*>(array)[group]
                                              : static_cast<double>(static_cast<const float*>(array)[group]);
  };
  GroupedCall call{.groups = {},
                   .num_products = 0,
                   .a = a,
                   .b = b,
                   .c = c,
                   .workspace = found->workspace,
                   .workspace_bytes = found->workspace_bytes};
  for (int i = 0; i < num_groups; ++i) {
    const std::string name = "group " + std::to_string(i);
    if (group_sizes[i] <= 0) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + " has no products");
    // The documentation promises nothing for sizes of zero.
    if (m[i] <= 0 || n[i] <= 0 || k[i] <= 0) return refuse(CUBLAS_STATUS_INVALID_VALUE, name + " has a size of zero");
    const bool turns_a = transposes_a[i] != CUBLAS_OP_N, turns_b = transposes_b[i] != CUBLAS_OP_N;
    Group group{.problem = {}, .alpha = scalar(alpha, i), .beta = scalar(beta, i), .size = group_sizes[i]};
    Problem& problem = group.problem;
    problem.desc.compute_type = compute_type;
    problem.desc.scale_type = compute_type == CUBLAS_COMPUTE_64F ? CUDA_R_64F : CUDA_R_32F;
    problem.desc.transpose_a = transposes_a[i];
    problem.desc.transpose_b = transposes_b[i];
    problem.a = layout_of(a_type, turns_a ? k[i] : m[i], turns_a ? m[i] : k[i], lda[i]);
    problem.b = layout_of(b_type, turns_b ? n[i] : k[i], turns_b ? k[i] : n[i], ldb[i]);
    problem.c = problem.d = layout_of(c_type, m[i], n[i], ldc[i]);
    for (const auto& [layout, operand] : {std::pair{&problem.a, "A"}, {&problem.b, "B"}, {&problem.c, "C"}}) {
      if (layout->leading_dim < static_cast<std::int64_t>(layout->rows)) {
        return refuse(CUBLAS_STATUS_INVALID_VALUE, name + " has a leading dimension of " + operand + " of " +
                                                       std::to_string(layout->leading_dim) + ", less than its rows");
      }
    }
    call.num_products += static_cast<std::size_t>(group.size);
    call.groups.push_back(group);
  }
  const std::size_t array_bytes = call.num_products * sizeof(void*);
  for (const auto& [array, operand] :
       {std::pair<const void*, const char*>{call.a, "A"}, {call.b, "B"}, {call.c, "C"}}) {
    if (memory_kind(found->stream, array, array_bytes) != MemoryKind::device) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    std::string("the array of pointers ") + operand + " is not in the device's memory");
    }
    if (overlap(array, array_bytes, call.workspace, call.workspace_bytes)) {
      return refuse(CUBLAS_STATUS_INVALID_VALUE,
                    std::string("the array of pointers ") + operand + " lies in the library's workspace");
    }
  }
  refuse(CUBLAS_STATUS_SUCCESS, "");
  ++counts().products;
  if (call.workspace == nullptr) ++counts().device_allocations;  // the library's own
  enqueue(found->stream, "cublasGemmGroupedBatchedEx", [call] {
    call.run();
    return true;
  });
  return CUBLAS_STATUS_SUCCESS;
}
