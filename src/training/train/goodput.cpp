// SPDX-License-Identifier: Apache-2.0
#include "sft/train/goodput.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>

#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

double TimeUse::goodput() const { return total_s > 0 ? useful_s / total_s : 0.0; }

double TimeUse::other_s() const {
  return std::max(0.0, total_s - useful_s - save_s - evaluation_s - restart_s - repeated_s);
}

std::vector<std::string> describe(const TimeUse& use) {
  std::vector<std::string> lines{
      fmt::format("{:.1f} % of {} since the first start", 100.0 * use.goodput(), format_duration(use.total_s))};
  if (use.num_restarts > 0) {
    lines.front() +=
        fmt::format("; {}, {} repeated", plural(use.num_restarts, "restart"), plural(use.num_repeated_steps, "step"));
  }
  std::string rest;
  const auto add = [&](const char* name, double time_s) {
    const double percent = use.total_s > 0 ? 100.0 * time_s / use.total_s : 0.0;
    if (percent >= 0.05) rest += fmt::format("{}{} {:.1f} %", rest.empty() ? "" : ", ", name, percent);
  };
  add("saves", use.save_s);
  add("evaluations", use.evaluation_s);
  add(use.num_restarts > 0 ? "restarts" : "start", use.restart_s);
  add("repeats", use.repeated_s);
  add("other", use.other_s());
  if (!rest.empty()) lines.push_back(rest);
  return lines;
}

Goodput::Goodput(double process_start_s)
    : first_start_s_(process_start_s), process_start_s_(process_start_s), last_sign_s_(process_start_s) {}

void Goodput::resume(std::int64_t step, const std::optional<TimeNote>& saved, const std::optional<TimeNote>& started,
                     const std::optional<TimeNote>& logged) {
  is_resumed_ = true;
  std::optional<TimeNote> last = saved;  // whatever was noted last says most
  for (const std::optional<TimeNote>& note : {started, logged}) {
    if (note && (!last || note->time_s > last->time_s)) last = note;
  }
  if (!last) {
    use_.num_restarts = 1;
    return;
  }
  use_ = last->use;
  ++use_.num_restarts;
  first_start_s_ = last->time_s - last->use.total_s;
  last_sign_s_ = last->time_s;
  if (!saved || last->step <= step) return;
  num_repeated_now_ = last->step - step;
  use_.num_repeated_steps += num_repeated_now_;
  use_.repeated_s += std::max(0.0, last->use.useful_s - saved->use.useful_s);
  use_.useful_s = saved->use.useful_s;
}

void Goodput::count_restarts(std::int64_t num_restarts) {
  use_.num_restarts = std::max(use_.num_restarts, num_restarts);
}

void Goodput::begin_steps(double now_s) {
  if (has_begun_) return;
  has_begun_ = true;
  resumed_after_s_ = std::max({0.0, now_s - last_sign_s_, now_s - process_start_s_});
  use_.restart_s += resumed_after_s_;
}

TimeUse Goodput::at(double now_s) const {
  TimeUse use = use_;
  if (!has_begun_) use.restart_s += std::max(0.0, now_s - last_sign_s_);
  const double known_s = use.useful_s + use.save_s + use.evaluation_s + use.restart_s + use.repeated_s;
  use.total_s = std::max(now_s - first_start_s_, known_s);
  return use;
}

std::string Goodput::describe_resume() const {
  if (!is_resumed_) return "";
  return fmt::format("resumed after {}, {} repeated", format_seconds(resumed_after_s_),
                     plural(num_repeated_now_, "step"));
}

double Goodput::now() {
  using Steady = std::chrono::steady_clock;
  static const Steady::time_point steady_start = Steady::now();
  static const double start_s =
      std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  return start_s + std::chrono::duration<double>(Steady::now() - steady_start).count();
}

std::int64_t launched_restarts() {
  const char* const text = std::getenv("SFT_RESTARTS");
  if (text == nullptr || *text == '\0') return 0;
  std::int64_t count = 0;
  const char* const end = text + std::strlen(text);
  const auto [stop, error] = std::from_chars(text, end, count);
  if (error == std::errc{} && stop == end && count >= 0) return count;
  log_warning(fmt::format("SFT_RESTARTS is {}, which is no number of restarts: it is not counted", text));
  return 0;
}

}  // namespace sft::train
