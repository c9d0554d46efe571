#include "sft/config/parse.hpp"

#include <algorithm>
#include <boost/program_options.hpp>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string_view>

#include "config/keys.hpp"
#include "config/nearest.hpp"
#include "config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

namespace po = boost::program_options;

constexpr const char* command_line_source = "the command line";

po::options_description key_options() {
  po::options_description options;
  for (const Key& key : keys()) options.add_options()(key.full_name().c_str(), po::value<std::string>(), "");
  return options;
}

std::vector<std::string> section_names() {
  std::vector<std::string> names;
  for (const Key& key : keys()) {
    if (names.empty() || names.back() != key.section) names.push_back(key.section);
  }
  return names;
}

/// Where `name` stands alone or under a section that has no such key.
[[noreturn]] void refuse_misplaced_key(const std::string& written, const Key& key, const std::string& source) {
  throw_config_error("unknown key `" + written + "` in " + source,
                     "`" + key.name + "` belongs to [" + key.section + "]", "write `" + key.full_name() + "`");
}

[[noreturn]] void refuse_unknown_key(const std::string& written, const std::string& source) {
  const std::size_t dot = written.find('.');
  const std::string section = dot == std::string::npos ? "" : written.substr(0, dot);
  const std::string name = dot == std::string::npos ? written : written.substr(dot + 1);
  std::vector<std::string> names;
  std::vector<std::string> siblings;
  for (const Key& key : keys()) {
    if (key.name == name) refuse_misplaced_key(written, key, source);
    names.push_back(key.full_name());
    if (key.section == section) siblings.push_back(key.name);
  }
  const std::string problem = "unknown key `" + written + "` in " + source;
  if (section.empty()) {
    throw_config_error(problem, "a key is written section.key, or under its [section]",
                       "--help lists every key and option");
  }
  if (siblings.empty()) {
    throw_config_error(
        problem, "there is no section [" + section + "]",
        "did you mean [" + nearest(section, section_names()) + "] or `" + nearest(written, names) + "`?");
  }
  throw_config_error(problem, "[" + section + "] has no such key", "did you mean `" + nearest(name, siblings) + "`?");
}

/// Runs Boost's command-line parser; everything it can object to becomes one of our errors.
po::parsed_options parse_words(const std::vector<std::string>& words, const po::options_description& options,
                               const po::positional_options_description& positional) {
  using namespace po::command_line_style;
  try {
    return po::command_line_parser(words)
        .options(options)
        .positional(positional)
        .style(allow_long | long_allow_adjacent | long_allow_next | allow_short | allow_dash_for_short |
               short_allow_next)
        .run();
  } catch (const po::unknown_option& error) {
    std::string name = error.get_option_name();
    name.erase(0, name.find_first_not_of('-'));
    refuse_unknown_key(name.substr(0, name.find('=')), command_line_source);
  } catch (const po::too_many_positional_options_error&) {
    throw_config_error("more than one word without `--` on the command line", "there is one INPUT.ini",
                       "quote a value that has spaces or a glob, and write other values as --section.key VALUE");
  } catch (const po::error& error) {
    throw_config_error(std::string("the command line cannot be read: ") + error.what(),
                       "options are --section.key VALUE or --section.key=VALUE", "see --help");
  }
}

po::parsed_options parse_file_text(const std::string& ini_text, const std::string& source) {
  std::istringstream stream(ini_text);
  try {
    return po::parse_config_file(stream, key_options(), /*allow_unregistered=*/true);
  } catch (const po::invalid_config_file_syntax& error) {
    throw_config_error("line `" + error.tokens() + "` of " + source + " cannot be read",
                       "it is neither [section], key = value nor # comment", "correct or remove it");
  } catch (const po::error& error) {
    throw_config_error(source + " cannot be read", error.what(), "write key = value lines under [section] lines");
  }
}

void apply(const po::parsed_options& parsed, const std::string& source, Config& config) {
  std::set<std::string> seen;
  for (const po::option& option : parsed.options) {
    const std::string& name = option.string_key;
    const Key* key = find_key(name);
    if (key == nullptr) refuse_unknown_key(name, source);
    if (!seen.insert(name).second) {
      throw_config_error("`" + name + "` is given twice in " + source, "one of the two would be ignored",
                         "keep one of them");
    }
    const std::string text = option.value.empty() ? "" : option.value.front();
    if (text.starts_with("--")) {
      throw_config_error("`" + name + "` has no value in " + source, "`" + text + "` follows it", "write one after it");
    }
    try {
      key->set(text, config);
    } catch (const std::invalid_argument& expectation) {
      throw_config_error("`" + name + " = " + text + "` in " + source + " is no valid value",
                         std::string("expected ") + expectation.what(), "correct it; --help lists every key");
    }
  }
}

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
    throw_config_error("--print-config and --dry-run are both given", "each prints something else and ends",
                       "give one of the two");
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

}  // namespace

CommandLine parse_command_line(const std::vector<std::string>& arguments) {
  using Action = CommandLine::Action;
  po::options_description options = key_options();
  options.add_options()("help,h", "")("version", "")("print-config", "")("dry-run", "")("json", "");
  options.add_options()("num_ranks", po::value<std::string>(), "")("input_file", po::value<std::string>(), "");
  CommandLine command_line;
  std::set<Action> asked;
  for (const po::option& option :
       parse_words(arguments, options, po::positional_options_description().add("input_file", 1)).options) {
    if (option.string_key == "help") {
      asked.insert(Action::help);
    } else if (option.string_key == "version") {
      asked.insert(Action::version);
    } else if (option.string_key == "print-config") {
      asked.insert(Action::print_config);
    } else if (option.string_key == "dry-run") {
      asked.insert(Action::dry_run);
    } else if (option.string_key == "json") {
      command_line.json = true;
    } else if (option.string_key == "num_ranks") {
      command_line.num_ranks = read_num_ranks(option.value.front());
    } else if (option.string_key == "input_file") {
      command_line.input_file = option.value.front();
    } else {
      command_line.overrides.push_back("--" + option.string_key);
      command_line.overrides.push_back(option.value.front());
    }
  }
  command_line.action = choose_action(asked);
  if (command_line.action == Action::run || command_line.action == Action::print_config) {
    refuse_without_dry_run(command_line);
  }
  return command_line;
}

Config parse(const std::string& ini_text, const std::vector<std::string>& overrides, const std::string& source) {
  constexpr std::string_view byte_order_mark = "\xEF\xBB\xBF";
  const bool is_marked = ini_text.starts_with(byte_order_mark);
  Config config;
  apply(parse_file_text(is_marked ? ini_text.substr(byte_order_mark.size()) : ini_text, source), source, config);
  apply(parse_words(overrides, key_options(), {}), command_line_source, config);
  return config;
}

std::string to_ini(const Config& config) {
  std::string text;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) text += (section.empty() ? "[" : "\n[") + key.section + "]\n";
    section = key.section;
    const std::string value = key.get(config);
    text += key.name + (value.empty() ? " =" : " = ") + value + "\n";
  }
  return text;
}

}  // namespace sft::config
