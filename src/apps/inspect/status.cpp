// SPDX-License-Identifier: Apache-2.0
#include "views.hpp"

#include <unistd.h>

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <climits>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <vector>

#include "apps/common/json_text.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "sft/io/file_lock.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

using Json = nlohmann::json;

double now_s() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Lines behind which nothing of a run's state is looked for.
constexpr std::streamoff tail_bytes = 256 << 10;

/// The JSON objects at the end of a file of one a line; a line that is still being written is left out.
std::vector<Json> last_lines(const std::string& path) {
  std::ifstream file(path, std::ios::binary | std::ios::ate);
  if (!file) return {};
  const std::streamoff begin = std::max<std::streamoff>(0, static_cast<std::streamoff>(file.tellg()) - tail_bytes);
  file.seekg(begin);
  std::vector<Json> lines;
  std::string line;
  if (begin > 0) std::getline(file, line);  // cut
  while (std::getline(file, line) && !file.eof()) {
    Json json = Json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (json.is_object() && json.contains("step") && json["step"].is_number_integer()) lines.push_back(std::move(json));
  }
  return lines;
}

std::optional<double> number(const Json& line, const char* name) {
  const auto found = line.find(name);
  if (found == line.end() || !found->is_number()) return std::nullopt;
  return found->get<double>();
}

bool is_evaluation(const Json& line) { return line.contains("eval_loss"); }

/// Who has or had the folder, as the lock's file says.
struct Process {
  long id = 0;
  std::string host, since;
};

Process parse_holder(const std::string& text) {
  Process process;
  std::array<char, HOST_NAME_MAX + 1> host{};
  std::array<char, 64> since{};
  static_assert(HOST_NAME_MAX == 64);
  if (std::sscanf(text.c_str(), "process %ld on host %64s since %63[^\n]", &process.id, host.data(), since.data()) ==
      3) {
    process.host = host.data();
    process.since = since.data();
  }
  return process;
}

/// Whether the process, which is of this host, is held by SIGSTOP or a debugger.
bool is_stopped(const Process& process) {
  std::array<char, HOST_NAME_MAX + 1> host{};
  ::gethostname(host.data(), host.size() - 1);
  if (process.host != host.data()) return false;
  std::ifstream status(fmt::format("/proc/{}/status", process.id));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("State:")) return line.find("stop") != std::string::npos;  // "T (stopped)", "t (tracing stop)"
  }
  return false;
}

struct Status {
  std::string state;  ///< one word, for programs
  std::string what;   ///< the same for people
  io::LockState lock;
  Process process;
  std::string run_id;
  std::optional<std::int64_t> step, num_steps, eval_step;
  std::optional<double> epoch, loss, eval_loss, tokens_per_second, goodput;
  std::optional<double> step_time_s;  ///< from line to line: what lies between steps is in it
  std::optional<double> time_left_s;
  std::optional<double> line_age_s;  ///< since the last sign of life
  std::optional<std::int64_t> restarts, repeated_steps;
  std::string checkpoint;  ///< the one saved last; empty: none
  std::string checkpoint_error;
  std::optional<std::int64_t> checkpoint_step;
  std::optional<double> checkpoint_age_s;
};

/// Seconds since a date as checkpoints have it.
std::optional<double> age_of(const std::string& date) {
  std::tm parts{};
  if (::strptime(date.c_str(), "%Y-%m-%dT%H:%M:%S", &parts) == nullptr) return std::nullopt;
  return std::max(0.0, now_s() - static_cast<double>(::timegm(&parts)));
}

void add_checkpoint(const std::string& folder, Status& status) {
  try {
    status.checkpoint = checkpoint::saved_last(folder);
    if (status.checkpoint.empty()) return;
    const checkpoint::Header header = checkpoint::read_header(status.checkpoint);
    status.checkpoint_step = header.position.step;
    status.checkpoint_age_s = age_of(header.date);
  } catch (const Error& error) {  // the run may have removed it while it was read
    status.checkpoint_error = error.what();
  }
}

/// The name of a checkpoint that is being written; empty: none is.
std::string unfinished_checkpoint(const std::string& folder) {
  std::error_code error;
  for (fs::directory_iterator entry(folder, error), end; !error && entry != end; entry.increment(error)) {
    const std::string name = entry->path().filename().string();
    if (name.starts_with("checkpoint-") && name.ends_with(".tmp") && name.find(".former") == std::string::npos) {
      return name.substr(0, name.size() - 4);
    }
  }
  return "";
}

