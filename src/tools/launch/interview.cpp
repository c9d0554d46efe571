// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/interview.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "sft/config/values.hpp"
#include "sft/core/shell_word.hpp"

namespace sft::launch {

namespace {

/// Why the answer cannot be taken; empty: it can.
std::string fault_of(const Question& question, const std::string& given) {
  if (!question.choices.empty() && std::ranges::find(question.choices, given) == question.choices.end()) {
    return fmt::format("it is one of {}", fmt::join(question.choices, ", "));
  }
  if (!question.is_count) return "";
  int number = 0;
  const auto [end, error] = std::from_chars(given.data(), given.data() + given.size(), number);
  const bool is_number = error == std::errc() && end == given.data() + given.size();
  return is_number && number >= 1 ? "" : "it is a whole number from 1";
}

/// Puts questions until each has an answer.
class Interview {
 public:
  explicit Interview(Answerer& answerer) : answerer_(answerer) {}

  std::string text(const Question& question) {
    for (;;) {
      std::string given = answerer_.answer(question);
      if (given.empty()) given = question.fallback;
      const std::string fault =
          given.empty() && question.fallback.empty() ? "it has no default" : fault_of(question, given);
      if (fault.empty()) return given;
      answerer_.refuse(question, given, fault);
    }
  }
  std::string choice(const char* name, const char* about, const std::string& fallback,
                     const std::vector<std::string>& choices) {
    return text({name, about, fallback, choices});
  }
  int count(const char* name, const char* about, int fallback) {
    return std::stoi(text({name, about, fmt::format("{}", fallback), {}, /*is_count=*/true}));
  }
  bool truth(const char* name, const char* about, bool fallback) {
    return choice(name, about, fallback ? "yes" : "no", {"yes", "no"}) == "yes";
  }

 private:
  Answerer& answerer_;
};

/// Weights, gradients and the two moments of AdamW in float32, of one rank.
double gigabytes_of_state(std::int64_t num_parameters) { return static_cast<double>(num_parameters) * 16e-9; }

/// The lowest stage whose state takes at most half of a rank's memory.
std::string propose_stage(double state_gb, double memory_gb, int num_ranks) {
  if (num_ranks == 1) return "0";
  const double half = memory_gb / 2.0, share = 1.0 / num_ranks;
  if (state_gb == 0.0 || memory_gb == 0.0) return "3";  // not known
  if (state_gb <= half) return "0";
  if (state_gb * (0.5 + 0.5 * share) <= half) return "1";
  if (state_gb * (0.25 + 0.75 * share) <= half) return "2";
  return "3";
}

/// Sizes by rules of thumb.
Sizes sizes_by_rule(const SiteAnswers& site, std::int64_t num_parameters) {
  constexpr std::int64_t long_row = 4096;
  constexpr double most_of_memory = 0.8;
  const int num_ranks = site.num_machines * site.ranks_per_machine;
  const double state_gb = gigabytes_of_state(num_parameters);
  const double memory_gb = site.uses_gpus ? site.memory_gb : site.memory_gb / site.ranks_per_machine;
  const bool is_long = site.max_length >= long_row;
  Sizes sizes;
  sizes.zero_stage = propose_stage(state_gb, memory_gb, num_ranks);
  if (memory_gb > 0 && state_gb / num_ranks > memory_gb * most_of_memory) sizes.offload = "host";
  if (is_long) sizes.activation_checkpointing = "full";
  const std::int64_t of_rank = std::max<std::int64_t>(1, site.rows_per_step / num_ranks);
  sizes.rows_per_rank = is_long ? 1 : static_cast<int>(std::min<std::int64_t>(of_rank, 8));
  sizes.gradient_accumulation_steps = static_cast<int>(std::max<std::int64_t>(1, of_rank / sizes.rows_per_rank));
  return sizes;
}

/// Proposes the next size, by a new plan where an answer was another than the one before proposed.
class SizeQuestions {
 public:
  SizeQuestions(Interview& interview, SiteAnswers& site, const Proposer& proposer, const Sizes& by_rule)
      : interview_(interview), site_(site), proposer_(proposer), by_rule_(by_rule) {
    plan();
  }

