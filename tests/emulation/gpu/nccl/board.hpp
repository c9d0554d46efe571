// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the ranks of one communicator share: who has come, which operation each has begun, and the data on its way.
//
// Collectives run in rounds. In each round every rank puts a part into its slot, waits for the parts of all, reads
// them, and says so; the next round begins when all have read. Sends and receives go through a channel for each ordered
// pair of ranks, one part at a time.

#include <nccl.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

#include "shared_memory.hpp"

namespace sft::emulation {

inline constexpr std::size_t slot_bytes = std::size_t{256} << 10;
inline constexpr std::size_t channel_bytes = std::size_t{64} << 10;

/// What a rank calls, so that others can see whether they call the same.
struct Call {
  enum class Kind : std::int32_t { all_reduce, all_gather, reduce_scatter, broadcast, reduce, send };
  Kind kind;
  ncclDataType_t type;
  ncclRedOp_t operation;  ///< of reductions; ncclSum else
  std::int32_t root;      ///< of broadcast and reduce; -1 else
  std::uint64_t count;    ///< as in the call's argument

  [[nodiscard]] bool operator==(const Call&) const = default;
};
/// "ncclAllReduce of 12 ncclFloat32 (ncclSum)"
[[nodiscard]] std::string describe(const Call& call);

/// Of one rank; written by it alone.
struct alignas(64) RankState {
  std::atomic<std::uint64_t> begun;      ///< launches of this communicator that its device has begun
  std::atomic<std::uint64_t> published;  ///< rounds whose part lies in its slot
  std::atomic<std::uint64_t> consumed;   ///< rounds that it has read
  std::atomic<std::uint32_t> has_come;
  std::atomic<std::uint32_t> has_finalized;
  std::atomic<std::uint64_t> splits_begun;  ///< for which color and key are there, and of a part's first rank its board
  std::atomic<std::uint64_t> splits_read;   ///< for which it has read those of all
  std::int32_t split_color, split_key;
  SharedMemoryKey split_board;
  SharedMemoryKey page;  ///< of its process (wait_page.hpp)
  Call call;             ///< of the published round
  std::uint64_t part_bytes;
};

/// From one rank to another.
struct alignas(64) Channel {
  std::atomic<std::uint64_t> receives_begun;  ///< messages whose receiver has begun to wait; written by the receiver
  std::atomic<std::uint64_t> sends_begun;     ///< written by the sender
  std::atomic<std::uint64_t> written;         ///< parts
  std::atomic<std::uint64_t> read;
  Call call;
  std::uint64_t part_bytes;
  std::byte part[channel_bytes];
};

/// The memory of a communicator of `num_ranks`.
class Board {
 public:
  Board(const SharedMemoryKey& key, int num_ranks);

  /// How many ranks the first that came wants; this rank wants `num_ranks`.
  [[nodiscard]] int agree_on_size(int num_ranks);
  [[nodiscard]] RankState& rank(int number) const;
  [[nodiscard]] std::byte* slot(int rank) const;
  [[nodiscard]] Channel& channel(int from, int to) const;
  [[nodiscard]] int num_ranks() const { return num_ranks_; }

 private:
  struct Header {
    std::uint64_t nonce;
    std::atomic<std::int32_t> num_ranks;
  };
  [[nodiscard]] static std::size_t bytes(int num_ranks);

  int num_ranks_;
  SharedMemory memory_;
};

}  // namespace sft::emulation
