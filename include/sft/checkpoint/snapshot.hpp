// SPDX-License-Identifier: Apache-2.0
#pragma once
// A copy, in the node's memory, of what a rank writes into a checkpoint: training changes the state while a thread
// writes the copy.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/device/device.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/mesh/place.hpp"

namespace sft::checkpoint {

/// What a snapshot of these entries takes of the rank at `place`: as many bytes as the rank writes, each entry aligned.
/// Pure: the entries' memory is not looked at, only its dtype.
[[nodiscard]] std::size_t snapshot_bytes(const std::vector<Entry>& entries, const mesh::Place& place);

/// Bytes of the numbers that all ranks together write of them. Pure, as above.
[[nodiscard]] std::size_t saved_bytes(const std::vector<Entry>& entries);

/// One rank's. Local; begin(), wait() and the constructor are of the thread that trains.
class Snapshot {
 public:
  /// `memory`: pinned, snapshot_bytes() of them, owned by others, which outlives this; so does `device`.
  Snapshot(Tensor memory, const mesh::Place& place, device::Device& device);

  /// Queues the copies of what this rank writes of `state`, behind all work of `compute_stream`, on a stream of their
  /// own. What lies in files is read before it returns. Until wait() has returned nobody may change the state; whoever
  /// reads the last snapshot must be done. Errors of files are data Errors.
  void begin(const State& state, device::Stream& compute_stream);
  /// Returns when the copies are there.
  void wait();

  /// Gives the copy to `sink`, as save_entries() would give the state: entry by entry, in the order of its memory.
  /// `max_entries`: so many of the first ones, and no more. Behind wait(), and then on any thread: it calls the sink
  /// alone.
  void save(io::TensorSink& sink, std::size_t max_entries = static_cast<std::size_t>(-1)) const;

 private:
  /// A rectangle of a tensor, and where its copy begins.
  struct Part {
    std::string name;  ///< of the tensor
    parallel::LogicalRectangle where;
    const char* values;
  };
  struct Copy {
    std::string name;  ///< of the entry
    DType dtype;
    std::vector<Part> parts;
  };

  Tensor memory_;
  const mesh::Place place_;
  device::Device& device_;
  std::unique_ptr<device::Stream> stream_;
  std::unique_ptr<device::Event> ready_, copied_;  ///< ready: the state may be read
  std::vector<Copy> copies_;
};

}  // namespace sft::checkpoint
