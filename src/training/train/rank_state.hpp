// SPDX-License-Identifier: Apache-2.0
#pragma once
// A rank's state, exchanged between two passes over the model, so that all ranks go on, stop or fail together.

#include <array>
#include <cstdint>
#include <span>

#include "sft/comm/group.hpp"
#include "sft/core/activity.hpp"

namespace sft::train {

struct RankState {
  int signal = 0;             ///< received, 0: none
  bool failed = false;        ///< the next micro-batch could not be read
  bool is_writing = false;    ///< a thread writes a checkpoint
  bool write_failed = false;  ///< it could not

  [[nodiscard]] bool must_stop() const { return signal != 0 || failed; }
};

/// The states of all ranks in one, by one small reduction. Collective over `world`.
[[nodiscard]] inline RankState exchange(const RankState& mine, const comm::Group& world) {
  const Activity asking(ActivityKind::works, "asking whether all go on");
  std::array<std::int64_t, 4> values{mine.signal, mine.failed ? 1 : 0, mine.is_writing ? 1 : 0,
                                     mine.write_failed ? 1 : 0};
  world.max(std::span<std::int64_t>(values));
  return {static_cast<int>(values[0]), values[1] != 0, values[2] != 0, values[3] != 0};
}

}  // namespace sft::train
