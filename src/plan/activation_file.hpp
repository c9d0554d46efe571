// SPDX-License-Identifier: Apache-2.0
#pragma once
// Activations that wait for the backward pass in a file: what offloading is on a CPU, whose device memory is the
// node's.

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/io/unnamed_file.hpp"
#include "sft/model/activation_store.hpp"

namespace sft::plan {

/// A thread writes behind the forward pass and reads ahead of the backward pass, through the system's file cache, which
/// it asks to write at once and to forget what was read. The file has no name: it is gone when the process ends.
class ActivationFile final : public model::ActivationStore {
 public:
  /// Takes `num_places` x `place_bytes` in `folder`, which is made where it is not there. Throws a configuration Error
  /// that names the folder and the bytes when it cannot be written or has no room. `device` outlives it: its
  /// communication progresses while the host waits here.
  ActivationFile(const std::string& folder, int num_places, std::size_t place_bytes, device::Device& device);
  ~ActivationFile() override;
  ActivationFile(const ActivationFile&) = delete;
  ActivationFile& operator=(const ActivationFile&) = delete;

  void save(model::BlockIndex block, const std::vector<Tensor>& tensors) override;
  void load(model::BlockIndex block, const std::vector<Tensor>& tensors) override;
  /// Blocks the host until the block's copies are done. A disk that fails is an Error here that names the folder.
  void wait(model::BlockIndex block) override;

 private:
  struct Job {
    model::BlockIndex block;
    std::vector<Tensor> tensors;
    bool writes;
  };

  void queue(Job job);
  void work();
  void run(const Job& job) const;

  std::string folder_;
  std::size_t place_bytes_;
  device::Device& device_;
  io::UnnamedFile file_;

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Job> jobs_;                               ///< the first is under way
  IndexedVector<model::BlockIndex, int> num_pending_;  ///< jobs of each block
  std::exception_ptr error_;
  bool stops_ = false;
  std::thread thread_;
};

}  // namespace sft::plan
