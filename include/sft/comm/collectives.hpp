// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives on device tensors, stream-ordered. Every call is collective over its group, and all ranks of a group make
// the same calls in the same order. Buffers belong to the call until the stream has passed it. A group of one rank is
// legal everywhere and costs a copy at most. Results are bit-identical on all ranks of the group and from run to run.
// Calls on different streams run side by side or one after the other (they may share staging memory, and a call may
// block the host for an earlier one): rely on neither, and let no call depend on a later one.
//
// Misuse that a rank can see alone, a strided tensor, sizes that do not fit, or a call inside the work of Group::agree
// (over a group of more than one rank), is a std::logic_error of the call. What MPI or NCCL reports is an Error
// (ExitStatus::failure) that names the group, the call and the rank, on the ranks that see it. It surfaces late: with
// MPI in a collective call, in Device::progress, or in a poll, wait or synchronize of any stream or event, whichever
// tests the messages; with NCCL in the next call over the same group, or while the host waits for any stream or event
// of the device (device::WaitChecks). Buffers of a failed call are undefined.

#include <cstddef>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "sft/comm/call.hpp"
#include "sft/comm/group.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::comm {

/// How tensors get from rank to rank.
struct Transport {
  enum class Way {
    direct,     ///< from the memory they lie in: MPI for the CPU, NCCL for GPUs
    host_copy,  ///< through pinned memory of the node and MPI: several times slower, also where ranks share a GPU
    cuda_mpi    ///< from the memory of GPUs by an MPI library that can (require_cuda_mpi), also where ranks share one
  };
  Way way = Way::direct;
};

/// Whether the MPI library says that it sends and receives the memory of GPUs. Local; MPI has started.
[[nodiscard]] bool is_mpi_cuda_aware();
/// Throws a configuration Error unless the MPI library says that it sends and receives the memory of GPUs.
void require_cuda_mpi();

/// Staging memory that the collectives may need beside the caller's buffers: bytes of the largest `full` of a
/// reduce_scatter_add, and of the largest all_reduce or reduce_scatter that will be called. An upper bound: larger
/// reductions than the memory taken for them run in rounds.
struct StagingPlan {
  std::size_t max_reduce_scatter_bytes = 0;
  std::size_t max_all_reduce_bytes = 0;
};

/// Memory for what other ranks send into a reduction, and for copies on their way to and from other ranks; empty where
/// the collectives bring their own or make none.
struct StagingMemory {
  Tensor reduce_scatter, all_reduce;
  Tensor host_copies;
};
/// Takes staging memory from `arena` for collectives of a device of `kind`; call with the same plan for the sizing and
/// the real arena. Pure.
[[nodiscard]] StagingMemory take_staging(device::Kind kind, device::Arena& arena, const StagingPlan& plan);
/// Takes staging memory for Transport::Way::host_copy from an arena of pinned memory. Pure.
[[nodiscard]] StagingMemory take_host_staging(device::Arena& pinned, const StagingPlan& plan);
/// Takes the staging memory that `way` asks for, from an arena of the device or from one of pinned memory. Pure.
[[nodiscard]] StagingMemory take_staging(device::Kind kind, Transport::Way way, device::Arena& arena,
                                         device::Arena& pinned, const StagingPlan& plan);

/// What memory of Collectives::allocate_shared and allocate_own is for.
enum class MemoryUse {
  /// `full` of all_gather, which alone writes there: the ranks of a group may all have the same memory.
  gathered,
  /// `full` of reduce_scatter_add, or `inout` of all_reduce and reduce_scatter: each rank has memory of its own, which
  /// others may read while they are in such a call.
  reduced,
};

/// What the calls that a thread makes while the object lives are about, for messages: "block 3". `text` outlives it.
class CallSubject {
 public:
  explicit CallSubject(std::string_view text) : outer_(std::exchange(current_, text)) {}
  ~CallSubject() { current_ = outer_; }
  CallSubject(const CallSubject&) = delete;
  CallSubject& operator=(const CallSubject&) = delete;

