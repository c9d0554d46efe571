// SPDX-License-Identifier: Apache-2.0
#pragma once
// What moves numbers between the place where they wait and the memory in which they are worked on, beside the ops.
// Who offloads something says which numbers are moved when; how they are moved, and who waits for it, is here alone.

#include <cstddef>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::transfer {

/// Numbers that go from a place to memory, or back.
struct Move {
  std::size_t place;   ///< its number
  std::size_t at = 0;  ///< bytes from its beginning
  Tensor memory = {};  ///< contiguous
};
/// `tensors` one after the other in a place.
[[nodiscard]] inline std::vector<Move> moves_of(std::size_t place, const std::vector<Tensor>& tensors) {
  std::vector<Move> moves;
  std::size_t at = 0;
  for (const Tensor& tensor : tensors) {
    moves.push_back({.place = place, .at = at, .memory = tensor});
    at += tensor.size_bytes();
  }
  return moves;
}

/// Ops are those of one stream, the compute stream. A lane is what is waited for together: its transfers follow each
/// other, those of several lanes run beside each other. Errors of the transfers are Errors that surface in any later
/// call. Local.
class Mover {
 public:
  virtual ~Mover() = default;

  /// Starts reading places into memory, behind what the reads follow (below).
  virtual void read(std::size_t lane, const std::vector<Move>& moves) = 0;
  /// Starts writing what the ops queued so far leave in memory.
  virtual void write(std::size_t lane, const std::vector<Move>& moves) = 0;
  /// What is queued on `stream` from now on finds the lane's transfers done.
  virtual void finish(std::size_t lane, device::Stream& stream) = 0;

  // Reads that are started from now on come behind
  /// the lane's transfers,
  virtual void reads_follow(std::size_t lane) = 0;
  /// what `event` recorded,
  virtual void reads_follow(device::Event& event) = 0;
  /// the ops queued so far.
  virtual void reads_follow_ops() = 0;
  /// Ops queued from now on, which reach the places themselves, find there what all writes leave.
  virtual void ops_follow_writes() = 0;

  /// Waits for all transfers, whatever became of them: before the memory goes.
  virtual void drain() noexcept = 0;
};

}  // namespace sft::transfer
