// SPDX-License-Identifier: Apache-2.0
#include "node_reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <fstream>
#include <optional>
#include <sstream>
#include <system_error>
#include <utility>

namespace sft::comm {

namespace fs = std::filesystem;

namespace {

constexpr int most_looks = 8;  ///< after which a file that does not change is of a node that does not write

/// Texts of the format have neither tabs nor newlines.
std::string plain(std::string text) {
  for (char& c : text) {
    if (c == '\t' || c == '\n') c = ' ';
  }
  return text;
}

std::vector<std::string> fields_of(const std::string& line) {
  std::vector<std::string> fields(1);
  for (const char c : line) {
    if (c == '\t') {
      fields.emplace_back();
    } else {
      fields.back() += c;
    }
  }
  return fields;
}

std::string read_text(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace

// A line of the node, then one a rank: RANK HOST CONDITION SECONDS, and KIND NUMBER TEXT of each activity.
std::string to_text(const NodeReport& report) {
  std::string text = fmt::format("{}\t{}\t{:d}\t{}\n", report.first_rank, report.beat, report.calls, report.hang_s);
  for (const StandingRank& rank : report.ranks) {
    text += fmt::format("{}\t{}\t{}\t{}", rank.rank, plain(rank.host), static_cast<int>(rank.condition), rank.stood_s);
    for (const ActivityText& activity : rank.activities) {
      text += fmt::format("\t{}\t{}\t{}", static_cast<int>(activity.kind), activity.number, plain(activity.text));
    }
    text += '\n';
  }
  return text;
}

std::optional<NodeReport> parse_node_report(const std::string& text) {
  std::istringstream lines(text);
  std::string line;
  NodeReport report;
  try {
    std::getline(lines, line);
    const std::vector<std::string> head = fields_of(line);
    report.first_rank = std::stoll(head.at(0));
    report.beat = std::stoll(head.at(1));
    report.calls = std::stoi(head.at(2)) != 0;
    report.hang_s = std::stod(head.at(3));
    while (std::getline(lines, line)) {
      const std::vector<std::string> fields = fields_of(line);
      StandingRank rank{.rank = std::stoi(fields.at(0)),
                        .host = fields.at(1),
                        .condition = static_cast<StandingRank::Condition>(std::stoi(fields.at(2))),
                        .activities = {},
                        .stood_s = std::stod(fields.at(3))};
      for (std::size_t i = 4; i < fields.size(); i += 3) {
        rank.activities.push_back({.kind = static_cast<ActivityKind>(std::stoi(fields.at(i))),
                                   .text = fields.at(i + 2),
                                   .number = std::stoull(fields.at(i + 1))});
      }
      report.ranks.push_back(std::move(rank));
    }
  } catch (const std::exception&) {
    return std::nullopt;
  }
  return report;
}

NodeReports::NodeReports(fs::path folder, std::int64_t first_rank, double period_s)
    : folder_(std::move(folder)),
      first_rank_(first_rank),
      period_(period_s),
      thread_([this](const std::stop_token& stop) { work(stop); }) {}

NodeReports::~NodeReports() {
  thread_.request_stop();
  thread_.join();
  if (speaks()) remove_own();
}

// The folder goes with the last file in it. A node that has none there lets an empty folder be: another one may just
// have made it to write into.
void NodeReports::remove_own() const {
  std::error_code ignored;
  if (fs::remove(file_of(first_rank_), ignored)) fs::remove(folder_, ignored);
}

void NodeReports::tell(const NodeReport& mine) {
  const std::lock_guard lock(mutex_);
  const std::int64_t beat = mine_.beat;
  mine_ = mine;
  mine_.beat = beat;
  speaks_ = true;
}

void NodeReports::leave_to_another() {
  const std::lock_guard lock(mutex_);
  speaks_ = false;
}

bool NodeReports::speaks() const {
  const std::lock_guard lock(mutex_);
  return speaks_;
}

std::vector<NodeReport> NodeReports::others() const {
  const std::lock_guard lock(mutex_);
  std::vector<NodeReport> reports;
  for (const auto& [first_rank, seen] : seen_) {
    if (seen.num_looks_ago <= most_looks) reports.push_back(seen.report);
  }
  return reports;
}

void NodeReports::work(const std::stop_token& stop) {
  std::mutex mutex;
  std::unique_lock lock(mutex);
  std::condition_variable_any stopped;
  while (!stop.stop_requested()) {
    stopped.wait_for(lock, stop, period_, [] { return false; });
    const bool has_voice = speaks();
    std::error_code error;
    if (has_voice && is_called()) fs::create_directories(folder_, error);
    if (!fs::is_directory(folder_, error)) continue;
    read_others();
    if (!has_voice) continue;
    if (is_called()) {
      write_own();
    } else {
      remove_own();
    }
  }
}

bool NodeReports::is_called() const {
  const std::vector<NodeReport> all = others();
  const std::lock_guard lock(mutex_);
  return mine_.calls || std::ranges::any_of(all, [](const NodeReport& report) { return report.calls; });
}

void NodeReports::write_own() {
  std::string text;
  {
    const std::lock_guard lock(mutex_);
    ++mine_.beat;
    text = to_text(mine_);
  }
  const fs::path path = file_of(first_rank_), temporary = path.string() + ".tmp";
  std::ofstream(temporary) << text;
  std::error_code ignored;
  fs::rename(temporary, path, ignored);
}

void NodeReports::read_others() {
  std::error_code error;
  std::map<std::int64_t, std::pair<std::string, NodeReport>> found;
  for (fs::directory_iterator file(folder_, error), end; !error && file != end; file.increment(error)) {
    if (file->path().extension() != ".txt" || file->path() == file_of(first_rank_)) continue;
    std::string text = read_text(file->path());
    if (auto report = parse_node_report(text)) {
      found[report->first_rank] = {std::move(text), std::move(*report)};
    }
  }
  const std::lock_guard lock(mutex_);
  for (auto& [first_rank, seen] : seen_) ++seen.num_looks_ago;
  for (auto& [first_rank, text_and_report] : found) {
    Seen& seen = seen_[first_rank];
    if (seen.text == text_and_report.first) continue;
    seen = {std::move(text_and_report.first), 0, std::move(text_and_report.second)};
  }
}

fs::path NodeReports::file_of(std::int64_t first_rank) const {
  return folder_ / fmt::format("node-of-rank-{}.txt", first_rank);
}

}  // namespace sft::comm