/// What the lines of metrics.jsonl and starts.jsonl say. `began_s`: the last start, 0 where it is not known.
void add_lines(const std::vector<Json>& metrics, const std::vector<Json>& starts, Status& status, double& began_s) {
  constexpr std::ptrdiff_t max_lines = 20;  // that the rate is the mean of
  if (!starts.empty()) {
    const Json& start = starts.back();
    began_s = number(start, "time").value_or(0.0);
    status.run_id = start.value("run_id", "");
    status.step = start["step"].get<std::int64_t>();
    if (const auto steps = number(start, "num_steps")) status.num_steps = static_cast<std::int64_t>(*steps);
  }
  std::vector<const Json*> steps;
  for (const Json& line : metrics) {
    if (is_evaluation(line)) {
      status.eval_step = line["step"].get<std::int64_t>();
      status.eval_loss = number(line, "eval_loss");
    } else {
      steps.push_back(&line);
    }
  }
  const Json* note = steps.empty() ? nullptr : steps.back();  // what was noted last
  double note_time_s = note != nullptr ? number(*note, "time").value_or(0.0) : 0.0;
  if (note != nullptr) {
    status.step = (*note)["step"].get<std::int64_t>();
    status.epoch = number(*note, "epoch");
    status.loss = number(*note, "loss");
    status.tokens_per_second = number(*note, "tokens_per_second");
    status.step_time_s = number(*note, "step_time_s");
  }
  if (!starts.empty() && began_s > note_time_s) {
    note = &starts.back();
    note_time_s = began_s;
  }
  if (note == nullptr) return;
  if (note_time_s > 0) status.line_age_s = std::max(0.0, now_s() - note_time_s);
  status.goodput = number(*note, "goodput");
  if (const auto restarts = number(*note, "restarts")) status.restarts = static_cast<std::int64_t>(*restarts);
  if (const auto steps_again = number(*note, "repeated_steps")) {
    status.repeated_steps = static_cast<std::int64_t>(*steps_again);
  }
  std::erase_if(steps, [&](const Json* line) { return number(*line, "time").value_or(0.0) < began_s; });
  if (steps.size() < 2) return;
  const Json &first = **(steps.end() - std::min(std::ssize(steps), max_lines)), &last = *steps.back();
  const double num_steps = number(last, "step").value_or(0) - number(first, "step").value_or(0);
  const double time_s = number(last, "time").value_or(0) - number(first, "time").value_or(0);
  if (num_steps > 0 && time_s > 0) status.step_time_s = time_s / num_steps;
}

/// The state of a run whose process holds the lock.
void judge_alive(const std::string& folder, double began_s, Status& status) {
  constexpr double least_silence_s = 60.0, most_lines_missed = 10.0;
  const std::string saving = unfinished_checkpoint(folder);
  const double age_s = status.line_age_s.value_or(0.0);
  const bool has_begun = status.line_age_s && now_s() - began_s > age_s + 1e-3;
  if (is_stopped(status.process)) {
    status.state = "suspended";
    status.what = "alive, but its first process is stopped (SIGSTOP, or a debugger)";
  } else if (!saving.empty()) {
    status.state = "saving";
    status.what = fmt::format("alive: it saves {}", saving);
  } else if (has_begun && status.step_time_s &&
             age_s > std::max(least_silence_s, most_lines_missed * *status.step_time_s)) {
    status.state = "silent";
    status.what = fmt::format(
        "alive, but without a line for {}: an evaluation, a long pause of train.logging_steps, or a "
        "hang",
        format_duration(age_s));
  } else if (!has_begun) {
    status.state = "starting";
    status.what = "alive: it starts, no step of this process is logged";
  } else {
    status.state = "training";
    status.what = "alive: it trains";
  }
}

/// The state of a run that no process belongs to.
void judge_ended(Status& status) {
  const std::string& line = status.lock.lines.substr(0, status.lock.lines.find('\n'));
  const std::string how = line.substr(0, line.find(' '));
  if (how == "done" || how == "stopped" || how == "failed") {
    status.state = how == "done" ? "finished" : how;
    status.what = fmt::format("ended: {}", line);
  } else if (status.lock.exists || status.step) {
    status.state = "lost";
    status.what = "ended without a word: it was killed, its machine went away, or an error of one rank ended it";
  } else {
    status.state = "never_started";
    status.what = "no run has started here";
  }
}

