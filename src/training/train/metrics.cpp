// SPDX-License-Identifier: Apache-2.0
#include "sft/train/metrics.hpp"

#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::train {

namespace fs = std::filesystem;

namespace {

double rate(std::int64_t count, double time_s) { return time_s > 0 ? static_cast<double>(count) / time_s : 0.0; }

/// What a line is of.
struct LineOrigin {
  std::int64_t step = 0;
  bool is_evaluation = false;
};

/// Empty for a line that is no such object.
std::optional<LineOrigin> origin_of(const std::string& line) {
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("step") || !json["step"].is_number_integer()) return std::nullopt;
  return LineOrigin{json["step"].get<std::int64_t>(), json.contains("eval_loss")};
}

/// The keys of a note, beside the step.
void write_note(nlohmann::ordered_json& json, const TimeNote& note) {
  const TimeUse& use = note.use;
  json["time"] = note.time_s;
  json["goodput"] = use.goodput();
  json["run_time_s"] = use.total_s;
  json["useful_time_s"] = use.useful_s;
  json["save_time_s"] = use.save_s;
  json["eval_time_s"] = use.evaluation_s;
  json["restart_time_s"] = use.restart_s;
  json["repeated_time_s"] = use.repeated_s;
  json["repeated_steps"] = use.num_repeated_steps;
  json["restarts"] = use.num_restarts;
}

}  // namespace

double StepMetrics::tokens_per_second() const { return rate(step_num_tokens, step_time_s); }
double StepMetrics::target_tokens_per_second() const { return rate(step_num_target_tokens, step_time_s); }

std::string to_json(const StepMetrics& metrics) {
  nlohmann::ordered_json json;
  json["step"] = metrics.step;
  json["epoch"] = metrics.epoch;
  json["loss"] = metrics.loss;
  json["grad_norm"] = metrics.grad_norm;
  json["learning_rate"] = metrics.learning_rate;
  json["num_tokens"] = metrics.num_tokens;
  json["num_target_tokens"] = metrics.num_target_tokens;
  json["mean_token_accuracy"] = metrics.mean_token_accuracy;
  json["entropy"] = metrics.entropy;
  if (metrics.aux_loss) json["aux_loss"] = *metrics.aux_loss;
  if (metrics.expert_imbalance) json["expert_imbalance"] = *metrics.expert_imbalance;
  json["step_loss"] = metrics.step_loss;
  json["step_num_tokens"] = metrics.step_num_tokens;
  json["step_num_target_tokens"] = metrics.step_num_target_tokens;
  json["tokens_per_second"] = metrics.tokens_per_second();
  json["target_tokens_per_second"] = metrics.target_tokens_per_second();
  json["step_time_s"] = metrics.step_time_s;
  if (metrics.save_stall_s > 0) json["save_stall_s"] = metrics.save_stall_s;
  if (metrics.mfu) json["mfu"] = *metrics.mfu;
  if (metrics.slowest) {
    json["slowest_rank"] = metrics.slowest->rank;
    json["slowest_ratio"] = metrics.slowest->ratio;
    if (metrics.slowest->exposed_share) json["exposed_communication"] = *metrics.slowest->exposed_share;
  }
  json["peak_memory_bytes_min"] = metrics.peak_memory.min_bytes;
  json["peak_memory_bytes_mean"] = metrics.peak_memory.mean_bytes;
  json["peak_memory_bytes_max"] = metrics.peak_memory.max_bytes;
  json["peak_memory_rank"] = metrics.peak_memory.max_rank;
  if (const auto& fullest = metrics.peak_memory.fullest) {
    json["fullest_rank"] = fullest->rank;
    json["fullest_memory_bytes"] = fullest->used_bytes;
    json["fullest_memory_limit_bytes"] = fullest->limit_bytes;
  }
  if (metrics.planned_memory_bytes > 0) json["planned_memory_bytes_max"] = metrics.planned_memory_bytes;
  if (metrics.planned_step_time_s) json["planned_step_time_s"] = *metrics.planned_step_time_s;
  if (!metrics.fp8.empty()) json["fp8"] = metrics.fp8;
  if (metrics.num_skipped_steps > 0) json["skipped_steps"] = metrics.num_skipped_steps;
  if (metrics.time) write_note(json, *metrics.time);
  if (metrics.resumed_step) json["resumed_step"] = *metrics.resumed_step;
  return json.dump();
}

std::string to_json(const EvalMetrics& metrics) {
  nlohmann::ordered_json json;
  json["step"] = metrics.step;
  json["epoch"] = metrics.epoch;
  json["eval_loss"] = metrics.loss;
  json["eval_mean_token_accuracy"] = metrics.mean_token_accuracy;
  json["eval_entropy"] = metrics.entropy;
  json["eval_num_target_tokens"] = metrics.num_target_tokens;
  json["eval_runtime"] = metrics.time_s;
  return json.dump();
}

