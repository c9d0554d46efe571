// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>

#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_inspect() {
  cli::Manual manual;
  manual.program = "sft-inspect";
  manual.summary = "Shows what a checkpoint or packed data holds";
  manual.usage = {"sft-inspect FOLDER [--optimizer] [--json]",
                  "sft-inspect FOLDER --verify [--json]",
                  "sft-inspect FOLDER --index",
                  "sft-inspect FOLDER --compare OTHER [--optimizer] [--json]",
                  "sft-inspect --diff FOLDER OTHER [--optimizer] [--json]",
                  "sft-inspect status OUTPUT [--json]",
                  "sft-inspect DATA [--verify] [--json]"};
  manual.paragraphs = {
      "FOLDER is a checkpoint, or the output folder of a run: then the checkpoint saved last is used. Without options: "
      "the run that wrote it, its tensors with their statistics, and its configuration.",
      "DATA is a folder that sft-prepare wrote, or one of its files: how many rows, tokens and targets there are; with "
      "--verify every row is read and compared with the counts and the hash that were stored."};
  manual.paragraphs.emplace_back(
      "With --diff, FOLDER and OTHER may also be model folders of the hub and folders of adapters. The exit status is "
      "0 "
      "where all tensors are the same, and 1 where names, shapes, dtypes or numbers differ.");
  manual.paragraphs.emplace_back(
      "status tells of the run whose output folder is OUTPUT whether it is alive, how far it is, and what it saved "
      "last. "
      "It only reads. A folder called status is ./status.");
  manual.operand = "/";
  manual.operand_option = "model_name_or_path";
  manual.num_operands = 2;
  return manual;
}

po::options_description describe(InspectOptions& options) {
  po::options_description description;
  auto add = description.add_options();
  add("verify", cli::flag(&options.verify), "read everything and compare it with the checksums that were stored");
  add("index", cli::flag(&options.index),
      "make tensors.h5 in the checkpoint: whole tensors for h5py and other HDF5 tools, as virtual datasets over the "
      "shard "
      "files (small checkpoints have it already)");
  add("compare", cli::path("CHECKPOINT", &options.other), "how far the tensors are from those of another checkpoint");
  add("diff", cli::flag(&options.diff),
      "what two checkpoints, model folders or adapters have not in common: keys, lineage, tensors");
  add("optimizer", cli::flag(&options.optimizer), "also the optimizer's entries, such as exp_avg and exp_avg_sq");
  add("json", cli::flag(&options.json), "print JSON");
  return description;
}

}  // namespace

std::optional<InspectOptions> read_inspect_options(const std::vector<std::string>& arguments) {
  InspectOptions options;
  const std::optional<po::variables_map> values = read_options(about_inspect(), describe(options), arguments);
  if (!values) return std::nullopt;
  if (values->count("operand") == 0) {
    throw_config_error("no checkpoint", "sft-inspect needs a folder such as output/demo", "see sft-inspect --help");
  }
  options.checkpoint = (*values)["operand"].as<std::string>();
  const bool has_second = values->count("operand2") > 0;
  const std::string second = has_second ? (*values)["operand2"].as<std::string>() : "";
  if (options.checkpoint == "status") {
    if (!has_second) {
      throw_config_error("status without a folder", "it tells of the run whose output folder is given",
                         "write e.g. sft-inspect status output/demo");
    }
    options.run = second;
    if (options.verify || options.index || options.diff || options.optimizer || !options.other.empty()) {
      throw_config_error("status with an option of checkpoints", "it tells of a run", "give --json alone beside it");
    }
    return options;
  }
  if (options.diff) {
    if (!has_second) throw_config_error("--diff with one folder", "it compares two", "give the other one as well");
    if (options.verify || options.index || !options.other.empty()) {
      throw_config_error("--diff with another option", "it compares two folders and does nothing else",
                         "give --optimizer and --json alone beside it");
    }
    options.other = second;
    return options;
  }
  if (has_second) {
    throw_config_error(fmt::format("`{}` is one word too many", second), "it belongs to no option",
                       "give one folder, or two with --diff; `status OUTPUT` tells of a run");
  }
  if (options.verify && (options.optimizer || !options.other.empty())) {
    throw_config_error(fmt::format("--verify with {}", options.optimizer ? "--optimizer" : "--compare"),
                       "it compares checksums of whole shard files and nothing else", "give one of the two");
  }
  if (options.index && (options.verify || options.optimizer || options.json || !options.other.empty())) {
    throw_config_error("--index with another option", "it writes tensors.h5 and shows nothing", "give --index alone");
  }
  return options;
}

cli::Manual inspect_manual() {
  InspectOptions options;
  return cli::manual_of(about_inspect(), describe(options));
}

}  // namespace sft::apps
