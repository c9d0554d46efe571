// SPDX-License-Identifier: Apache-2.0
#pragma once
// ncclGroupStart to ncclGroupEnd: calls that are checked at once and launched together. A call alone is a group of one.

#include <cuda_runtime_api.h>
#include <nccl.h>

#include <vector>

#include "communicator.hpp"
#include "launch.hpp"

namespace sft::emulation {

class Group {
 public:
  /// Groups are a matter of the calling thread.
  [[nodiscard]] static Group& of_thread();

  void start() { ++depth_; }
  /// At the outermost end: one launch for each communicator, in the order of their first calls; nothing when a call was
  /// refused.
  [[nodiscard]] ncclResult_t end();
  [[nodiscard]] bool is_open() const { return depth_ > 0; }

  [[nodiscard]] ncclResult_t add(Communicator& communicator, cudaStream_t stream, const Collective& collective);
  [[nodiscard]] ncclResult_t add(Communicator& communicator, cudaStream_t stream, const Transfer& transfer);

 private:
  /// The calls of one communicator.
  struct Part {
    Communicator* communicator;
    cudaStream_t stream;
    std::vector<Collective> collectives;
    std::vector<Transfer> transfers;
  };
  [[nodiscard]] ncclResult_t note(Communicator& communicator, cudaStream_t stream, const std::string& refusal);
  [[nodiscard]] Part& part_of(Communicator& communicator, cudaStream_t stream);
  [[nodiscard]] ncclResult_t launch();

  int depth_ = 0;
  ncclResult_t first_error_ = ncclSuccess;
  std::vector<Part> parts_;
};

}  // namespace sft::emulation
