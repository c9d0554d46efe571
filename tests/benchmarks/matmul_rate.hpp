#pragma once
// What oneDNN's own matrix product reaches on this machine: the yardstick of every other rate.

#include <memory>

#include "sft/core/dtype.hpp"

namespace sft::bench {

/// Products of two square matrices, with the threads of this process.
class MatmulRate {
 public:
  MatmulRate(int size, DType dtype);
  ~MatmulRate();

  /// Runs one product and keeps the fastest so far.
  void sample();
  /// Of the fastest sample.
  [[nodiscard]] double flops_per_second() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::bench
