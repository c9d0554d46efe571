// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include "comm/kernels/reduce_parts.hpp"
#include "sft/core/ensure.hpp"
#include "sft/device/factory.hpp"

namespace sft::comm {

namespace {

/// On the memory of a GPU, on a stream of its own that the host waits for.
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
  void round_to_bf16(std::byte* to, const float* from, std::int64_t num_elements) override {
    comm::round_to_bf16(reinterpret_cast<__nv_bfloat16*>(to), from, num_elements, native());
    stream_->synchronize();
  }
  void sum_bf16(float* out, const Contributions& parts, std::int64_t num_elements, bool adds) override {
    sum_bf16_parts(out, parts, num_elements, adds, native());
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

CudaMpiCollectives::CudaMpiCollectives(device::Device& gpu)
    : gpu_(gpu),
      host_(device::make_host_device()),
      host_stream_(host_->make_stream()),
      mpi_(*host_, std::make_unique<GpuWork>(gpu)) {}

void CudaMpiCollectives::run(const Group& group, const Call& call, device::Stream& stream) {
  stream.synchronize();
  mpi_.run(group, call, *host_stream_);
  host_stream_->synchronize();
}

device::Device::Block CudaMpiCollectives::allocate_shared(const Group& /*group*/, MemoryUse /*use*/,
                                                          std::size_t /*bytes*/) {
  return {};
}

device::Device::Block CudaMpiCollectives::allocate_own(const Group& /*group*/, std::size_t bytes) {
  return gpu_.allocate(bytes);
}

void CudaMpiCollectives::set_staging(const StagingMemory& staging) { mpi_.set_staging(staging); }

}  // namespace sft::comm