  void count(const char* name, const char* about, int Sizes::*proposed, int SiteAnswers::*answer) {
    const int fallback = sizes_.*proposed;
    site_.*answer = interview_.count(name, about, fallback);
    settle(name, site_.*answer == fallback);
  }
  void choice(const char* name, const char* about, std::string Sizes::*proposed, std::string SiteAnswers::*answer,
              const std::vector<std::string>& choices) {
    const std::string fallback = sizes_.*proposed;
    site_.*answer = interview_.choice(name, about, fallback, choices);
    settle(name, site_.*answer == fallback);
  }
  [[nodiscard]] bool is_planned() const { return is_planned_; }

 private:
  void plan() {
    const std::optional<Sizes> planned = proposer_.plan ? proposer_.plan(site_, fixed_) : std::nullopt;
    is_planned_ = planned.has_value();
    sizes_ = planned.value_or(by_rule_);
  }
  void settle(const char* name, bool is_as_proposed) {
    fixed_.insert(name);
    if (!is_as_proposed && is_planned_) plan();
  }

  Interview& interview_;
  SiteAnswers& site_;
  const Proposer& proposer_;
  Sizes by_rule_, sizes_;
  std::set<std::string> fixed_;
  bool is_planned_ = false;
};

void ask_sizes(Interview& interview, SiteAnswers& site, const Proposer& proposer) {
  SizeQuestions sizes(interview, site, proposer, sizes_by_rule(site, proposer.num_parameters(site.model)));
  sizes.count("tp_size", "Ranks that share each layer (tensor parallelism)", &Sizes::tp_size, &SiteAnswers::tp_size);
  sizes.count("sp_size", "Ranks that share a row", &Sizes::sp_size, &SiteAnswers::sp_size);
  sizes.count("dp_replicate_size", "Groups of ranks with a copy of the model each", &Sizes::dp_replicate_size,
              &SiteAnswers::dp_replicate_size);
  sizes.choice("zero_stage", "What ranks share: 0 nothing, 1 optimizer, 2 and gradients, 3 and weights",
               &Sizes::zero_stage, &SiteAnswers::zero_stage, {"0", "1", "2", "3"});
  sizes.choice("activation_checkpointing", "What is computed again to save memory", &Sizes::activation_checkpointing,
               &SiteAnswers::activation_checkpointing, {"none", "selective", "full"});
  sizes.choice("offload", "Where the optimizer's state waits", &Sizes::offload, &SiteAnswers::offload,
               {"none", "host", "nvme"});
  if (site.offload == "nvme") site.offload_folder = interview.text({"offload_folder", "A folder on a local disk", ""});
  sizes.count("per_device_train_batch_size", "Rows of a rank at once", &Sizes::rows_per_rank,
              &SiteAnswers::rows_per_rank);
  sizes.count("gradient_accumulation_steps", "How often before a step", &Sizes::gradient_accumulation_steps,
              &SiteAnswers::gradient_accumulation_steps);
  site.has_planned_sizes = sizes.is_planned();
}

void ask_machines(Interview& interview, SiteAnswers& site, const Facts& facts) {
  site.num_machines = interview.count("num_machines", "How many machines", 1);
  site.uses_gpus = interview.truth("use_gpus", "Train on GPUs", facts.num_gpus > 0);
  site.ranks_per_machine = interview.count(
      "ranks_per_machine", site.uses_gpus ? "GPUs of a machine" : "Ranks of a machine", std::max(facts.num_gpus, 1));
  if (site.uses_gpus) {
    if (!facts.gpu_kinds.empty()) {
      site.gpu_kind = interview.choice("gpu_kind", "Kind of GPU, for plans of time", facts.gpu_kind, facts.gpu_kinds);
    }
    site.memory_gb = interview.count("gpu_memory_gb", "Memory of a GPU in GB", static_cast<int>(facts.gpu_memory_gb));
  } else if (facts.node_memory_gb >= 1) {
    site.memory_gb =
        interview.count("node_memory_gb", "Memory of a machine in GB", static_cast<int>(facts.node_memory_gb));
  }
}

}  // namespace

SiteAnswers ask(Answerer& answerer, const Facts& facts, const Proposer& proposer) {
  Interview interview(answerer);
  SiteAnswers site;
  site.model = interview.text({"model", "Model (a folder, or org/name in the hub cache)", facts.model});
  site.train_files = interview.text({"train_files", "Prepared rows (files of sft-prepare)", "data/train-*.h5"});
  site.output_dir = interview.text({"output_dir", "Folder for results", "output"});
  ask_machines(interview, site, facts);
  site.precision = interview.choice("mixed_precision", "Precision of computing", "bf16", {"bf16", "fp32", "pure_bf16"});
  constexpr int long_row = 4096, rows_of_trl = 8;
  site.max_length = interview.count("max_length", "Tokens of the longest row", 1024);
  site.rows_per_step =
      interview.count("rows_per_step", "Rows of a step, of all ranks together",
                      site.num_machines * site.ranks_per_machine * (site.max_length >= long_row ? 1 : rows_of_trl));
  ask_sizes(interview, site, proposer);
  site.num_train_epochs = interview.text({"num_train_epochs", "Epochs", "3"});
  site.learning_rate = interview.text({"learning_rate", "Learning rate", "2e-5"});
  site.uses_slurm = interview.truth("use_slurm", "Start it as a SLURM job", facts.has_slurm);
  if (site.uses_slurm) {
    site.partition = interview.text({"partition", "SLURM partition (default: that of the site)", "default"});
    site.account = interview.text({"account", "SLURM account (none: yours)", "none"});
    site.time = interview.text({"time", "Time limit", "12:00:00"});
    site.cpus_per_rank = interview.count("cpus_per_rank", "CPU cores of a rank", 4);
  }
  return site;
}

namespace {

/// A path of an answer as a value of the .ini file. Variables, ~ and quotes that were typed stay what they are there.
std::string value_of_path(const std::string& text) {
  const bool has_own_syntax = text.find('$') != std::string::npos || text.find_first_of("~'\"") == 0;
  return has_own_syntax ? text : config::write(text);
}

/// The value for a list of files. The name of a file that exists may hold blanks.
std::string value_of_files(const std::string& text) {
  std::error_code ignored;
  return std::filesystem::exists(text, ignored) ? config::write(std::vector<std::string>{text}) : text;
}

}  // namespace

std::string ini_text(const SiteAnswers& site) {
  const int num_ranks = site.num_machines * site.ranks_per_machine;
  const int of_a_row = site.sp_size * site.tp_size;
  const int num_rows = site.rows_per_rank * site.gradient_accumulation_steps * num_ranks / of_a_row;
  std::string text = fmt::format(
      "# Written by sft-config for {} machine(s) of {} ranks. Every key: docs/configuration.md, or sft --help.\n"
      "# Sizes were proposed by {}.\n"
      "# `sft THIS --dry-run --num_ranks {}` shows the memory of each rank; before there are rows, with\n"
      "# `--train_files= --max_length {}` behind it.\n\n",
      site.num_machines, site.ranks_per_machine,
      site.has_planned_sizes ? "the planner, as sft-plan does" : "rules of thumb: no plan could be made", num_ranks,
      site.max_length);
  text += fmt::format("[model]\nmodel_name_or_path = {}\n\n[data]\ntrain_files = {}     # of sft-prepare\n\n",
                      value_of_path(site.model), value_of_files(site.train_files));
  text += fmt::format("[parallel]              # {} ranks; what is left of them is dp_shard_size\n", num_ranks);
  text +=
      fmt::format("dp_replicate_size = {}   # groups of ranks with a copy of the model each\n", site.dp_replicate_size);
  text += fmt::format("sp_size = {}             # ranks that share a row\n", site.sp_size);
  text += fmt::format("tp_size = {}             # ranks that share each layer\n", site.tp_size);
  text += fmt::format("zero_stage = {}          # 0: whole copies; 3: weights, gradients and optimizer are cut\n\n",
                      site.zero_stage);
  text += fmt::format("[train]                 # a step has {} rows\n", num_rows);
  text += fmt::format("per_device_train_batch_size = {}\ngradient_accumulation_steps = {}\nnum_train_epochs = {}\n",
                      site.rows_per_rank, site.gradient_accumulation_steps, site.num_train_epochs);
  text += fmt::format("precision = {}\nactivation_checkpointing = {}\noffload_optimizer = {}\n", site.precision,
                      site.activation_checkpointing, site.offload);
  if (!site.offload_folder.empty()) text += fmt::format("offload_folder = {}\n", value_of_path(site.offload_folder));
  text += fmt::format("output_dir = {}\n\n[optimizer]\nlearning_rate = {}\n\n[checkpoint]\n",
                      value_of_path(site.output_dir), site.learning_rate);
  text += "save_hub_model = true   # leaves OUTPUT_DIR/model at the end\n\n";
  return text + fmt::format("[device]\nbackend = {}\n", site.uses_gpus ? "cuda" : "cpu");
}

std::string job_script(const SiteAnswers& site, const Facts& facts, const std::string& sft_run,
                       const std::string& ini_path) {
  const int num_ranks = site.num_machines * site.ranks_per_machine;
  std::string text = "#!/usr/bin/env bash\n# Written by sft-config.\n";
  if (!site.uses_slurm) {
    const std::string start = site.num_machines == 1
                                  ? fmt::format("-n {}", num_ranks)
                                  : fmt::format("--launcher \"mpirun --hostfile hosts -np {}\"", num_ranks);
    if (site.num_machines > 1)
      text += fmt::format("# `hosts`: a line `HOST slots={}` for each machine.\n", site.ranks_per_machine);
    return text +
           fmt::format("set -euo pipefail\nexec {} {} {} \"$@\"\n", shell_word(sft_run), start, shell_word(ini_path));
  }
  text +=
      "# Before the time limit the run saves, and the job goes back into the queue and resumes.\n#SBATCH "
      "--job-name=sft\n";
  text += fmt::format("#SBATCH --nodes={}\n#SBATCH --ntasks-per-node={}\n#SBATCH --cpus-per-task={}\n",
                      site.num_machines, site.ranks_per_machine, site.cpus_per_rank);
  if (site.uses_gpus) text += fmt::format("#SBATCH --gpus-per-node={}\n", site.ranks_per_machine);
  if (site.partition != "default") text += fmt::format("#SBATCH --partition={}\n", site.partition);
  if (site.account != "none") text += fmt::format("#SBATCH --account={}\n", site.account);
  text += fmt::format("#SBATCH --time={}\n#SBATCH --signal=B:USR1@120\n#SBATCH --requeue\n#SBATCH --open-mode=append\n",
                      site.time);
  text += "#SBATCH --output=slurm-%x-%j.out\nset -euo pipefail\ncd \"$SLURM_SUBMIT_DIR\"\n";
  text += "export OMP_NUM_THREADS=\"$SLURM_CPUS_PER_TASK\"\n";
  const std::string pmi = facts.pmi.empty() ? "" : fmt::format("--mpi={} ", facts.pmi);
  text += fmt::format(
      "exec {} --requeue --restarts 10 \\\n  --launcher \"srun {}--kill-on-bad-exit=1 "
      "--cpus-per-task=$SLURM_CPUS_PER_TASK --distribution=block:block\" \\\n",
      shell_word(sft_run), pmi);
  return text + fmt::format("  {} --checkpoint.resume_from_checkpoint auto \"$@\"\n", shell_word(ini_path));
}

}  // namespace sft::launch
