// SPDX-License-Identifier: Apache-2.0
#include <set>
#include <stdexcept>

#include "config/names.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/config/words.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

int read_num_ranks(const std::string& text) {
  int num_ranks = 0;
  try {
    read(text, num_ranks);
  } catch (const std::invalid_argument&) {
    num_ranks = 0;
  }
  if (num_ranks < 1) {
    throw_config_error("`--num_ranks " + text + "` is no number of ranks", "it is a whole number from 1",
                       "give the number that mpirun will start, e.g. --num_ranks 16");
  }
  return num_ranks;
}

/// The one thing to do: --help, then --version, come before all else.
CommandLine::Action choose_action(const std::set<CommandLine::Action>& asked) {
  using Action = CommandLine::Action;
  for (const Action action : {Action::help, Action::version}) {
    if (asked.contains(action)) return action;
  }
  if (asked.size() > 1) {
    throw_config_error("several of --print-config, --dry-run and --check are given",
                       "each prints something else and ends", "give one of them");
  }
  return asked.empty() ? Action::run : *asked.begin();
}

void refuse_without_dry_run(const CommandLine& command_line) {
  const auto refuse = [](const std::string& option) {
    throw_config_error(option + " without --dry-run", "it says how a dry run is planned and printed",
                       "add --dry-run, or leave " + option + " out");
  };
  if (command_line.json) refuse("--json");
  if (command_line.num_ranks > 0) refuse("--num_ranks");
}

/// What may follow a word of sft's command line.
Takes takes_of_command(const std::string& name) {
  const bool is_action = name == "help" || name == "h" || name == "version" || name == "print_config" ||
                         name == "dry_run" || name == "check" || name == "json";
  return is_action ? Takes::nothing : takes_of(name);
}

CommandLine::Action action_of(const std::string& name) {
  using Action = CommandLine::Action;
  if (name == "version") return Action::version;
  if (name == "print_config") return Action::print_config;
  if (name == "check") return Action::check;
  return name == "dry_run" ? Action::dry_run : Action::help;
}

void refuse_value(const Word& word) {
  if (!word.value) return;
  throw_config_error("`--" + word.name + "` has the value `" + *word.value + "`", "it takes none",
                     "leave the value out");
}

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  using Action = CommandLine::Action;
  CommandLine command_line;
  std::set<Action> asked;
  for (const Word& word : split_words(arguments, takes_of_command)) {
    if (word.name.empty()) {
      if (!command_line.input_file.empty()) {
        throw_config_error("`" + *word.value + "` follows `" + command_line.input_file + "` on the command line",
                           "there is one INPUT.ini",
                           "quote a value that has spaces or a glob, and write other values as --section.key VALUE");
      }
      command_line.input_file = *word.value;
    } else if (takes_of_command(word.name) == Takes::nothing) {
      refuse_value(word);
      if (word.name == "json") {
        command_line.json = true;
      } else {
        asked.insert(action_of(word.name));
      }
    } else if (word.name == "num_ranks") {
      command_line.num_ranks = read_num_ranks(word.value.value_or(""));
    } else {
      static_cast<void>(written_option(word));  // refuses one without its value
      command_line.overrides.push_back("--" + word.name + (word.value ? "=" + *word.value : ""));
    }
  }
  command_line.action = choose_action(asked);
  const std::set<Action> without_options{Action::run, Action::print_config, Action::check};
  if (without_options.contains(command_line.action)) refuse_without_dry_run(command_line);
  return command_line;
}

}  // namespace sft::config
