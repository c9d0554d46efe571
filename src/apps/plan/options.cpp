// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <utility>

#include "apps/common/amounts.hpp"
#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_plan() {
  cli::Manual manual;
  manual.program = "sft-plan";
  manual.summary = "Finds the mesh, the stage and the savings with which a model trains fastest on a machine";
  manual.usage = {"sft-plan MODEL_FOLDER --max_length 32k --rows 64 --machine h200x8x4 [--section.key VALUE ...]",
                  "sft-plan INPUT.ini --machine FILE [--apply PLANNED.ini] [--explain 2] [--json]"};
  manual.paragraphs = {
      "Every legal mesh, ZeRO stage, way of attending over the sequence, recomputation, offload and micro-batch is "
      "judged by the plan that sft itself would make: its memory by the ledger, its time by the same step over clocks. "
      "A key that is given, such as --tp_size 1, is a constraint. Nothing is trained, and no GPU is needed."};
  manual.operand = "*.ini";
  return manual;
}

struct Values {
  PlanOptions options;
  std::string max_length, searched;
};

po::options_description describe(Values& values) {
  po::options_description description;
  auto add = description.add_options();
  add("machine", po::value(&values.options.machine)->value_name("MACHINE"),
      "h200x8x4 for 4 nodes of 8 H200, of the names in share/sft/machines.ini; a file of one machine of that form, "
      "such "
      "as `sft --check --write_machine FILE` writes; `here`, or `herex8` for 8 ranks: this machine, which is measured");
  add("max_length", po::value(&values.max_length)->value_name("N"),
      "tokens of a row, 32k for 32768; without it, those of the data");
  add("rows", cli::number<std::int64_t>(&values.options.rows)->default_value(64, "64"),
      "rows of a step, of all ranks and micro-batches together");
  add("num_rows", cli::number<std::int64_t>(&values.options.num_rows),
      "rows of the data, for the hours of the run; without it, as many as data.train_files have");
  add("search", po::value(&values.searched)->value_name("KEYS"),
      "search keys too that change what is trained: of optim, reduce_dtype and tp_reduce, separated by commas");
  add("write_machine", cli::path("FILE", &values.options.machine_file), "with --machine here: keep what was measured");
  add("explain", cli::number<int>(&values.options.explained), "tell more of plan N: its memory, and what it waits for");
  add("apply", cli::path("FILE", &values.options.applied_to),
      "write the best plan, or the one that --explain names, as .ini file");
  add("json", cli::flag(&values.options.json), "print JSON");
  return description;
}

std::set<std::string> read_searched(const std::string& text) {
  constexpr std::array known{"optim", "reduce_dtype", "tp_reduce"};
  std::vector<std::string> names;
  if (!text.empty()) config::read(text, names);
  for (const std::string& name : names) {
    if (std::ranges::find(known, name) != known.end()) continue;
    throw_config_error(fmt::format("`--search {}` cannot be", name),
                       "optim, reduce_dtype and tp_reduce can be searched",
                       "leave it out; everything else that makes training fit is searched anyway");
  }
  return {names.begin(), names.end()};
}

/// Without an .ini file the model is the one that its key names.
void take_model(PlanOptions& options) {
  const auto found = std::ranges::find_if(options.overrides, [](const config::Option& option) {
    return option.name == "model_name_or_path" || option.name == "model.model_name_or_path";
  });
  if (found == options.overrides.end()) return;
  if (!found->value) config::refuse_without_value(found->name);
  options.model = *found->value;
  options.is_model_name = true;
  options.overrides.erase(found);
}

void check(const PlanOptions& options) {
  if (options.model.empty()) {
    throw_config_error("no model is given", "a plan is for one",
                       "give its folder, or an .ini file: sft-plan MODEL --max_length 8k --machine h200x8");
  }
  if (options.machine.empty()) {
    throw_config_error("--machine is missing", "plans of time are for one",
                       "give h200x8x4 for 4 nodes of 8 H200, or a file of one machine as in share/sft/machines.ini");
  }
  if (!options.machine_file.empty() && !options.machine.starts_with("here")) {
    throw_config_error("--write_machine without --machine here", "only this machine can be measured",
                       "leave it out, or plan for --machine here");
  }
  if (options.rows < 1 || options.num_rows < 0) {
    throw_config_error("--rows and --num_rows are numbers of rows", "a step has one row at least", "give e.g. 64");
  }
  if (options.explained < 0 || options.explained > 3) {
    throw_config_error(fmt::format("there is no plan {}", options.explained), "three are told of", "give 1, 2 or 3");
  }
}

}  // namespace

std::optional<PlanOptions> read_plan_options(const std::vector<std::string>& arguments) {
  Values values;
  const cli::OtherOptions keys{
      .takes = [](const std::string& name) { return config::is_truth(name) ? cli::Takes::truth : cli::Takes::value; },
      .meaning = [&](const cli::Word& word, const std::vector<std::string>& known) -> std::optional<cli::Word> {
        config::Option option{word.name, word.value};
        config::require_known(option, known);
        values.options.overrides.push_back(std::move(option));
        return std::nullopt;
      }};
  const std::optional<po::variables_map> given = read_options(about_plan(), describe(values), arguments, keys);
  if (!given) return std::nullopt;
  PlanOptions& options = values.options;
  if (given->count("operand") != 0) options.model = (*given)["operand"].as<std::string>();
  if (options.model.empty()) take_model(options);
  if (!values.max_length.empty()) options.max_length = parse_row_length(values.max_length);
  options.searched = read_searched(values.searched);
  check(options);
  return options;
}

cli::Manual plan_manual() {
  Values values;
  return cli::manual_of(about_plan(), describe(values));
}

}  // namespace sft::apps
