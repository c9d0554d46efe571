// SPDX-License-Identifier: Apache-2.0
#pragma once
// What times single operations of a backend, on a CPU or a GPU, and prints them beside what the machine can do.

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

#include "sft/device/arena.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::bench {

struct OpBenchOptions {
  device::Kind kind = device::Kind::cpu;
  int repetitions = 5;
  ops::Shapes shapes;
  std::int64_t copy_mib = 128;       ///< that the copy reads, whose speed is the roof of memory-bound ops
  std::int64_t product_size = 2048;  ///< rows and columns of the product that is the roof of products
  double peak_tflops = 0.0;          ///< of a GPU in bf16, where it is the roof instead; 0: not known
  ops::AttentionKernels attention = ops::AttentionKernels::own;  ///< on a GPU
};

/// Bodies that take operands from `make` and name what is timed run twice: first to find how much memory they need.
class OpBench {
 public:
  explicit OpBench(const OpBenchOptions& options);
  ~OpBench();
  OpBench(const OpBench&) = delete;
  OpBench& operator=(const OpBench&) = delete;

  [[nodiscard]] ops::Backend& ops() { return *ops_; }

  /// Runs `body`, whose operands live no longer.
  void part(const std::function<void()>& body);

  /// An operand: normal numbers, or token ids below the vocabulary, or 1, 1/2, 1/3...
  [[nodiscard]] Tensor make(DType dtype, std::initializer_list<std::int64_t> shape);
  /// The same, all of them `value`.
  [[nodiscard]] Tensor make_filled(DType dtype, std::initializer_list<std::int64_t> shape, float value);

  /// Times `op`, which moves `bytes` of memory (op_bytes.hpp), beside the copy; it runs `calls` times for a
  /// micro-batch.
  void memory_bound(const std::string& name, std::int64_t bytes, std::int64_t calls, const std::function<void()>& op);
  /// Times `op`, which moves `bytes` of memory but computes for longer.
  void without_roof(const std::string& name, std::int64_t bytes, std::int64_t calls, const std::function<void()>& op);
  /// Times `op`, of so many operations, beside the roof of products.
  void product_bound(const std::string& name, double flops, std::int64_t calls, const std::function<void()>& op);
  /// A plan for attention in whatever is timed next; none while memory is counted.
  [[nodiscard]] std::unique_ptr<ops::AttentionPlan> plan(const std::vector<sequence::AttentionSpan>& spans,
                                                         std::int64_t num_tokens);

  /// Measures the roofs, of products in `dtype`, and prints them.
  void measure_roofs(DType dtype);
  /// What all that was timed takes for a micro-batch; then begins anew.
  [[nodiscard]] double take_total_s();

 private:
  struct Unit {
    const char* name;
    double size;
  };

  /// Seconds of one call, the best of all repetitions.
  [[nodiscard]] double best_s(const std::function<void()>& op);
  /// `work` in bytes or FLOPs, `roof` in the same a second, or 0.
  void report(const std::string& name, Unit unit, double work, double roof, std::int64_t calls,
              const std::function<void()>& op);
  /// Device memory with what the host wrote.
  void upload(const Tensor& to, const std::function<void(void*)>& write);
  [[nodiscard]] Tensor take_operand(DType dtype, std::initializer_list<std::int64_t> shape);

  OpBenchOptions options_;
  std::unique_ptr<device::Device> device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<ops::Backend> ops_;
  device::Ledger ledger_;
  device::Arena workspace_, memory_;
  double bytes_per_s_ = 0.0, flops_per_s_ = 0.0, total_s_ = 0.0;
};

}  // namespace sft::bench
