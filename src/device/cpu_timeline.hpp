// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ranges on the streams of the CPU, where MPI may still be at work when a call returns: each end of a range is a piece
// of work of its own, which takes the time when its turn comes. It ends no earlier than somebody looks (Stream::poll).

#include "sft/device/timeline.hpp"

namespace sft::device {

class CpuTimeline final : public Timeline {
 private:
  class Mark;
  void stamp(Stream& stream, Id id, Edge edge) override;
};

}  // namespace sft::device
