// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "apps/common/prepare_options.hpp"
#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/config/options.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_launch() {
  cli::Manual manual;
  manual.program = "sft-launch";
  manual.summary = "Prepares data, trains, evaluates and exports in one command, with the options of trl sft";
  manual.usage = {"sft-launch sft --model_name_or_path MODEL --dataset_name DATA [--accelerate_config NAME] [options]",
                  "sft-launch sft --config FILE.yaml [options]"};
  manual.paragraphs = {
      "All other options are those of trl sft, accelerate launch, sft-prepare (see sft-prepare --help) and sft (see "
      "sft "
      "--help); later ones win over --config, and that over --accelerate_config. MODEL is a folder or a name in the "
      "hub "
      "cache, DATA a file, a folder or a name there. What is not there is downloaded by postprocess/fetch.py.",
      "A size that is auto is chosen by the planner, for --machine or this one, with as many rows a step: tp_size, "
      "sp_size, "
      "dp_replicate_size, zero_stage, activation_checkpointing, per_device_train_batch_size ...; --accelerate_config "
      "auto "
      "leaves all of them to it.",
      "Rows are prepared once for the same files, tokenizer and options, and kept in ~/.cache/sft/prepared. Defaults "
      "are "
      "TRL's where they change rows or numbers: no packing, adapters on q_proj and v_proj, an evaluation at the end.",
      "In a SLURM job ranks start with srun, on several machines without one with mpirun and --hostfile, else on this "
      "machine. Ctrl-C saves and stops, with status 75; the same command with --resume_from_checkpoint auto goes on."};
  manual.operand = "sft";
  return manual;
}

struct LaunchFlags {
  std::string accelerate_config, config, machine;
  bool prints = false;
};

po::options_description describe(LaunchFlags& flags) {
  po::options_description description;
  auto add = description.add_options();
  add("accelerate_config", po::value(&flags.accelerate_config)->value_name("NAME"),
      "auto, single_gpu, multi_gpu, zero1, zero2, zero3, fsdp1, fsdp2, context_parallel_2gpu, alst_ulysses_4gpu, or a "
      "YAML "
      "file "
      "of accelerate launch or a JSON file of DeepSpeed");
  add("config_file", po::value<std::string>()->value_name("FILE"), "the same, under the name of accelerate launch");
  add("config", cli::path("FILE", &flags.config), "a YAML file of trl sft, of Axolotl or of LLaMA-Factory");
  add("num_processes", po::value<std::string>()->value_name("N"),
      "ranks to start; without it the slots of the hostfile, the tasks of the SLURM job, or one for each GPU");
  add("machine", po::value(&flags.machine)->value_name("MACHINE"),
      "where sizes are auto: choose them for this machine, as h200x8 of share/sft/machines.ini or a file of one; "
      "without it, "
      "for the one that this is");
  add("hostfile", po::value<std::string>()->value_name("FILE"), "machines, a line `HOST slots=N` or `HOST:N` each");
  add("launcher", po::value<std::string>()->value_name("COMMAND"),
      "the command that starts the ranks at your site, with their number, as \"mpiexec -n 64 --ppn 4\"; give "
      "--num_processes too");
  add("dataset_name", po::value<std::string>()->value_name("DATA"), "a file, a folder, or org/name in the hub cache");
  add("data_files", po::value<std::string>()->value_name("FILES"), "files of records, of DATA or by themselves");
  add("eval_files", po::value<std::string>()->value_name("FILES"),
      "files of records to evaluate on; without them the split `test` of DATA, or --eval_split");
  add("prepared_dir", cli::path("FOLDER"), "where prepared rows are kept");
  add("print", cli::flag(&flags.prints), "print the .ini file and the commands, and do nothing");
  return description;
}

/// The names of options of sft-prepare that are true or false.
bool is_truth_of_prepare(const std::string& name) {
  const cli::Manual manual = prepare_manual();
  return std::ranges::any_of(manual.groups.front().options, [&](const cli::ManualOption& option) {
    return option.name == name && (option.argument == "BOOL" || option.argument.empty());
  });
}

bool is_truth(const std::string& name) {
  return config::is_truth(name) || is_truth_of_prepare(name) || name == "print";
}

/// Whether the word behind this one is its value: `--name`, with no `=` and no truth.
bool awaits_value(const std::string& word) {
  if (!word.starts_with("--") || word.find('=') != std::string::npos) return false;
  std::string name = word.substr(2);
  std::ranges::replace(name, '-', '_');
  return !is_truth(name);
}

/// Takes what names the program out of the words: `sft` in front, or anywhere a script of TRL that does the same.
/// Refuses other commands and scripts.
std::vector<std::string> without_command(const std::vector<std::string>& arguments) {
  const auto refuse = [](const std::string& what, const std::string& word) {
    throw_config_error(fmt::format("sft-launch has no {} `{}`", what, word), "the one there is, is sft",
                       "write `sft-launch sft ...`, with the options of trl/scripts/sft.py");
  };
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool is_value = i > 0 && awaits_value(arguments[i - 1]);
    if (i == 0 && !word.starts_with('-') && !word.ends_with(".py")) {
      if (word != "sft") refuse("command", word);
    } else if (!is_value && word == "-m" && i + 1 < arguments.size()) {
      if (arguments[++i] != "trl.scripts.sft") refuse("module", arguments[i]);
    } else if (!is_value && word.ends_with(".py")) {
      if (word != "sft.py" && !word.ends_with("/sft.py")) refuse("script", word);
    } else {
      words.push_back(word);
    }
  }
  return words;
}

/// `--data_files A B` -> `--data_files "A B"`: TRL's lists.
std::vector<std::string> join_lists(const std::vector<std::string>& arguments) {
  std::vector<std::string> words;
  bool takes_more = false;  // behind the value of an option that no `=` has
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const bool is_option = word.starts_with("--");
    const bool follows_option = i > 0 && arguments[i - 1].starts_with("--");
    if (is_option || follows_option || !takes_more) {
      words.push_back(word);
      if (is_option) takes_more = awaits_value(word);
    } else {
      words.back() += fmt::format(" {}", word);
    }
  }
  return words;
}

}  // namespace

std::optional<LaunchOptions> read_launch_options(const std::vector<std::string>& arguments) {
  LaunchOptions options;
  const auto add = [&](const std::string& name, const std::optional<std::string>& value) {
    options.settings.push_back({{name, value}, "on the command line"});
  };
  const cli::OtherOptions others{
      .takes = [](const std::string& name) { return is_truth(name) ? cli::Takes::truth : cli::Takes::value; },
      .meaning = [&](const cli::Word& word, const std::vector<std::string>&) -> std::optional<cli::Word> {
        add(word.name, word.value);
        return std::nullopt;
      }};
  LaunchFlags flags;
  cli::Manual about = about_launch();
  about.operand = "";  // without_command took it
  const std::optional<po::variables_map> values =
      read_options(about, describe(flags), join_lists(without_command(arguments)), others);
  if (!values) return std::nullopt;
  for (const char* name :
       {"num_processes", "hostfile", "launcher", "dataset_name", "data_files", "eval_files", "prepared_dir"}) {
    if (values->count(name) != 0) add(name, (*values)[name].as<std::string>());
  }
  options.accelerate_config = flags.accelerate_config;
  if (values->count("config_file") != 0) options.accelerate_config = (*values)["config_file"].as<std::string>();
  options.config = flags.config;
  options.machine = flags.machine;
  options.prints = flags.prints;
  return options;
}

cli::Manual launch_manual() {
  LaunchFlags flags;
  return cli::manual_of(about_launch(), describe(flags));
}

}  // namespace sft::apps
