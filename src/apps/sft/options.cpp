// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "apps/common/amounts.hpp"
#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

/// Its options that are no keys.
struct Flags {
  bool print_config = false, dry_run = false, compile_attention = false, check = false, json = false;
  std::string num_ranks, ranks_per_node, machine, write_machine, config, max_length, num_rows, memory;
};

cli::Manual about_sft() {
  cli::Manual manual;
  manual.program = "sft";
  manual.summary = "Fine-tunes a decoder language model on a mesh of MPI ranks";
  manual.usage = {"mpirun -np N sft [INPUT.ini] [--section.key VALUE ...]",
                  "sft INPUT.ini --dry-run [--json] [--num_ranks N] [--machine MACHINE] [--memory 80GB] ...",
                  "sft --model_name_or_path MODEL --dry-run --max_length N --num_rows N [--num_ranks N] ...",
                  "sft INPUT.ini --compile-attention --machine MACHINE [--num_ranks N] ...",
                  "mpirun -np N sft INPUT.ini --check [--write_machine FILE]"};
  manual.keys_heading =
      "Keys of the .ini file; each is also an option, --section.key VALUE, which wins. The section may be left out "
      "where only one has the key. Defaults are in brackets.";
  manual.operand = "*.ini";
  cli::ManualGroup architecture{.title = "[model]",
                                .options = {},
                                .has_dashes = false,
                                .topic = "model",
                                .about = "the architecture, which model_name_or_path brings along"};
  for (config::KeyDescription& key : config::describe_keys()) {
    cli::ManualOption option{std::move(key.name),    "VALUE",    std::move(key.help), std::move(key.fallback),
                             std::move(key.choices), key.is_path};
    if (key.comes_with_model) {
      architecture.options.push_back(std::move(option));
      continue;
    }
    const std::string title = fmt::format("[{}]", key.section);
    if (manual.groups.empty() || manual.groups.back().title != title) {
      manual.groups.push_back({.title = title, .options = {}, .has_dashes = false});
    }
    manual.groups.back().options.push_back(std::move(option));
  }
  const auto model = std::ranges::find(manual.groups, architecture.title, &cli::ManualGroup::title);
  manual.groups.insert(model + 1, std::move(architecture));
  return manual;
}

po::options_description describe(Flags& flags) {
  po::options_description description;
  auto add = description.add_options();
  add("print-config", cli::flag(&flags.print_config),
      "print the configuration that this command line means, as .ini text");
  add("dry-run", cli::flag(&flags.dry_run),
      "on one rank, print what the run would be and the memory of all its ranks, and end");
  add("compile-attention", cli::flag(&flags.compile_attention),
      "on one rank, without a GPU, compile the graphs of cuDNN that attention of the run will ask for on --machine, "
      "and "
      "end");
  add("check", cli::flag(&flags.check),
      "try the machine on the mesh of the run: every collective, its speed, and the slowest rank; and end");
  add("json", cli::flag(&flags.json), "with --dry-run: as JSON");
  add("num_ranks", po::value(&flags.num_ranks)->value_name("N"),
      "with --dry-run or --compile-attention: for N ranks; without it, for as many as the mesh needs");
  add("ranks_per_node", po::value(&flags.ranks_per_node)->value_name("N"),
      "with the same: on nodes of N ranks; without it, those of --machine, or all ranks on one node");
  add("machine", po::value(&flags.machine)->value_name("MACHINE"),
      "also plan the time of a step on this machine, h200x8x4 for 4 nodes of 8 H200 (share/sft/machines.ini), or a "
      "file of one machine of that form, such as --check writes; a run tells it beside what a step took; "
      "--compile-attention compiles for its GPUs");
  add("write_machine", cli::path("FILE", &flags.write_machine),
      "with --check: measure what plans of time need, and write it as such a file");
  add("memory", po::value(&flags.memory)->value_name("SIZE"),
      "with --dry-run: say whether the run fits in so much of each GPU, or on CPUs of each node, as in 80GB; without "
      "it, in that of --machine, else of this node");
  add("max_length", po::value(&flags.max_length)->value_name("N"),
      "with --dry-run, before there is any data: plan for full rows of N tokens (32k for 32768)");
  add("num_rows", po::value(&flags.num_rows)->value_name("N"),
      "with --max_length: for N rows, from which steps and hours follow; without it, for those of one step");
  add("config", po::value(&flags.config)->value_name("FILE"),
      "the same as INPUT.ini, under TRL's name; also a YAML or JSON file of Accelerate, DeepSpeed, TRL, Axolotl or "
      "LLaMA-Factory");
  return description;
}

/// A whole number from 1. `what_to_do`: where it is none.
template <class Number>
Number read_count(const std::string& option, const std::string& text, const char* what, const char* what_to_do) {
  Number number = 0;
  try {
    config::read(text, number);
  } catch (const std::invalid_argument&) {
    number = 0;
  }
  if (number < 1) {
    throw_config_error(fmt::format("`{} {}` is no number of {}", option, text, what), "it is a whole number from 1",
                       what_to_do);
  }
  return number;
}

