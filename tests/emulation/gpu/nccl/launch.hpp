// SPDX-License-Identifier: Apache-2.0
#pragma once
// What one call, or one group of calls, queues on a stream: collectives one after the other, then sends and receives,
// all at the same time. It goes forward in small steps that never block, because other processes have to do their part.

#include <nccl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "communicator.hpp"
#include "launch_order.hpp"
#include "shared_memory.hpp"

namespace sft::emulation {

/// One collective call. Device memory.
struct Collective {
  Call call;
  const void* send;
  void* receive;
};

/// One ncclSend or ncclRecv. Device memory.
struct Transfer {
  bool is_send;
  int peer;
  Call call;
  std::byte* data;  ///< only read when sent
};

class Launch {
 public:
  Launch(Communicator& communicator, std::vector<Collective> collectives, std::vector<Transfer> transfers);

  /// For enqueue(): goes as far as it can; true when all is done, or the communicator was aborted.
  [[nodiscard]] bool try_run();
  [[nodiscard]] const Communicator& communicator() const { return communicator_; }
  /// "ncclAllReduce of ... as launch 3 of communicator tp, rank 1 of 2"
  [[nodiscard]] std::string describe() const;

 private:
  /// How far a transfer is.
  struct Progress {
    std::uint64_t message = 0;  ///< its number among those of its channel
    std::size_t done_bytes = 0;
    bool is_written = false;  ///< sends: all parts; the receiver has yet to read the last
    bool is_done = false;
  };

  void begin();
  [[nodiscard]] bool is_to_hang() const;
  [[nodiscard]] bool is_at(const struct Hang& place) const;
  [[nodiscard]] bool advance_collective();
  void publish(const Collective& collective);
  void collect(const Collective& collective);
  [[nodiscard]] bool all_call_the_same(const Call& call);
  [[nodiscard]] bool advance_transfers();
  void advance(const Transfer& transfer, Progress& progress);
  void write_part(const Transfer& transfer, Progress& progress, Channel& channel);
  void read_part(const Transfer& transfer, Progress& progress, Channel& channel);
  /// Those that have not begun their part of this launch.
  [[nodiscard]] std::vector<SharedMemoryKey> missing() const;
  void watch();

  Communicator& communicator_;
  std::vector<Collective> collectives_;
  std::vector<Transfer> transfers_;
  std::vector<Progress> progress_;
  bool has_begun_ = false;
  std::uint64_t number_ = 0;  ///< among the launches of the communicator on this rank
  std::uint64_t first_collective_ = 0;
  std::size_t current_ = 0;        ///< collective
  std::size_t done_elements_ = 0;  ///< of it
  bool is_published_ = false;      ///< the current round
};

/// What a rank keeps from arriving: SFT_EMULATED_NCCL_HANG=NAME:RANK[:LAUNCH], a communicator's name (empty: any), a
/// rank in it and a launch (1, the first, when left out). For tests of those who watch over communication.
struct Hang {
  std::string name;
  int rank = -1;  ///< nobody hangs
  std::uint64_t launch = 1;
};
/// From the environment, or of a text. Throws std::runtime_error when it reads otherwise.
[[nodiscard]] Hang parse_hang(const std::string& text);

/// Which launch of which rank fails, as queued work does: SFT_EMULATED_NCCL_ERROR=NAME:RANK:LAUNCH:RESULT, the last the
/// number of an ncclResult_t.
struct Failure {
  Hang where;
  ncclResult_t result = ncclSuccess;
};
/// Throws std::runtime_error when it reads otherwise.
[[nodiscard]] Failure parse_failure(const std::string& text);

}  // namespace sft::emulation
