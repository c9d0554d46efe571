// SPDX-License-Identifier: Apache-2.0
// Writes the manual pages and shell completions of all programs, when they are built.
//
//   write_manuals SHARE_FOLDER
//
// leaves SHARE_FOLDER/man/man1/*.1, SHARE_FOLDER/bash-completion/completions/* and SHARE_FOLDER/zsh/site-functions/_*.

#include <string>
#include <vector>

#include "configure_options.hpp"
#include "convert_options.hpp"
#include "generate_options.hpp"
#include "inspect_options.hpp"
#include "launch_options.hpp"
#include "plan_options.hpp"
#include "prepare_options.hpp"
#include "prove_options.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"
#include "sft_options.hpp"

namespace {

using namespace sft;

void write(const std::string& folder, const std::string& name, const std::string& text) {
  io::make_folders(folder);
  io::write_file_atomically(folder + "/" + name, text);
}

int run(int argc, char** argv) {
  if (argc != 2) throw_config_error("no folder", "there is one argument, the folder to write to", "give it");
  const std::string share = argv[1];
  const std::vector<cli::Manual> manuals{apps::sft_manual(),     apps::prepare_manual(),   apps::generate_manual(),
                                         apps::inspect_manual(), apps::convert_manual(),   apps::launch_manual(),
                                         apps::prove_manual(),   apps::configure_manual(), apps::plan_manual()};
  std::vector<std::string> programs;
  for (const cli::Manual& manual : manuals) programs.push_back(manual.program);
  for (const cli::Manual& manual : manuals) {
    write(share + "/man/man1", manual.program + ".1", cli::man_page_of(manual, programs));
    write(share + "/bash-completion/completions", manual.program, cli::bash_completion_of(manual));
    write(share + "/zsh/site-functions", "_" + manual.program, cli::zsh_completion_of(manual));
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  return sft::run_alone([&] { return run(argc, argv); });
}
