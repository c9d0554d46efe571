// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory that the ranks of a group on one node reach in each other, and how they tell each other how far a collective
// on it is: no message is sent.
//
// A call is numbered; all ranks of the group make the calls of a window in the same order, so they agree on the number.
// A rank notes the stage that it has reached in a call, a number that only grows, with release; the others read it with
// acquire before they touch what the stage promises. So what a rank wrote before a note is seen by all who read the
// note.

#include <mpi.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "communicator.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/machine/node.hpp"

namespace sft::comm {

class SharedWindow {
 public:
  /// What became of a wish for a window.
  enum class Outcome {
    made = 0,  ///< the least, so that the largest is that of ranks which do not agree
    other_node,
    no_space,  ///< the node's shared memory is too small
    refused,   ///< by the limit of a rank's address space or of its files
  };

  /// `bytes` on every rank; of MemoryUse::gathered once for all. Null, the same on all ranks and with `outcome` set to
  /// why, where the ranks are on several nodes, or one of them cannot have it: nobody can run into an end of memory
  /// later. Collective over the group, and so is destruction.
  [[nodiscard]] static std::unique_ptr<SharedWindow> make(const Group& group, MemoryUse use, std::size_t bytes,
                                                          Outcome& outcome);
  /// The folder of the file system that holds windows.
  [[nodiscard]] static const char* backing_folder();
  ~SharedWindow();
  SharedWindow(const SharedWindow&) = delete;
  SharedWindow& operator=(const SharedWindow&) = delete;

  [[nodiscard]] const Group& group() const { return group_; }
  [[nodiscard]] MemoryUse use() const { return use_; }
  /// Memory of a rank of the group, page-aligned; the same for all where it is `gathered`.
  [[nodiscard]] std::byte* data(int rank) const { return data_[rank]; }
  /// Whether [begin, begin + bytes) is this rank's memory here.
  [[nodiscard]] bool holds(const std::byte* begin, std::size_t bytes) const;

  /// The number of the next call; each is begun and finished.
  [[nodiscard]] std::uint64_t next_call() { return ++num_calls_; }
  /// Notes stage 1 of `call` on a tensor at `offset` of this rank's data. False, and to be asked again, while too many
  /// earlier calls are under way.
  [[nodiscard]] bool begin(std::uint64_t call, std::size_t offset);
  /// Notes that this rank has reached `stage` (2 or 3).
  void note(std::uint64_t call, std::uint64_t stage);
  /// Whether all ranks have reached `stage`.
  [[nodiscard]] bool have_all_reached(std::uint64_t call, std::uint64_t stage) const;
  /// The tensor of a rank in a call that it has begun, and in which this rank is not at its last stage.
  [[nodiscard]] std::byte* tensor(std::uint64_t call, int rank) const;
  /// After all ranks have reached the last stage of `call`.
  void finish(std::uint64_t call);

 private:
  /// What a rank tells about a call; the only one to write it is that rank.
  struct alignas(64) Note {
    std::atomic<std::uint64_t> stage;  ///< 4 x call + stage
    std::uint64_t offset;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free, "processes share atomics without a lock");
  static constexpr std::size_t num_notes = 16;  ///< calls of a window under way at a time
  using Notes = std::array<Note, num_notes>;

  SharedWindow(Group group, MemoryUse use, std::size_t bytes);
  /// False where MPI or the system refuses; to be agreed on by the group.
  [[nodiscard]] bool allocate();
  [[nodiscard]] bool take_pages() const;
  [[nodiscard]] static std::size_t slot_of(std::uint64_t call) { return call % num_notes; }
  [[nodiscard]] Note& note_of(int rank, std::uint64_t call) const { return (*notes_[rank])[slot_of(call)]; }

  Group group_;
  MemoryUse use_;
  std::size_t bytes_;
  MPI_Win window_ = MPI_WIN_NULL;
  std::optional<machine::SharedBytes> account_;
  std::vector<Notes*> notes_;     ///< of each rank
  std::vector<std::byte*> data_;  ///< of each rank
  std::uint64_t num_calls_ = 0;
  std::array<std::uint64_t, num_notes> finished_{};  ///< the last call with each slot
};

}  // namespace sft::comm
