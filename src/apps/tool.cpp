// SPDX-License-Identifier: Apache-2.0
#include "tool.hpp"

#include <algorithm>
#include <utility>

#include "sft/config/unknown_option.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/version.hpp"

namespace sft::apps {

namespace po = boost::program_options;

namespace {

void add_common(po::options_description& options) {
  options.add_options()("help", "print this text")("version", "print the version");
}

/// From Boost's "NAME (=DEFAULT)", or "[=NAME(=true)] (=DEFAULT)" of truths.
config::ManualOption manual_option(const po::option_description& option) {
  const std::string parameter = option.format_parameter();
  config::ManualOption shown{
      option.long_name(), parameter.substr(0, parameter.find(" (=")), option.description(), "", {}, false};
  if (const std::size_t begin = parameter.rfind(" (="); begin != std::string::npos) {
    shown.fallback = parameter.substr(begin + 3, parameter.size() - begin - 4);
  }
  if (parameter.starts_with("[=")) {
    shown.argument = "BOOL";
    shown.choices = {"true", "false"};
  }
  shown.is_path = shown.argument == "FILE" || shown.argument == "FOLDER" || shown.argument == "CHECKPOINT";
  return shown;
}

/// The options, without dashes.
std::vector<std::string> names_of(const po::options_description& options) {
  std::vector<std::string> names;
  for (const auto& option : options.options()) names.push_back(option->long_name());
  return names;
}

po::variables_map parse(const config::Manual& about, const po::options_description& options,
                        const std::vector<std::string>& arguments) {
  po::options_description all = options;
  add_common(all);
  const std::vector<std::string> known = names_of(all);
  po::positional_options_description positional;
  if (!about.operand.empty()) {
    for (int i = 1; i <= about.num_operands; ++i) {
      const std::string name = i == 1 ? "operand" : "operand" + std::to_string(i);
      all.add_options()(name.c_str(), po::value<std::string>());
      positional.add(name.c_str(), 1);
    }
  }
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::variables_map values;
    po::store(po::command_line_parser(arguments).options(all).positional(positional).style(style).run(), values);
    po::notify(values);
    return values;
  } catch (const po::unknown_option& error) {
    const std::string option = error.get_option_name();
    config::refuse_unknown_option(about.program, option.substr(std::min(option.find_first_not_of('-'), option.size())),
                                  known);
  } catch (const po::error& error) {
    throw_config_error(error.what(), "the command line cannot be read", "see " + about.program + " --help");
  }
}

}  // namespace

config::Manual manual_of(config::Manual about, const po::options_description& options) {
  po::options_description all = options;
  add_common(all);
  config::ManualGroup group{"Options", {}, /*has_dashes=*/true};
  for (const auto& option : all.options()) group.options.push_back(manual_option(*option));
  about.groups = {std::move(group)};
  return about;
}

std::optional<po::variables_map> read_options(const config::Manual& about, const po::options_description& options,
                                              const std::vector<std::string>& arguments) {
  po::variables_map values = parse(about, options, arguments);
  if (values.count("help") != 0) {
    log_info(config::help_of(manual_of(about, options)));
    return std::nullopt;
  }
  if (values.count("version") != 0) {
    log_info(about.program + " " + version());
    return std::nullopt;
  }
  return values;
}

}  // namespace sft::apps
