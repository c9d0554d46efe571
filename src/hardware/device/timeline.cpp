// SPDX-License-Identifier: Apache-2.0
#include "sft/device/timeline.hpp"

#include <fmt/core.h>
#include <set>
#include <utility>

#include "sft/device/device.hpp"

namespace sft::device {

namespace {

std::string text_of(const RangeLabel& label) {
  std::string text(label.of);
  if (label.number >= 0) text += fmt::format("{}{}", text.empty() ? "" : " ", label.number);
  if (!text.empty() && !label.what.empty()) text += ' ';
  return text.append(label.what);
}

}  // namespace

void Timeline::start(std::size_t max_ranges) {
  max_ranges_ = max_ranges;
  num_left_out_ = 0;
  ranges_.clear();
  on_start();
  is_on_ = true;
}

Timeline::Noted Timeline::stop() {
  is_on_ = false;
  std::set<Stream*> streams;
  for (const Range& range : ranges_) {
    if (range.stream != nullptr) streams.insert(range.stream);
  }
  for (Stream* stream : streams) stream->synchronize();
  on_stop();

  Noted noted{.ranges = {}, .num_left_out = num_left_out_};
  const auto add = [&](const Range& range, const std::string& track, const Interval& interval) {
    if (!interval.is_over()) return;
    noted.ranges.push_back({range.name, range.category, track, range.bytes, interval.begin_ns, interval.end_ns});
  };
  for (const Range& range : ranges_) {
    if (range.stream == nullptr || is_queued()) add(range, "host", range.on_host);
    if (range.stream != nullptr) add(range, range.stream->name(), range.on_stream);
  }
  ranges_.clear();
  return noted;
}

Timeline::Id Timeline::open(const RangeLabel& label, Stream* stream) {
  std::string name = text_of(label);
  on_begin(name);
  if (ranges_.size() == max_ranges_) {
    ++num_left_out_;
    return left_out;
  }
  ranges_.push_back({std::move(name), label.category, label.bytes, stream, {now_ns(), -1}, {}});
  return ranges_.size() - 1;
}

Timeline::Id Timeline::begin(const RangeLabel& label) { return open(label, nullptr); }

Timeline::Id Timeline::begin(const RangeLabel& label, Stream& stream) {
  const Id id = open(label, &stream);
  if (id != left_out) stamp(stream, id, Edge::begin);
  return id;
}

void Timeline::end(Id id) {
  if (!is_on_) return;
  on_end();
  if (id == left_out) return;
  if (Stream* stream = ranges_[id].stream; stream != nullptr) stamp(*stream, id, Edge::end);
  ranges_[id].on_host.end_ns = now_ns();
}

void Timeline::set_time(Id id, Edge edge, std::int64_t time_ns) {
  Interval& interval = ranges_[id].on_stream;
  (edge == Edge::begin ? interval.begin_ns : interval.end_ns) = time_ns;
}

void Timeline::stamp(Stream& /*stream*/, Id id, Edge edge) { set_time(id, edge, now_ns()); }

void timed_wait(Timeline& timeline, Stream& stream, Event& event, std::string_view what, std::string_view of) {
  timed(timeline, stream, {.category = "wait", .what = what, .of = of}, [&] { stream.wait(event); });
}

}  // namespace sft::device