Status read_status(const std::string& folder) {
  std::error_code ignored;
  if (!fs::is_directory(folder, ignored)) {
    throw_data_error(fmt::format("cannot tell of the run in {}", folder), "there is no such folder",
                     "give its train.output_dir");
  }
  Status status;
  status.lock = io::state_of_lock(folder + "/run.lock");
  status.process = parse_holder(status.lock.holder);
  double began_s = 0.0;
  add_lines(last_lines(folder + "/metrics.jsonl"), last_lines(folder + "/starts.jsonl"), status, began_s);
  add_checkpoint(folder, status);
  if (status.lock.is_held) {
    judge_alive(folder, began_s, status);
  } else {
    judge_ended(status);
  }
  const bool goes_on = status.state == "training" || status.state == "saving" || status.state == "starting";
  if (goes_on && status.step && status.num_steps && status.step_time_s) {
    status.time_left_s =
        static_cast<double>(std::max<std::int64_t>(0, *status.num_steps - *status.step)) * *status.step_time_s;
  }
  return status;
}

std::string describe_step(const Status& status) {
  std::string text = fmt::format("{}", *status.step);
  if (status.num_steps) {
    text += fmt::format(" of {}", *status.num_steps);
    if (*status.num_steps > 0) {
      text +=
          fmt::format(", {:.1f} %", 100.0 * static_cast<double>(*status.step) / static_cast<double>(*status.num_steps));
    }
  }
  if (status.epoch) text += fmt::format("; epoch {:.4g}", *status.epoch);
  return text;
}

void print_status_text(const std::string& folder, const Status& status) {
  Table table({Align::left, Align::left});
  table.add({"run", folder});
  table.add({"state", status.what});
  if (!status.lock.holder.empty()) table.add({status.lock.is_held ? "held by" : "last held by", status.lock.holder});
  if (status.step) table.add({"step", describe_step(status)});
  if (status.loss) table.add({"loss", fmt::format("{:.5g}", *status.loss)});
  if (status.eval_loss)
    table.add({"eval_loss", fmt::format("{:.5g} at step {}", *status.eval_loss, *status.eval_step)});
  if (status.step_time_s) {
    const std::string tokens =
        status.tokens_per_second ? fmt::format(", {} tokens/s in the last one", format_count(*status.tokens_per_second))
                                 : "";
    table.add({"rate", fmt::format("{} a step{}", format_seconds(*status.step_time_s), tokens)});
  }
  if (status.time_left_s) table.add({"time left", format_duration(*status.time_left_s)});
  if (status.line_age_s) table.add({"last line", fmt::format("{} ago", format_duration(*status.line_age_s))});
  if (status.checkpoint_step) {
    const std::string age =
        status.checkpoint_age_s ? fmt::format(", {} ago", format_duration(*status.checkpoint_age_s)) : "";
    table.add({"last save", fmt::format("{}, step {}{}", status.checkpoint, *status.checkpoint_step, age)});
  } else {
    table.add({"last save", status.checkpoint_error.empty() ? "none" : status.checkpoint_error});
  }
  if (status.restarts) {
    table.add({"restarts",
               fmt::format("{}, {} repeated", *status.restarts, plural(status.repeated_steps.value_or(0), "step"))});
  }
  if (status.goodput && *status.goodput > 0) table.add({"goodput", fmt::format("{:.1f} %", 100.0 * *status.goodput)});
  log_info(table.text());
}

void print_status_json(const std::string& folder, const Status& status) {
  nlohmann::ordered_json json = {
      {"output_dir", folder}, {"state", status.state}, {"alive", status.lock.is_held}, {"what", status.what}};
  const auto add = [&](const char* name, const auto& value) {
    if (value) json[name] = *value;
  };
  if (!status.process.host.empty()) {
    json["host"] = status.process.host;
    json["process_id"] = status.process.id;
    json["since"] = status.process.since;
  }
  if (!status.run_id.empty()) json["run_id"] = status.run_id;
  add("step", status.step);
  add("num_steps", status.num_steps);
  add("epoch", status.epoch);
  add("loss", status.loss);
  add("eval_step", status.eval_step);
  add("eval_loss", status.eval_loss);
  add("step_time_s", status.step_time_s);
  add("tokens_per_second", status.tokens_per_second);
  add("time_left_s", status.time_left_s);
  add("line_age_s", status.line_age_s);
  if (status.checkpoint_step) json["checkpoint"] = status.checkpoint;
  add("checkpoint_step", status.checkpoint_step);
  add("checkpoint_age_s", status.checkpoint_age_s);
  if (!status.checkpoint_error.empty()) json["checkpoint_error"] = status.checkpoint_error;
  add("restarts", status.restarts);
  add("repeated_steps", status.repeated_steps);
  add("goodput", status.goodput);
  log_info(json_text(json));
}

}  // namespace

void print_status(const std::string& output_dir, bool json) {
  (json ? print_status_json : print_status_text)(output_dir, read_status(output_dir));
}

}  // namespace sft::apps
