// SPDX-License-Identifier: Apache-2.0
#include "cpu_timeline.hpp"

#include <memory>

#include "sft/device/device.hpp"

namespace sft::device {

class CpuTimeline::Mark final : public Pending {
 public:
  Mark(CpuTimeline& timeline, Id id, Edge edge) : timeline_(timeline), id_(id), edge_(edge) {}
  bool test() override {
    timeline_.set_time(id_, edge_, now_ns());
    return true;
  }

 private:
  CpuTimeline& timeline_;
  Id id_;
  Edge edge_;
};

void CpuTimeline::stamp(Stream& stream, Id id, Edge edge) { stream.push(std::make_unique<Mark>(*this, id, edge)); }

}  // namespace sft::device
