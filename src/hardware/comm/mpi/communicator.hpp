// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a Group wraps: one MPI communicator and its identity.

#include <mpi.h>

#include <cstdint>
#include <memory>
#include <string>

#include "sft/comm/group.hpp"
#include "sft/core/activity.hpp"

namespace sft::comm {

/// Owns `communicator` and frees it, unless MPI has ended before.
struct Group::Impl {
  /// Takes over `owned`; its errors return from now on.
  Impl(MPI_Comm owned, std::string group_name);
  /// A group of ranks that are not there.
  Impl(int planned_rank, int planned_size, std::string group_name);
  ~Impl();
  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  /// Throws an Error naming this group, `call`, MPI's own text and the rank unless `code` is MPI_SUCCESS.
  void check(int code, const char* call) const;

  /// A tag for the messages of one collective. All ranks make the same calls in the same order, so they agree on it; a
  /// tag returns only after 2^15 others (the smallest range that MPI promises).
  [[nodiscard]] int next_tag() { return num_calls_++ & 0x7fff; }
  /// The number of a collective among all over this group, from 1 on, for messages.
  [[nodiscard]] std::uint64_t next_number() { return ++num_collectives_; }
  /// This rank waits in `call` of hosts while the object lives.
  [[nodiscard]] Activity wait_in(const char* call) {
    return Activity(ActivityKind::waits, call, {}, name, next_number());
  }

  /// Where ranks share cores, returns once all ranks of the group have called it, and sleeps meanwhile; elsewhere at
  /// once. It comes before a call of MPI that waits for all of them: inside MPI a rank that waits yields its core again
  /// and again, and so keeps a part of it from those that still compute.
  void meet() const;

  MPI_Comm communicator = MPI_COMM_NULL;
  std::string name;
  int rank = 0;
  int size = 1;

 private:
  unsigned num_calls_ = 0;
  std::uint64_t num_collectives_ = 0;
};

[[nodiscard]] Group make_group(MPI_Comm owned, const std::string& name);

/// "Open MPI v4.1.4", the MPI library that this program was built with.
[[nodiscard]] std::string mpi_library();

}  // namespace sft::comm
