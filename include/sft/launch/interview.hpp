// SPDX-License-Identifier: Apache-2.0
#pragma once
// The questions of `accelerate config`, and what follows from the answers.

#include <cstdint>
#include <functional>
#include <iosfwd>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

namespace sft::launch {

struct Question {
  std::string name;                       ///< of the answer in a file: "ranks_per_machine"
  std::string text;                       ///< for people
  std::string fallback;                   ///< what an empty answer means
  std::vector<std::string> choices = {};  ///< empty: any text
  bool is_count = false;                  ///< a whole number from 1
};

/// Where answers come from.
class Answerer {
 public:
  virtual ~Answerer() = default;
  /// The answer as it was given; empty: the fallback.
  virtual std::string answer(const Question& question) = 0;
  /// What was wrong with the last one. Throws a configuration Error unless the question can be put again.
  virtual void refuse(const Question& question, const std::string& given, const std::string& why) = 0;
};

/// Asks on `out` and reads lines of `in`. `is_terminal`: a person answers, who is asked again; otherwise each line is
/// an answer, and after the last one all are empty.
class LineAnswerer : public Answerer {
 public:
  LineAnswerer(std::istream& in, std::ostream& out, bool is_terminal) : in_(in), out_(out), is_terminal_(is_terminal) {}
  std::string answer(const Question& question) override;
  void refuse(const Question& question, const std::string& given, const std::string& why) override;

 private:
  std::istream& in_;
  std::ostream& out_;
  bool is_terminal_;
};

/// Lines `name = value` of a file. finish() refuses names that were not asked for.
class FileAnswerer : public Answerer {
 public:
  /// `source` names the text in messages. Throws a configuration Error for other lines.
  FileAnswerer(const std::string& text, std::string source);
  std::string answer(const Question& question) override;
  void refuse(const Question& question, const std::string& given, const std::string& why) override;
  void finish() const;

 private:
  std::string source_;
  std::map<std::string, std::string> given_;
  std::vector<std::string> asked_;
};

/// What is known before anything is asked.
struct Facts {
  std::string model = {};  ///< proposed; empty: none
  int num_gpus = 0;
  double gpu_memory_gb = 80.0;
  double node_memory_gb = 0.0;              ///< of this machine; 0: not known
  std::string gpu_kind = "h100";            ///< of `gpu_kinds`: that of this machine's GPUs, where there are any
  std::vector<std::string> gpu_kinds = {};  ///< whose rates plans know
  bool has_slurm = false;
  std::string pmi = {};  ///< for `srun --mpi`; empty: srun's default
};

/// The answers.
struct SiteAnswers {
  std::string model, train_files, output_dir;
  int num_machines = 1, ranks_per_machine = 1;
  bool uses_gpus = false;
  bool has_planned_sizes = false;  ///< whether a plan proposed them
  std::string gpu_kind;            ///< empty: none, or not asked for
  double memory_gb = 0.0;          ///< of a GPU, on CPUs of a machine; 0: not known
  std::int64_t max_length = 1024, rows_per_step = 1;
  std::string precision = "bf16", zero_stage = "3", offload = "none", offload_folder, activation_checkpointing = "none";
  int dp_replicate_size = 1, sp_size = 1, tp_size = 1, rows_per_rank = 1, gradient_accumulation_steps = 1;
  std::string num_train_epochs = "3", learning_rate = "2e-5";
  bool uses_slurm = false;
  std::string partition, account, time;
  int cpus_per_rank = 1;
};

/// Sizes of a run, as they are proposed.
struct Sizes {
  int dp_replicate_size = 1, sp_size = 1, tp_size = 1;
  std::string zero_stage = "3", offload = "none", activation_checkpointing = "none";
  int rows_per_rank = 1, gradient_accumulation_steps = 1;
};

/// Who proposes sizes.
struct Proposer {
  /// Of the model; 0: not known.
  std::function<std::int64_t(const std::string& model)> num_parameters;
  /// The sizes of the fastest plan for what has been answered so far, of which the sizes named in `fixed`
  /// ("tp_size") stay as they are. None: a plan cannot be made, of a model that is not there, say, or fits nowhere.
  /// Empty: nobody plans.
  std::function<std::optional<Sizes>(const SiteAnswers& answers, const std::set<std::string>& fixed)> plan = {};
};

/// Asks; sizes are proposed by the plan and, where there is none, by the rule that weights, gradients and AdamW's state
/// take 16 bytes each. An answer that is not what was proposed is a constraint of the next plan.
[[nodiscard]] SiteAnswers ask(Answerer& answerer, const Facts& facts, const Proposer& proposer);

/// The commented .ini file of the answers.
[[nodiscard]] std::string ini_text(const SiteAnswers& answers);

/// The job script that starts it: for SLURM, or for this machine. `sft_run`: the program; `ini_path`: the file above.
[[nodiscard]] std::string job_script(const SiteAnswers& answers, const Facts& facts, const std::string& sft_run,
                                     const std::string& ini_path);

}  // namespace sft::launch
