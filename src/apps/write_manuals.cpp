// SPDX-License-Identifier: Apache-2.0
// Writes the manual pages and shell completions of all programs, when they are built.
//
//   write_manuals SHARE_FOLDER
//
// leaves SHARE_FOLDER/man/man1/*.1, SHARE_FOLDER/bash-completion/completions/* and SHARE_FOLDER/zsh/site-functions/_*.

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "apps/common/prepare_options.hpp"
#include "apps/config/options.hpp"
#include "apps/convert/options.hpp"
#include "apps/generate/options.hpp"
#include "apps/inspect/options.hpp"
#include "apps/launch/options.hpp"
#include "apps/plan/options.hpp"
#include "apps/prove/options.hpp"
#include "apps/run/run_manual.hpp"
#include "apps/sft/options.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"

namespace {

using namespace sft;

void write(const std::string& folder, const std::string& name, const std::string& text) {
  io::make_folders(folder);
  io::write_file_atomically(folder + "/" + name, text);
}

/// The manual with the options that its program passes on: sft-run all of sft's keys, sft-launch those of sft-prepare
/// too.
cli::Manual with_passed_on(cli::Manual manual) {
  if (manual.program != "sft-run" && manual.program != "sft-launch") return manual;
  std::vector<cli::ManualOption>& own = manual.groups.front().options;
  if (manual.program == "sft-launch") {
    const cli::Manual prepare = apps::prepare_manual();
    for (const cli::ManualOption& option : prepare.groups.front().options) {
      const bool is_new = std::ranges::find(own, option.name, &cli::ManualOption::name) == own.end();
      if (is_new) own.push_back(option);
    }
  }
  const cli::Manual sft = apps::sft_manual();
  for (const cli::ManualGroup& group : sft.groups) {
    if (!group.has_dashes) manual.groups.push_back(group);
  }
  return manual;
}

int run(int argc, char** argv) {
  if (argc < 3) throw_config_error("no folder and programs", "they are the arguments", "give them");
  const std::string share = argv[1];
  const std::set<std::string> built(argv + 2, argv + argc);
  std::vector<cli::Manual> manuals{apps::sft_manual(),     apps::prepare_manual(),   apps::generate_manual(),
                                   apps::inspect_manual(), apps::convert_manual(),   apps::launch_manual(),
                                   apps::prove_manual(),   apps::configure_manual(), apps::plan_manual(),
                                   apps::run_manual()};
  std::erase_if(manuals, [&](const cli::Manual& manual) { return !built.contains(manual.program); });
  std::vector<std::string> programs;
  for (const cli::Manual& manual : manuals) programs.push_back(manual.program);
  for (const cli::Manual& manual : manuals) {
    write(share + "/man/man1", manual.program + ".1", cli::man_page_of(manual, programs));
    const cli::Manual typed = with_passed_on(manual);
    write(share + "/bash-completion/completions", manual.program, cli::bash_completion_of(typed));
    write(share + "/zsh/site-functions", "_" + manual.program, cli::zsh_completion_of(typed));
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  return sft::run_alone([&] { return run(argc, argv); });
}
