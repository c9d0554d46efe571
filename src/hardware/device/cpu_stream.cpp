// SPDX-License-Identifier: Apache-2.0
#include "cpu_stream.hpp"

#include <optional>
#include <thread>
#include <utility>

#include "sft/core/activity.hpp"
#include "sft/machine/node.hpp"

namespace sft::device {

void CpuStreams::poll_all() {
  for (CpuStream* stream : streams_) stream->poll();
}

void CpuStreams::poll_others(const CpuStream& waiting) {
  for (CpuStream* stream : streams_) {
    if (stream != &waiting) stream->poll();
  }
}

void CpuStreams::pause(int num_tests) const {
  if (ranks_share_cores_) {
    machine::pause_between_tests(num_tests);
  } else {
    std::this_thread::yield();
  }
}

void CpuStream::wait(Event& event) {
  auto& cpu_event = static_cast<CpuEvent&>(event);
  if (cpu_event.stream() != this) cpu_event.synchronize();  // on this stream the queue keeps the order
}

void CpuStream::poll() {
  while (!queue_.empty() && queue_.front()->test()) {
    queue_.pop_front();
    ++num_finished_;
  }
}

void CpuStream::push(std::unique_ptr<Pending> work) {
  queue_.push_back(std::move(work));
  ++num_pushed_;
  poll();
}

void CpuStream::finish(std::uint64_t count) {
  std::optional<Activity> waiting;
  for (int num_tests = 0; num_finished_ < count;) {
    if (queue_.front()->test()) {
      waiting.reset();
      queue_.pop_front();
      ++num_finished_;
      num_tests = 0;
    } else {
      if (!waiting) {
        const WaitText text = queue_.front()->text();
        waiting.emplace(ActivityKind::waits, text.what, text.of, text.over, text.number);
      }
      streams_.poll_others(*this);
      streams_.pause(++num_tests);
    }
  }
}

void CpuEvent::record(Stream& stream) {
  stream_ = static_cast<CpuStream*>(&stream);
  position_ = stream_->num_pushed();
}

void CpuEvent::synchronize() {
  if (stream_ != nullptr) stream_->finish(position_);
}

}  // namespace sft::device
