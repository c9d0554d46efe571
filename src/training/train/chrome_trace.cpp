// SPDX-License-Identifier: Apache-2.0
#include "chrome_trace.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <nlohmann/json.hpp>

namespace sft::train {

namespace {

std::string quoted(const std::string& text) { return nlohmann::json(text).dump(); }

/// In microseconds, the format's unit.
std::string microseconds(std::int64_t time_ns) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3f", static_cast<double>(time_ns) / 1e3);
  return text.data();
}

/// A name, or a place among others, of process `pid` or of its thread `tid`.
std::string metadata(const char* what, const std::string& ids, const std::string& arguments) {
  return std::string(R"({"ph":"M","name":")") + what + "\"," + ids + ",\"args\":{" + arguments + "}}";
}

/// The threads, numbered from 1 on: viewers take thread 0 for an idle processor.
class Tracks {
 public:
  explicit Tracks(const std::vector<device::TimedRange>& ranges) {
    for (const device::TimedRange& range : ranges) {
      if (std::ranges::find(names_, range.track) == names_.end()) names_.push_back(range.track);
    }
  }
  [[nodiscard]] const std::vector<std::string>& names() const { return names_; }
  [[nodiscard]] std::string number(const std::string& name) const {
    return std::to_string(std::ranges::find(names_, name) - names_.begin() + 1);
  }

 private:
  std::vector<std::string> names_ = {"host", "compute", "communication", "gathers", "ring", "tp"};
};

}  // namespace

std::string chrome_trace_begin(const std::string& description) {
  return R"({"displayTimeUnit":"ms","otherData":{"description":)" + quoted(description) + "},\"traceEvents\":[\n";
}

std::string chrome_trace_events(int rank, const std::string& name, const std::vector<device::TimedRange>& ranges,
                                std::int64_t origin_ns) {
  const Tracks tracks(ranges);
  const std::string process = "\"pid\":" + std::to_string(rank);
  std::string text = metadata("process_name", process, "\"name\":" + quoted(name));
  const auto add = [&](const std::string& event) { text += ",\n" + event; };
  add(metadata("process_sort_index", process, "\"sort_index\":" + std::to_string(rank)));
  for (const std::string& track : tracks.names()) {
    const std::string number = tracks.number(track);
    const std::string ids = process + ",\"tid\":" + number;
    add(metadata("thread_name", ids, "\"name\":" + quoted(track)));
    add(metadata("thread_sort_index", ids, "\"sort_index\":" + number));
  }
  for (const device::TimedRange& range : ranges) {
    add(R"({"ph":"X","name":)" + quoted(range.name) + ",\"cat\":" + quoted(range.category) + "," + process +
        ",\"tid\":" + tracks.number(range.track) + ",\"ts\":" + microseconds(range.begin_ns - origin_ns) +
        ",\"dur\":" + microseconds(range.end_ns - range.begin_ns) +
        (range.bytes > 0 ? ",\"args\":{\"bytes\":" + std::to_string(range.bytes) + "}}" : "}"));
  }
  return text;
}

std::string chrome_trace_end() { return "\n]}\n"; }

}  // namespace sft::train
