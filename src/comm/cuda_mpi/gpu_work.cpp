// SPDX-License-Identifier: Apache-2.0
#include "gpu_work.hpp"

#include "comm/kernels/reduce_parts.hpp"
#include "sft/core/ensure.hpp"

namespace sft::comm {

namespace {

class GpuWork final : public LocalWork {
 public:
  explicit GpuWork(device::Device& gpu) : gpu_(gpu), stream_(gpu.make_stream(device::Priority::communication)) {}

  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    gpu_.copy(to, from, bytes, *stream_);
    stream_->synchronize();
  }
  void reduce(void* out, const Contributions& parts, std::int64_t num_elements, DType dtype, ReduceOp op) override {
    SFT_ENSURE(dtype == DType::float32 || dtype == DType::float64, "reductions are of float32 or float64");
    if (dtype == DType::float32) {
      reduce_as(static_cast<float*>(out), parts, num_elements, op);
    } else {
      reduce_as(static_cast<double*>(out), parts, num_elements, op);
    }
    stream_->synchronize();
  }
  void add_sum(float* out, const Contributions& parts, std::int64_t num_elements) override {
    add_parts(out, parts, num_elements, native());
    stream_->synchronize();
  }

 private:
  [[nodiscard]] cudaStream_t native() const { return static_cast<cudaStream_t>(stream_->native()); }

  template <class T>
  void reduce_as(T* out, const Contributions& parts, std::int64_t num_elements, ReduceOp op) {
    if (op == ReduceOp::sum) {
      sum_parts(out, parts, num_elements, native());
    } else {
      max_parts(out, parts, num_elements, native());
    }
  }

  device::Device& gpu_;
  const std::unique_ptr<device::Stream> stream_;
};

}  // namespace

std::unique_ptr<LocalWork> make_gpu_work(device::Device& gpu) { return std::make_unique<GpuWork>(gpu); }

}  // namespace sft::comm
