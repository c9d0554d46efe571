#pragma once
// Matrix products through oneDNN, which picks AVX2, AVX-512 or AMX itself.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "ops/cpu/kernels.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cpu {

/// Scratch bytes that products on `num_threads` threads use at most.
[[nodiscard]] std::size_t matmul_workspace_bytes(int num_threads);

/// Runs products, keeping the primitives that oneDNN has generated. Not thread-safe.
class MatmulEngine {
 public:
  explicit MatmulEngine(const Kernels& kernels);
  ~MatmulEngine();

  /// The product of ops::Backend::matmul. `workspace` is scratch for the duration of the call.
  void run(const Matmul& product, Tensor workspace);
  /// The same in float32 on converted tiles, for bf16 on processors whose oneDNN has no such product.
  void run_in_float32(const Matmul& product, Tensor workspace);

 private:
  struct Key {
    std::int64_t m, n, k, a_stride, b_stride, c_stride;
    std::uint32_t flags;
    int num_threads;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  class Primitive;

  [[nodiscard]] static Key key_of(const Matmul& product);

  const Kernels& kernels_;
  std::unordered_map<Key, std::unique_ptr<Primitive>, KeyHash> primitives_;  ///< null: oneDNN has none
};

}  // namespace sft::ops::cpu
