// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several processes in one test: each is a rank with a device of its own, and there is no MPI.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sft::test {

/// Throws std::runtime_error(text) unless it holds: what a rank does instead of BOOST_TEST, which only its parent can.
void expect(bool holds, const std::string& text);

/// Runs `body(rank)` in `num_ranks` processes at once and returns what each ended with: "" when the body returned, the
/// text of its exception, or how the process was ended. Those that take longer than a minute are killed.
[[nodiscard]] std::vector<std::string> run_ranks(int num_ranks, const std::function<void(int)>& body);

/// A communicator of all ranks, and a stream.
class Rank {
 public:
  /// Collective over the ranks.
  Rank(const ncclUniqueId& id, int num_ranks, int rank, const char* name = "world");
  ~Rank();
  Rank(const Rank&) = delete;
  Rank& operator=(const Rank&) = delete;

  [[nodiscard]] ncclComm_t communicator() const { return communicator_; }
  [[nodiscard]] cudaStream_t stream() const { return stream_; }
  void synchronize() const;

 private:
  ncclComm_t communicator_ = nullptr;
  cudaStream_t stream_ = nullptr;
};

/// Polls until the streams are done, NCCL has an error, or the time is up; says which: "", NCCL's last error, or "time
/// is up".
[[nodiscard]] std::string wait_for(double max_s, const std::vector<const Rank*>& ranks);

/// Device memory that holds copies of values.
template <class T>
class DeviceVector {
 public:
  explicit DeviceVector(const std::vector<T>& values) : size_(values.size()) {
    expect(cudaMalloc(&data_, (size_ + 1) * sizeof(T)) == cudaSuccess, "cudaMalloc");
    if (size_ > 0) cudaMemcpy(data_, values.data(), size_ * sizeof(T), cudaMemcpyHostToDevice);
  }
  ~DeviceVector() { cudaFree(data_); }
  DeviceVector(const DeviceVector&) = delete;
  DeviceVector& operator=(const DeviceVector&) = delete;

  [[nodiscard]] T* data() const { return static_cast<T*>(data_); }
  [[nodiscard]] std::vector<T> values() const {
    std::vector<T> result(size_);
    if (size_ > 0) cudaMemcpy(result.data(), data_, size_ * sizeof(T), cudaMemcpyDeviceToHost);
    return result;
  }

 private:
  std::size_t size_;
  void* data_ = nullptr;
};

[[nodiscard]] ncclUniqueId new_id();

}  // namespace sft::test
