// SPDX-License-Identifier: Apache-2.0
#pragma once
// A copy, in the node's memory, of what a rank writes into a checkpoint: training changes the state while a thread
// writes the copy.

#include <cstddef>
#include <cstdint>
#include <future>
#include <memory>
#include <vector>

#include "sft/checkpoint/save.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/device/device.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

/// Bytes of the numbers that all ranks together write of these entries. Pure: the entries' memory is not looked at,
/// only its dtype.
[[nodiscard]] std::size_t saved_bytes(const std::vector<Entry>& entries);

/// One rank's. Local; begin(), wait() and the constructor are of the thread that trains. On CPUs another thread makes
/// the copies, beside training, with copy().
class Snapshot {
 public:
  /// `memory`: pinned, as many bytes as WritePlan::snapshot_bytes() of what is copied, owned by others, which outlives
  /// this; so does `device`.
  Snapshot(Tensor memory, device::Device& device);

  /// Queues the copies of what this rank writes of `state`, by `plan`, behind all work of `compute_stream`, on a stream
  /// of their own; on CPUs they are left to copy(). What lies in files is read before it returns. Until wait() has
  /// returned nobody may change the state; whoever reads the last copy must be done. Errors of files are data Errors.
  void begin(const WritePlan& plan, const State& state, device::Stream& compute_stream);
  /// On CPUs, behind each begin(): makes the copies, on any thread, while the state is read by others.
  void copy() noexcept;
  /// Returns when the copies are there.
  void wait();

  /// For Save::write(), behind wait().
  [[nodiscard]] const std::byte* bytes() const { return memory_.as<std::byte>(); }
  /// Gives the copies of State::first_entries() to `sink`, under the tensors' names, in the order of the file. Behind
  /// wait(), and then on any thread: it calls the sink alone.
  void give_first(io::TensorSink& sink) const;

 private:
  struct Copied {
    Entry entry;
    std::int64_t begin;  ///< in the memory, bytes
  };
  void give(const Copied& copied, io::TensorSink& sink) const;

  Tensor memory_;
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> ready_, copied_;  ///< ready: the state may be read
  std::vector<Copied> first_;
  std::vector<SnapshotCopy> left_;  ///< to copy()
  std::promise<void> is_copied_;    ///< by copy()
};

}  // namespace sft::checkpoint
