// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>
#include <utility>

#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

constexpr const char* one_rank = "one_rank";

cli::Manual about_prove() {
  cli::Manual manual;
  manual.program = "sft-prove";
  manual.summary = "Shows whether two layouts of one run train alike, to rounding";
  manual.usage = {"sft-prove A.ini B.ini [--steps N] [--section.key VALUE ...]",
                  "sft-prove A.ini --against one_rank [--steps N] [--section.key VALUE ...]"};
  manual.paragraphs = {
      "Both train some steps on the same rows from the same weights, one after the other, at a constant learning rate. "
      "Compared are the loss and the gradient norm of every step, how far every tensor of weights moved, and every "
      "tensor of the optimizer, which shows gradients that AdamW hides. For each it prints to how many digits the two "
      "agree, and how far apart rounding can bring them.",
      "The exit status is 0 where rounding explains all, and 1 where it does not. Keys on the command line are for "
      "both, so --precision fp32 makes the proof of a bf16 run sharper. The runs' own files go to a scratch folder, "
      "which is removed."};
  manual.operand = "*.ini";
  manual.num_operands = 2;
  return manual;
}

po::options_description describe(ProveOptions& options, std::string& against) {
  po::options_description description;
  auto add = description.add_options();
  add("against", po::value(&against)->value_name(one_rank), "compare A.ini with the same run on one rank");
  add("steps", cli::number(&options.steps)->default_value(options.steps, "5"), "how many both train");
  add("num_ranks", cli::number(&options.num_ranks), "ranks of a mesh whose dp_shard_size is auto (default: 1)");
  add("launcher", po::value(&options.launcher)->value_name("COMMAND"),
      "what starts the ranks, as --launcher of sft-run; {n} stands for their number, as in \"srun --mpi=pmix -n {n}\"");
  add("scratch", cli::path("FOLDER", &options.scratch),
      "where the runs leave what is compared, three checkpoints; all nodes must see it (default: TMPDIR or /tmp)");
  add("keep", cli::flag(&options.keep), "leave that folder there");
  add("json", cli::flag(&options.json), "print JSON");
  return description;
}

}  // namespace

std::optional<ProveOptions> read_prove_options(const std::vector<std::string>& arguments) {
  ProveOptions options;
  const cli::OtherOptions keys{
      .takes = [](const std::string& name) { return config::is_truth(name) ? cli::Takes::truth : cli::Takes::value; },
      .meaning = [&](const cli::Word& word, const std::vector<std::string>& known) -> std::optional<cli::Word> {
        config::Option option{word.name, word.value};
        config::require_known(option, known);
        options.overrides.push_back(std::move(option));
        return std::nullopt;
      }};
  std::string against;
  const auto values = read_options(about_prove(), describe(options, against), arguments, keys);
  if (!values) return std::nullopt;
  if (values->count("operand") == 0) {
    throw_config_error("no run is described", "sft-prove needs one or two .ini files", "see sft-prove --help");
  }
  options.first = (*values)["operand"].as<std::string>();
  if (values->count("operand2") != 0) options.second = (*values)["operand2"].as<std::string>();
  if (values->count("against") != 0 && against != one_rank) {
    throw_config_error(fmt::format("`--against {}` is not known", against), "there is one_rank",
                       "to compare with another layout give its .ini file as the second");
  }
  if (options.second.empty() == (values->count("against") == 0)) {
    throw_config_error(options.second.empty() ? "there is one layout" : "there are three layouts",
                       "sft-prove compares two", "give A.ini and B.ini, or A.ini and --against one_rank");
  }
  if (options.steps < 1 || options.num_ranks < 0) {
    throw_config_error(options.steps < 1 ? "--steps is less than 1" : "--num_ranks is less than 0",
                       "it is a whole number from 1", "correct it");
  }
  return options;
}

cli::Manual prove_manual() {
  ProveOptions options;
  std::string against;
  return cli::manual_of(about_prove(), describe(options, against));
}

}  // namespace sft::apps
