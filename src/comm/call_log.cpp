// SPDX-License-Identifier: Apache-2.0
#include "call_log.hpp"

#include <algorithm>
#include <cmath>

#include "sft/core/ensure.hpp"
#include "sft/core/format.hpp"

namespace sft::comm {

namespace {

std::string seconds(CallLog::Duration duration) {
  return std::to_string(std::llround(std::chrono::duration<double>(duration).count())) + " s";
}

}  // namespace

CallLog::CallLog(const std::vector<std::string>& names) {
  for (const std::string& name : names) groups_.push_back({name, {}, {}});
}

void CallLog::start(std::size_t group, const char* call, std::size_t bytes, Time now) {
  if (is_idle()) last_move_ = now;
  Group& of = groups_.at(group);
  of.last = {call, bytes, now, of.last.number + 1};
  of.under_way.push_back(of.last);
}

void CallLog::finish(std::size_t group, Time now) {
  Group& of = groups_.at(group);
  SFT_ENSURE(!of.under_way.empty(), "a call that finishes was under way");
  of.under_way.pop_front();
  last_move_ = now;
}

bool CallLog::is_idle() const {
  return std::ranges::all_of(groups_, [](const Group& group) { return group.under_way.empty(); });
}

CallLog::Duration CallLog::standstill(Time now) const { return is_idle() ? Duration::zero() : now - last_move_; }

std::string CallLog::describe(Time now) const {
  std::string waiting, idle;
  for (const Group& group : groups_) {
    if (!group.under_way.empty()) {
      const Call& call = group.under_way.front();
      waiting += (waiting.empty() ? "group " : "; group ") + group.name + " waits in call " +
                 std::to_string(call.number) + ", " + call.name + " of " + format_bytes(call.bytes) + ", for " +
                 seconds(now - call.start);
      const auto num_behind = static_cast<std::int64_t>(group.under_way.size()) - 1;
      if (num_behind > 0) waiting += ", with " + plural(num_behind, "call") + " behind it";
    } else {
      idle +=
          "; group " + group.name + " finished all its " + plural(static_cast<std::int64_t>(group.last.number), "call");
      if (group.last.number > 0) idle += std::string(", the last was ") + group.last.name;
    }
  }
  return waiting + idle;
}

}  // namespace sft::comm