namespace {

nlohmann::ordered_json json_of(const TimeNote& note, const std::string& run_id) {
  nlohmann::ordered_json json;
  json["run_id"] = run_id;
  json["step"] = note.step;
  write_note(json, note);
  return json;
}

}  // namespace

std::string to_json(const TimeNote& note, const std::string& run_id) { return json_of(note, run_id).dump(); }

std::optional<TimeNote> parse_time_note(const std::string& text) {
  const auto json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("time")) return std::nullopt;
  try {
    return TimeNote{json.at("time").get<double>(),
                    json.at("step").get<std::int64_t>(),
                    {.total_s = json.at("run_time_s").get<double>(),
                     .useful_s = json.at("useful_time_s").get<double>(),
                     .save_s = json.at("save_time_s").get<double>(),
                     .evaluation_s = json.at("eval_time_s").get<double>(),
                     .restart_s = json.at("restart_time_s").get<double>(),
                     .repeated_s = json.at("repeated_time_s").get<double>(),
                     .num_repeated_steps = json.at("repeated_steps").get<std::int64_t>(),
                     .num_restarts = json.at("restarts").get<std::int64_t>()}};
  } catch (const nlohmann::json::exception&) {
    return std::nullopt;
  }
}

std::optional<TimeNote> last_start_of(const std::string& run_id, const std::string& starts) {
  std::optional<TimeNote> last;
  std::istringstream lines(starts);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || json.value("run_id", nlohmann::json()) != run_id) continue;
    if (const auto note = parse_time_note(line)) last = note;
  }
  return last;
}

std::optional<TimeNote> last_line_of(const std::string& metrics) {
  std::optional<TimeNote> last;
  std::istringstream lines(metrics);
  for (std::string line; std::getline(lines, line);) {
    if (const auto note = parse_time_note(line)) last = note;
  }
  return last;
}

void append_start(const std::string& path, const TimeNote& note, const std::string& run_id, std::int64_t num_steps) {
  std::ofstream stream(path, std::ios::app);
  nlohmann::ordered_json json = json_of(note, run_id);
  json["num_steps"] = num_steps;
  stream << json.dump() << '\n' << std::flush;
  if (stream) return;
  throw_data_error(fmt::format("cannot write {}", path), "the disk may be full, or the folder closed",
                   "free space, and check the folder's permissions");
}

std::string keep_steps(const std::string& text, std::int64_t last_step, std::int64_t last_evaluation) {
  std::istringstream lines(text);
  std::string kept;
  for (std::string line; std::getline(lines, line);) {
    const auto origin = origin_of(line);
    if (origin && origin->step <= (origin->is_evaluation ? last_evaluation : last_step)) kept += line + "\n";
  }
  return kept;
}

namespace {

/// Where earlier lines go: PATH.old, PATH.old.1, ...; none is overwritten.
std::string free_name(const std::string& path) {
  std::string name = path + ".old";
  for (int i = 1; fs::exists(name); ++i) name = path + ".old." + std::to_string(i);
  return name;
}

}  // namespace

MetricsFile::MetricsFile(const std::string& path, std::int64_t resumed_step, std::int64_t evaluated_step,
                         EarlierLines earlier)
    : path_(path) {
  const std::string text = fs::exists(path) ? io::read_file(path) : "";
  const std::string kept = earlier == EarlierLines::set_aside ? "" : keep_steps(text, resumed_step, evaluated_step);
  if (earlier != EarlierLines::keep && text != kept) {
    const std::string old = free_name(path);
    io::write_file_atomically(old, text);
    log_warning("the metrics of an earlier run are now in " + old);
  }
  io::write_file_atomically(path, kept);
  open();
}

void MetricsFile::open() {
  std::error_code ignored;  // where there is no folder, the file says so
  fs::create_directories(fs::path(path_).parent_path(), ignored);
  stream_ = std::ofstream(path_, std::ios::app);
  if (!stream_) throw_data_error("cannot open " + path_, "it cannot be written", "check the folder's permissions");
  identity_ = io::identity_of(path_);
}

bool MetricsFile::is_in_place() const { return io::identity_of(path_) == identity_; }

void MetricsFile::append(const std::string& line) {
  if (!is_in_place()) {
    log_warning(path_ +
                " was removed or replaced while the run was writing to it: the lines up to here are lost, those " +
                "from here on go to the file of that name");
    open();
  }
  stream_ << line << '\n' << std::flush;
  if (!stream_)
    throw_data_error("cannot write " + path_, "the disk may be full",
                     "free space and run again with checkpoint.resume_from_checkpoint = auto");
}

}  // namespace sft::train
