// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_configure() {
  cli::Manual manual;
  manual.program = "sft-config";
  manual.summary = "Asks what accelerate config asks, and writes a commented .ini file and a job script";
  manual.usage = {"sft-config [run.ini] [--answers FILE]"};
  manual.paragraphs = {
      "An empty answer takes what stands in brackets: sizes are those of the fastest plan for the model, the rows "
      "and the machines, as sft-plan finds it, and of the next one where an answer is another. Without a terminal, "
      "lines of standard input are the answers, in the order of the questions; "
      "--answers FILE has lines `name = answer`, in any order.",
      "The job script is run.sbatch for SLURM, whose PMI is found through srun --mpi=list, or run.sh."};
  manual.operand = "*.ini";
  return manual;
}

po::options_description describe(ConfigureOptions& options) {
  po::options_description description;
  auto add = description.add_options();
  add("model_name_or_path", cli::path("FOLDER", &options.model),
      "the model that is proposed: a folder, or org/name in the hub cache");
  add("answers", cli::path("FILE", &options.answers), "lines `name = answer`");
  add("force", cli::flag(&options.replaces), "replace files that are there");
  return description;
}

}  // namespace

std::optional<ConfigureOptions> read_configure_options(const std::vector<std::string>& arguments) {
  ConfigureOptions options;
  const std::optional<po::variables_map> values = read_options(about_configure(), describe(options), arguments);
  if (!values) return std::nullopt;
  if (values->count("operand") != 0) options.output = (*values)["operand"].as<std::string>();
  return options;
}

cli::Manual configure_manual() {
  ConfigureOptions options;
  return cli::manual_of(about_configure(), describe(options));
}

}  // namespace sft::apps
