// SPDX-License-Identifier: Apache-2.0
#include "trainer/program.hpp"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <csignal>
#include <fstream>
#include <nlohmann/json.hpp>
#include <utility>

#include "sft/checkpoint/checkpoint.hpp"
#include "support/checkpoint_fixture.hpp"

namespace sft::test {
namespace {

/// Words after `--` on the test's command line: the MPI launcher and the program.
const char* word(int index) { return boost::unit_test::framework::master_test_suite().argv[1 + index]; }

/// The whole lines of metrics.jsonl.
std::vector<nlohmann::json> read_lines(const std::string& output_dir) {
  std::vector<nlohmann::json> lines;
  std::ifstream file(output_dir + "/metrics.jsonl");
  for (std::string line; std::getline(file, line);) {
    nlohmann::json values = nlohmann::json::parse(line, nullptr, false);
    if (values.is_discarded()) break;  // the last line, still being written
    lines.push_back(std::move(values));
  }
  return lines;
}

}  // namespace

TrainerProgram::TrainerProgram(int num_ranks, const std::vector<std::string>& arguments, const std::string& log_file) {
  std::vector<std::string> words{word(0), "-np", std::to_string(num_ranks), word(1)};
  words.insert(words.end(), arguments.begin(), arguments.end());
  std::vector<char*> argv;
  for (std::string& text : words) argv.push_back(text.data());
  argv.push_back(nullptr);
  process_ = fork();
  BOOST_TEST_REQUIRE(process_ >= 0);
  if (process_ > 0) return;
  const int log = open(log_file.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0644);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execvp(argv[0], argv.data());
  _exit(127);
}

TrainerProgram::~TrainerProgram() {
  if (process_ <= 0) return;
  kill(process_, SIGTERM);
  wait();
}

void TrainerProgram::send(int signal) const { BOOST_TEST_REQUIRE(kill(process_, signal) == 0); }

bool TrainerProgram::is_running() const {
  siginfo_t info{};
  return waitid(P_PID, static_cast<id_t>(process_), &info, WEXITED | WNOHANG | WNOWAIT) == 0 && info.si_pid == 0;
}

int TrainerProgram::wait() {
  int status = 0;
  waitpid(process_, &status, 0);
  process_ = -1;
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

std::map<std::int64_t, LoggedStep> read_metrics(const std::string& output_dir) {
  std::map<std::int64_t, LoggedStep> steps;
  for (const nlohmann::json& values : read_lines(output_dir)) {
    if (!values.contains("loss")) continue;
    const auto number = [&](const char* name) { return values[name].is_null() ? -1.0 : values[name].get<double>(); };
    steps[values["step"]] = {number("loss"),
                             number("grad_norm"),
                             values["learning_rate"],
                             number("mean_token_accuracy"),
                             number("entropy"),
                             values["epoch"],
                             number("step_loss"),
                             values["num_tokens"],
                             values["num_target_tokens"],
                             values["step_num_tokens"]};
  }
  return steps;
}

std::map<std::int64_t, LoggedEvaluation> read_evaluations(const std::string& output_dir) {
  std::map<std::int64_t, LoggedEvaluation> evaluations;
  for (const nlohmann::json& values : read_lines(output_dir)) {
    if (!values.contains("eval_loss")) continue;
    const LoggedEvaluation evaluation{values["eval_loss"], values["eval_mean_token_accuracy"], values["eval_entropy"],
                                      values["epoch"], values["eval_num_target_tokens"]};
    const bool is_new = evaluations.emplace(values["step"], evaluation).second;
    BOOST_TEST(is_new, "step " << values["step"] << " is evaluated twice");
  }
  return evaluations;
}

PeakBytes read_peak_bytes(const std::string& output_dir) {
  PeakBytes peak;
  for (const nlohmann::json& values : read_lines(output_dir)) {
    if (values.contains("loss")) peak = {values["peak_memory_bytes_min"], values["peak_memory_bytes_max"]};
  }
  return peak;
}

std::map<std::string, std::vector<float>> read_checkpoint(const std::string& folder) {
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
  std::map<std::string, std::vector<float>> tensors;
  for (const io::TensorInfo& tensor : source->tensors()) tensors[tensor.name] = read_whole(*source, tensor);
  return tensors;
}

}  // namespace sft::test
