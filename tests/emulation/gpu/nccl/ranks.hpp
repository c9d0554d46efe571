// SPDX-License-Identifier: Apache-2.0
#pragma once
// Several processes in one test: each is a rank with a device of its own, and there is no MPI.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace sft::test {

/// Throws std::runtime_error(text) unless it holds: what a rank does instead of BOOST_TEST, which only its parent can.
void expect(bool holds, const std::string& text);

/// Runs `body(rank)` in `num_ranks` processes at once and returns what each ended with: "" when the body returned, the
/// text of its exception, or how the process was ended. They end with their parent.
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

/// Something that one rank tells all others. Made before they start.
class Signal {
 public:
  Signal();
  ~Signal();
  Signal(const Signal&) = delete;
  Signal& operator=(const Signal&) = delete;

  void give() { *is_given_ = true; }
  [[nodiscard]] bool is_given() const { return *is_given_; }

 private:
  std::atomic<bool>* is_given_;  ///< in memory that the ranks share
};

/// Polls until the streams are done or NCCL has an error, however long that takes; says which: "", or NCCL's last
/// error. "still waiting" once `has_enough`, asked after each poll, is true.
[[nodiscard]] std::string wait_for(
    const std::vector<const Rank*>& ranks, const std::function<bool()>& has_enough = [] { return false; });
/// For wait_for: what has not happened after this many polls is taken for something that never does.
[[nodiscard]] std::function<bool()> after_many_polls();

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
