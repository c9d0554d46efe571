// SPDX-License-Identifier: Apache-2.0
#pragma once
// An NCCL communicator over the ranks of a Group.

#include <cuda_runtime.h>
#include <nccl.h>

#include <deque>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "comm/call_log.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/core/gpu_launches.hpp"
#include "sft/device/device.hpp"

namespace sft::comm {

/// Blocking: a call returns when NCCL has queued it on its stream, which may have to wait for the other ranks. The
/// log knows of every call from its beginning to its end on the stream.
///
/// It ends with end(); without it, it is left to the end of the process. Nothing calls ncclCommAbort, which returns
/// only when all ranks of the node have called it: the error of one rank would stay unsaid.
class NcclCommunicator {
 public:
  /// Collective over the group, and over that of `within`, whose ranks find each other anew by ncclCommSplit: they are
  /// connected already. Null: some ranks make ids (unique_ids.hpp), and MPI carries them to all. `number`: of the group
  /// in the log, which outlives it.
  NcclCommunicator(TensorGroup group, std::size_t number, CallLog& log, const NcclCommunicator* within);
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  [[nodiscard]] const Group& group() const { return group_.group; }

  /// Makes one NCCL call on `stream`, `launch(communicator)`, that moves `bytes`; `call` is its name, a literal. An
  /// error of this or an earlier call is thrown as an Error that names the group, the call and the rank.
  template <class Launch>
  void run(const char* call, std::size_t bytes, cudaStream_t stream, const Launch& launch) {
    throw_if_failed();
    begin(call, bytes);
    note_launch(call, stream);
    check(launch(communicator_));
    queue_event(stream);
  }

  /// Throws the Error of queued work that has failed meanwhile; never blocks.
  void throw_if_failed() const;
  /// The Error of queued work that has failed; none: nothing has. From any thread.
  [[nodiscard]] std::optional<Error> failure() const;
  /// Tells the log which calls the streams have finished; never blocks. From any thread.
  void notice_finished();

  /// Memory of the GPU that NCCL knows: it may read and write there for other ranks, without buffers of its own. Where
  /// the system does not allow that (containers often do not), ordinary memory, which collectives copy out of and into,
  /// with the same results; that is warned of once. The communicator outlives the block. Throws an Error that says how
  /// much was asked for.
  [[nodiscard]] device::Device::Block allocate(std::size_t bytes) const;

  /// The common end of all ranks: waits for all calls.
  void end();

 private:
  void make(ncclConfig_t& config);
  void split_off(const NcclCommunicator& whole, ncclConfig_t& config);
  void begin(const char* call, std::size_t bytes);
  /// Throws unless NCCL took the call that began last.
  void check(ncclResult_t result) const;
  /// Records what the end of the call on `stream` is known by.
  void queue_event(cudaStream_t stream);
  /// NCCL's own words.
  [[nodiscard]] std::string text_of(ncclResult_t result) const;
  [[nodiscard]] Error error_of(const std::string& what, ncclResult_t result) const;

  const TensorGroup group_;
  const std::size_t number_;
  CallLog& log_;
  ncclComm_t communicator_ = nullptr;
  const char* last_call_ = "";
  std::mutex mutex_;
  std::deque<cudaEvent_t> under_way_;  ///< behind each call, oldest first; under mutex_
  std::vector<cudaEvent_t> spare_;     ///< under mutex_
};

}  // namespace sft::comm
