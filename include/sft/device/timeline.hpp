// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where time goes: named ranges of what a rank does, on its host thread and on its streams, noted while somebody wants
// to know. Else a range costs one test of a flag.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

namespace sft::device {

class Event;
class Stream;

/// What a range is called: "<of> <number> <what>", such as "block 3 forward", of what there is.
struct RangeLabel {
  const char* category;  ///< a literal: "model", "collective" ...
  std::string_view what;
  std::string_view of = {};
  std::int64_t number = -1;  ///< negative: none
  std::size_t bytes = 0;     ///< that the range moves; 0: not told
};

/// Time is that of std::chrono::steady_clock, which all processes of a node share.
struct TimedRange {
  std::string name;
  const char* category;
  std::string track;  ///< the name of the stream, or "host"
  std::size_t bytes;
  std::int64_t begin_ns, end_ns;
};

/// The ranges of one device's rank. On streams a range begins when all work queued before it is finished, and ends when
/// its own is. For one thread; ranges nest. This one is for streams whose work is done when a call returns.
class Timeline {
 public:
  Timeline() = default;
  virtual ~Timeline() = default;
  Timeline(const Timeline&) = delete;
  Timeline& operator=(const Timeline&) = delete;

  [[nodiscard]] bool is_on() const { return is_on_; }

  /// From now on ranges are noted, `max_ranges` at most, and profilers that watch the process are told that what they
  /// want begins. Forgets earlier ranges.
  void start(std::size_t max_ranges);
  struct Noted {
    std::vector<TimedRange> ranges;  ///< as they began; without those that have not ended
    std::size_t num_left_out = 0;    ///< beyond max_ranges
  };
  /// The opposite. Waits for all streams that have ranges, which must still be there.
  [[nodiscard]] Noted stop();

  /// A range of the host thread, or of `stream`; while is_on(). Ends it: in the opposite order, while is_on() or, with
  /// no effect, later. Errors of a stream's queued work may surface in these.
  using Id = std::size_t;
  [[nodiscard]] Id begin(const RangeLabel& label);
  [[nodiscard]] Id begin(const RangeLabel& label, Stream& stream);
  void end(Id id);

 protected:
  enum class Edge { begin, end };
  [[nodiscard]] static std::int64_t now_ns() {
    return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  }
  /// For stamp() and on_stop().
  void set_time(Id id, Edge edge, std::int64_t time_ns);

 private:
  /// Sees to it that set_time is called, with the time at which `stream` comes to this point, by the end of on_stop().
  virtual void stamp(Stream& stream, Id id, Edge edge);
  /// Whether the host thread only queues the work of streams: its part of a range is then shown as well.
  [[nodiscard]] virtual bool is_queued() const { return false; }
  virtual void on_start() {}
  virtual void on_stop() {}  ///< all streams are finished
  virtual void on_begin(const std::string& /*name*/) {}
  virtual void on_end() {}

  struct Interval {
    std::int64_t begin_ns = -1, end_ns = -1;  ///< -1: not yet
    [[nodiscard]] bool is_over() const { return end_ns >= 0; }
  };
  struct Range {
    std::string name;
    const char* category;
    std::size_t bytes;
    Stream* stream;  ///< none: of the host alone
    Interval on_host, on_stream;
  };
  static constexpr Id left_out = SIZE_MAX;

  [[nodiscard]] Id open(const RangeLabel& label, Stream* stream);

  bool is_on_ = false;
  std::size_t max_ranges_ = 0, num_left_out_ = 0;
  std::vector<Range> ranges_;
};

/// work(), which the range `id` ends behind. An exception of it leaves the range without an end.
template <class Work>
decltype(auto) run_range(Timeline& timeline, Timeline::Id id, Work& work) {
  if constexpr (std::is_void_v<std::invoke_result_t<Work&>>) {
    work();
    timeline.end(id);
  } else {
    decltype(auto) result = work();
    timeline.end(id);
    return result;
  }
}

/// work(), as a range of the host thread, or of `stream`, on which it queues what it does.
template <class Work>
decltype(auto) timed(Timeline& timeline, const RangeLabel& label, Work&& work) {
  if (!timeline.is_on()) return work();
  return run_range(timeline, timeline.begin(label), work);
}
template <class Work>
decltype(auto) timed(Timeline& timeline, Stream& stream, const RangeLabel& label, Work&& work) {
  if (!timeline.is_on()) return work();
  return run_range(timeline, timeline.begin(label, stream), work);
}
/// stream.wait(event), as a range of category "wait": how long the stream has nothing to do before that.
void timed_wait(Timeline& timeline, Stream& stream, Event& event, std::string_view what, std::string_view of = {});

}  // namespace sft::device
