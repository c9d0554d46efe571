// SPDX-License-Identifier: Apache-2.0
#pragma once
// Of ranks that hold the same numbers one reads them from storage and sends them to the others.

#include <cstddef>
#include <exception>
#include <functional>
#include <map>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/group.hpp"

namespace sft::checkpoint {

/// The ranks that hold the same shards of an entry. What they do together goes on to its end when one fails, for the
/// others wait in it; the error comes afterwards.
class Sharers {
 public:
  /// Collective over `world`, which has the mesh of `shard_map`.
  Sharers(const comm::Group& world, const parallel::ShardMap& shard_map);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] int rank() const { return rank_; }
  /// The member whose turn it is to read. All members ask equally often, between reads.
  [[nodiscard]] int next_reader() { return turn_++ % size_; }

  /// Bytes that member `reader` reads: all get them, in `bytes`. False where that failed, here or there. Collective
  /// over the members, with the same `reader` and `count`.
  bool read(int reader, std::size_t count, void* bytes, const std::function<void()>& read_them);
  /// Local work on what was read; none after an error.
  void apply(const std::function<void()>& work);
  /// Throws the first error of this rank, if there was one.
  void rethrow() const;

 private:
  comm::Group group_;  ///< none of one rank
  int size_, rank_;
  int turn_ = 0;
  bool failed_ = false;  ///< here or at the rank that read
  std::exception_ptr error_;
  std::vector<std::int64_t> message_;
};

/// The Sharers of entries, made once for those that are sharded alike. Collective over the world.
class AllSharers {
 public:
  AllSharers(const comm::Group& world, const std::vector<Entry>& entries);
  [[nodiscard]] Sharers& of(const Entry& entry) { return sharers_.at(number_of(entry)); }
  void rethrow() const;

 private:
  [[nodiscard]] std::size_t number_of(const Entry& entry) const;
  std::vector<AxisSet> axes_;  ///< along which ranks hold the same
  std::vector<Sharers> sharers_;
};

}  // namespace sft::checkpoint
