#include "cpu_stream.hpp"

#include <utility>

namespace sft::device {

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
  while (num_finished_ < count) {
    queue_.front()->wait();
    queue_.pop_front();
    ++num_finished_;
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
