// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"

namespace sft::ops::cuda {

/// Rows in the scratch memory whose column sums are added to a gradient, if it is asked for.
class Partials {
 public:
  Partials(const Context& context, const Tensor& sums, std::int64_t num_rows, std::int64_t num_columns)
      : stream_(context.stream), num_rows_(num_rows), num_columns_(num_columns), sums_(floats_of(sums)) {
    if (sums_ != nullptr) data_ = static_cast<float*>(context.scratch(num_rows * num_columns * sizeof(float)).data);
  }
  [[nodiscard]] float* data() const { return data_; }
  void add_up() const {
    if (sums_ != nullptr) add_rows(sums_, data_, num_rows_, num_columns_, stream_);
  }

 private:
  cudaStream_t stream_;
  std::int64_t num_rows_, num_columns_;
  float *sums_, *data_ = nullptr;
};

}  // namespace sft::ops::cuda