SftOptions::Action action_of(const Flags& flags) {
  using Action = SftOptions::Action;
  if (int{flags.print_config} + int{flags.dry_run} + int{flags.compile_attention} + int{flags.check} > 1) {
    throw_config_error("several of --print-config, --dry-run, --compile-attention and --check are given",
                       "each prints something else and ends", "give one of them");
  }
  if (flags.print_config) return Action::print_config;
  if (flags.dry_run) return Action::dry_run;
  if (flags.compile_attention) return Action::compile_attention;
  return flags.check ? Action::check : Action::run;
}

void require_dry_run(const Flags& flags) {
  const auto refuse = [](const std::string& option) {
    throw_config_error(fmt::format("{} without --dry-run", option), "it says how a dry run is planned and printed",
                       fmt::format("add --dry-run, or leave {} out", option));
  };
  if (flags.json) refuse("--json");
  if (!flags.num_ranks.empty() && !flags.compile_attention) refuse("--num_ranks");
  if (!flags.ranks_per_node.empty() && !flags.compile_attention) refuse("--ranks_per_node");
  if (!flags.memory.empty()) refuse("--memory");
  if (!flags.num_rows.empty()) refuse("--num_rows");
}

/// What is planned without data.
void read_rows(const Flags& flags, SftOptions& options) {
  if (!flags.max_length.empty()) options.max_length = parse_row_length(flags.max_length);
  if (flags.num_rows.empty()) return;
  if (options.max_length == 0) {
    throw_config_error("--num_rows without --max_length", "the rows that a run is planned for have one",
                       "give --max_length N too, or leave --num_rows out: data.train_files say how many there are");
  }
  options.num_rows = read_count<std::int64_t>("--num_rows", flags.num_rows, "rows", "give e.g. --num_rows 10000");
}

}  // namespace

std::optional<SftOptions> read_sft_options(const std::vector<std::string>& arguments) {
  SftOptions options;
  std::vector<std::string> unknown;  // so that all are told at once
  const cli::OtherOptions keys{
      .takes = [](const std::string& name) { return config::is_truth(name) ? cli::Takes::truth : cli::Takes::value; },
      .meaning = [&](const cli::Word& word, const std::vector<std::string>& known) -> std::optional<cli::Word> {
        config::Option option{word.name, word.value};
        try {
          config::require_known(option, known);
          options.overrides.push_back(std::move(option));
        } catch (const Error& error) {
          unknown.emplace_back(error.what());
        }
        return std::nullopt;
      }};
  Flags flags;
  const std::optional<po::variables_map> values = read_options(about_sft(), describe(flags), arguments, keys);
  if (!values) return std::nullopt;
  if (unknown.size() == 1) throw Error(ExitStatus::configuration, unknown.front());
  if (!unknown.empty()) {
    throw Error(ExitStatus::configuration,
                fmt::format("{} options are not known:\n  {}", unknown.size(), fmt::join(unknown, "\n  ")));
  }
  options.action = action_of(flags);
  if (options.action == SftOptions::Action::dry_run) {
    read_rows(flags, options);
  } else {
    require_dry_run(flags);
    if (!flags.max_length.empty())
      options.overrides.push_back({"max_length", flags.max_length});  // is refused as a key
  }
  if (!flags.memory.empty()) options.memory_bytes = parse_size(flags.memory);
  options.json = flags.json;
  options.machine = flags.machine;
  options.machine_file = flags.write_machine;
  const bool has_steps = options.action == SftOptions::Action::run || options.plans_for_others();
  if (!flags.machine.empty() && !has_steps) {
    throw_config_error("--machine with --check or --print-config", "it is for plans of steps, and neither makes any",
                       "leave it out; --check --write_machine FILE describes this machine");
  }
  if (!flags.write_machine.empty() && options.action != SftOptions::Action::check) {
    throw_config_error("--write_machine without --check", "it is the check that measures", "add --check");
  }
  const char* const what_to_do = "give the number that mpirun will start, e.g. 16";
  if (values->count("num_ranks") != 0) {
    options.num_ranks = read_count<int>("--num_ranks", flags.num_ranks, "ranks", what_to_do);
  }
  if (values->count("ranks_per_node") != 0) {
    options.ranks_per_node = read_count<int>("--ranks_per_node", flags.ranks_per_node, "ranks", what_to_do);
  }
  if (values->count("operand") != 0) options.input_file = (*values)["operand"].as<std::string>();
  if (values->count("config") != 0) {
    if (!options.input_file.empty()) {
      throw_config_error(fmt::format("`{}` and `--config {}` are given", options.input_file, flags.config),
                         "a run has one file", "give one of them");
    }
    options.input_file = flags.config;
  }
  return options;
}

cli::Manual sft_manual() {
  Flags flags;
  return cli::manual_of(about_sft(), describe(flags));
}

}  // namespace sft::apps
