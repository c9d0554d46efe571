// SPDX-License-Identifier: Apache-2.0
#pragma once
// A communicator of the emulated NCCL, as one rank sees it.

#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "board.hpp"

namespace sft::emulation {

class Communicator {
 public:
  /// Comes to the board and waits until all ranks have. Throws std::runtime_error where they do not within five
  /// minutes.
  Communicator(const SharedMemoryKey& key, int num_ranks, int rank, const char* name, bool is_blocking);

  /// A part of the ranks, as ncclCommSplit makes it: those of one color, in the order of their keys.
  struct Part {
    SharedMemoryKey board;
    int size, rank;
  };
  /// Waits for all ranks. Throws std::runtime_error where they do not come within five minutes.
  [[nodiscard]] Part split(int color, int key);

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int size() const { return board_.num_ranks(); }
  [[nodiscard]] int device() const { return device_; }
  [[nodiscard]] bool is_blocking() const { return is_blocking_; }
  [[nodiscard]] Board& board() { return board_; }
  /// "communicator tp, rank 1 of 2"
  [[nodiscard]] std::string describe() const;
  [[nodiscard]] const std::string& name() const { return name_; }

  /// An error of queued work: later calls return it. The first one counts; it is printed, because the work never ends.
  void fail(ncclResult_t result, const std::string& text);
  [[nodiscard]] ncclResult_t error() const { return error_; }
  void set_last_error(const std::string& text);
  /// Stays valid until the next error of this communicator.
  [[nodiscard]] const char* last_error() const;

  enum class State { alive, finalized, destroyed, aborted };
  [[nodiscard]] State state() const { return state_; }
  void set_state(State state) { state_ = state; }
  /// After it was finalized: whether its work is done on all ranks.
  [[nodiscard]] bool is_finalized();
  /// Blocks until it is, or an error comes, which it returns.
  [[nodiscard]] ncclResult_t wait_until_finalized();

  // What its launches count (launch.hpp). All but num_unfinished are touched by the device alone.
  std::uint64_t num_collectives = 0, num_rounds = 0, num_launches = 0;
  std::vector<std::uint64_t> num_sends, num_receives;  ///< messages with each rank
  std::vector<std::uint64_t> num_parts_sent, num_parts_received;
  std::atomic<std::uint64_t> num_unfinished = 0;

  /// Registered buffers, by handle.
  std::map<void*, std::pair<const std::byte*, std::size_t>> buffers;

 private:
  /// Waits until it holds of all ranks.
  template <class Holds>
  void wait_for_all(const Holds& holds, const char* otherwise);

  int rank_;
  int device_ = 0;
  std::string name_;
  bool is_blocking_;
  Board board_;
  std::atomic<State> state_ = State::alive;
  std::atomic<ncclResult_t> error_ = ncclSuccess;
  mutable std::mutex mutex_;
  std::string last_error_;
  std::uint64_t num_splits_ = 0;
};

/// All communicators that this process has made, also the destroyed ones: an address never comes again.
class Communicators {
 public:
  [[nodiscard]] static Communicators& all();
  [[nodiscard]] ncclComm_t add(std::unique_ptr<Communicator> communicator);
  /// The communicator behind the handle; null where there is none, or it was destroyed or aborted.
  [[nodiscard]] Communicator* find(ncclComm_t handle) const;
  /// A registered buffer that shares memory with this one; null: none.
  [[nodiscard]] const Communicator* registered(const void* begin, std::size_t bytes) const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::unique_ptr<Communicator>> list_;
};

}  // namespace sft::emulation
