// SPDX-License-Identifier: Apache-2.0
#include "call_log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "sft/core/activity.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/format.hpp"

namespace sft::comm {

CallLog::CallLog(const std::vector<std::string>& names) {
  for (const std::string& name : names) groups_.push_back({name, {}, {}});
}

void CallLog::start(std::size_t group, const char* call, std::size_t bytes, Time now) {
  note_progress();
  const std::lock_guard lock(mutex_);
  Group& of = groups_.at(group);
  of.last = {call, bytes, now, of.last.number + 1};
  of.under_way.push_back(of.last);
}

void CallLog::finish(std::size_t group) {
  note_progress();
  const std::lock_guard lock(mutex_);
  Group& of = groups_.at(group);
  SFT_ENSURE(!of.under_way.empty(), "a call that finishes was under way");
  of.under_way.pop_front();
}

std::string CallLog::describe(Time now) const {
  const std::lock_guard lock(mutex_);
  std::string waiting, idle;
  for (const Group& group : groups_) {
    const auto num_behind = static_cast<std::int64_t>(group.under_way.size()) - 1;
    if (num_behind >= 0) {
      const Call& call = group.under_way.front();
      waiting += fmt::format("{}group {} waits in call {}, {} of {}, for {:.0f} s", waiting.empty() ? "" : "; ",
                             group.name, call.number, call.name, format_bytes(call.bytes),
                             std::chrono::duration<double>(now - call.start).count());
      if (num_behind > 0) waiting += fmt::format(", with {} behind it", plural(num_behind, "call"));
    } else {
      idle += fmt::format("; group {} finished all its {}", group.name,
                          plural(static_cast<std::int64_t>(group.last.number), "call"));
      if (group.last.number > 0) idle += fmt::format(", the last was {}", group.last.name);
    }
  }
  return waiting.empty() ? "" : waiting + idle;
}

namespace {

struct Probes {
  std::mutex mutex;
  std::vector<std::pair<const void*, CallProbe>> all;  ///< under mutex
};

Probes& probes() {
  static Probes of_process;
  return of_process;
}

}  // namespace

void add_call_probe(const void* owner, CallProbe probe) {
  const std::lock_guard lock(probes().mutex);
  probes().all.emplace_back(owner, std::move(probe));
}

void remove_call_probe(const void* owner) {
  const std::lock_guard lock(probes().mutex);
  std::erase_if(probes().all, [owner](const auto& entry) { return entry.first == owner; });
}

std::string ask_call_probes() {
  const std::lock_guard lock(probes().mutex);
  std::string answers;
  for (const auto& [owner, probe] : probes().all) answers += probe();
  return answers;
}

}  // namespace sft::comm