  [[nodiscard]] static std::string_view current() { return current_; }

 private:
  static inline thread_local std::string_view current_;
  std::string_view outer_;
};

class Collectives {
 public:
  virtual ~Collectives() = default;

  /// Makes `call`, as its struct says (call.hpp).
  virtual void run(const Group& group, const Call& call, device::Stream& stream) = 0;

  // The same by name.
  void all_reduce(const Group& group, Tensor inout, ReduceOp op, device::Stream& stream, Tensor wire = {}) {
    run(group, AllReduce{inout, op, wire}, stream);
  }
  void all_gather(const Group& group, Tensor full, ConstTensor local, device::Stream& stream) {
    run(group, AllGather{full, local}, stream);
  }
  void reduce_scatter_add(const Group& group, Tensor local, Tensor full, device::Stream& stream, Tensor wire = {}) {
    run(group, ReduceScatterAdd{local, full, wire}, stream);
  }
  void reduce_scatter(const Group& group, Tensor inout, device::Stream& stream, Tensor wire = {}) {
    run(group, ReduceScatter{inout, wire}, stream);
  }
  void exchange(const Group& group, Tensor send, int to, Tensor receive, int from, device::Stream& stream) {
    run(group, Exchange{send, to, receive, from}, stream);
  }
  void exchange_all(const Group& group, const std::vector<Message>& sends, const std::vector<Message>& receives,
                    device::Stream& stream) {
    run(group, ExchangeAll{sends, receives}, stream);
  }

  /// Memory for the tensors that `use` names, in calls over `group` (one that the collectives were made with): there
  /// the calls may need fewer copies, or none. Such a tensor lies in memory of one call on all ranks of the group,
  /// `gathered` ones at the same offset, or on none. Results are the same bits as with any other memory. Both get the
  /// same bytes on all ranks; contents are undefined. The collectives outlive the block and may keep its memory until
  /// they are destroyed.
  ///
  /// Memory that the ranks of the group share, which are all on one node: MPI makes a window of it. Empty, on all of
  /// them, where they share none: then each takes its own. Collective over the group; no rank fails alone for want of
  /// memory.
  [[nodiscard]] virtual device::Device::Block allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) = 0;
  /// Memory of this rank's own, which NCCL registers with the network and the other GPUs. Local: it may fail on one
  /// rank. Throws as Device::allocate.
  [[nodiscard]] virtual device::Device::Block allocate_own(const Group& group, std::size_t bytes) = 0;

  /// Gives the staging memory, before the first reduction. It stays the caller's and outlives the last one.
  virtual void set_staging(const StagingMemory& staging) = 0;
};

/// A group that collectives will be called with.
struct TensorGroup {
  TensorGroup(Group of) : group(std::move(of)) {}  // NOLINT(google-explicit-constructor)
  TensorGroup(Group of, bool exchanges, int ctas) : group(std::move(of)), has_exchanges(exchanges), max_ctas(ctas) {}

  Group group;
  bool has_exchanges = true;   ///< exchange and exchange_all too, among any two ranks
  int max_ctas = 0;            ///< thread blocks that NCCL may use; 0: its own choice
  bool has_bf16_sums = false;  ///< calls with a wire too
  bool has_sums = true;        ///< reductions too; else gathers alone, beside exchanges
  Group within = {};           ///< one of those given before it that has all its ranks, or none: NCCL finds them by it
};

/// Collectives for tensors of `device`, which outlives them. `groups` are all those that they will be called with, in
/// the same order on every rank: NCCL's communicators are made and first used here and never later, so that their
/// memory is in what is measured next. Making and destroying them is collective over each group. Throws a configuration
/// Error when the build lacks what the device needs.
[[nodiscard]] std::unique_ptr<Collectives> make_collectives(device::Device& device,
                                                            const std::vector<TensorGroup>& groups,
                                                            const Transport& transport = {});

}  // namespace sft::comm
