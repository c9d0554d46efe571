// SPDX-License-Identifier: Apache-2.0
#include "tool.hpp"

#include <algorithm>
#include <utility>

#include "option_value.hpp"
#include "sft/config/unknown_option.hpp"
#include "sft/config/words.hpp"
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
  if (parameter.starts_with(std::string("[=") + unnamed)) {
    shown.argument.clear();
    shown.fallback.clear();
  } else if (parameter.starts_with("[=")) {
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

/// The words of a command line, sorted into options and what stands alone.
class Reader {
 public:
  Reader(const config::Manual& about, const po::options_description& options) : about_(about), options_(options) {
    add_common(options_);
    known_ = names_of(options_);
    for (int i = 1; i <= (about.operand.empty() ? 0 : about.num_operands); ++i) {
      operands_.push_back(i == 1 ? "operand" : "operand" + std::to_string(i));
      options_.add_options()(operands_.back().c_str(), path("OPERAND"));
    }
  }

  po::variables_map read(const std::vector<std::string>& arguments) {
    po::parsed_options parsed(&options_, po::command_line_style::allow_long);
    for (config::Word word : config::split_words(arguments, [this](const auto& name) { return takes_of(name); })) {
      std::optional<config::Word> known = known_word(std::move(word));
      if (known) parsed.options.push_back(option_of(std::move(*known)));
    }
    po::variables_map values;
    po::store(parsed, values);
    po::notify(values);
    return values;
  }

 private:
  [[nodiscard]] bool has(const std::string& name) const { return std::ranges::find(known_, name) != known_.end(); }

  [[nodiscard]] config::Takes takes_of(const std::string& name) const {
    if (name == "h") return config::Takes::nothing;
    if (!has(name)) return name.starts_with("no_") ? takes_of_negated(name) : config::Takes::value;
    const po::value_semantic& value = *options_.find(name, /*approx=*/false).semantic();
    if (value.min_tokens() > 0) return config::Takes::value;
    return value.max_tokens() > 0 ? config::Takes::truth : config::Takes::nothing;
  }

  /// Of `no_NAME`: nothing follows where NAME is a truth.
  [[nodiscard]] config::Takes takes_of_negated(const std::string& name) const {
    return takes_of(name.substr(3)) == config::Takes::truth ? config::Takes::nothing : config::Takes::value;
  }

  /// The word with a name that is an option of this program; nothing for one that has no effect.
  [[nodiscard]] std::optional<config::Word> known_word(config::Word word) {
    if (word.name.empty()) {
      if (num_operands_ == operands_.size()) {
        throw_config_error("`" + *word.value + "` is one word too many", "it belongs to no option",
                           "see " + about_.program + " --help");
      }
      return config::Word{operands_[num_operands_++], word.value};
    }
    if (word.name == "h") return config::Word{"help", {}};
    if (has(word.name)) return word;
    if (word.name.starts_with("no_") && !word.value && takes_of(word.name) == config::Takes::nothing) {
      return config::Word{word.name.substr(3), "false"};
    }
    return config::meaning_of_unknown_option(about_.program, word, known_);
  }

  [[nodiscard]] po::option option_of(config::Word word) const {
    if (!word.value && takes_of(word.name) == config::Takes::value) {
      throw_config_error("`--" + word.name + "` has no value", "another option or nothing follows it",
                         "write one after it, or --" + word.name + "=VALUE");
    }
    po::option option(word.name, {});
    if (word.value) option.value.push_back(std::move(*word.value));
    return option;
  }

  const config::Manual& about_;
  po::options_description options_;
  std::vector<std::string> known_, operands_;  // names
  std::size_t num_operands_ = 0;               // that were read
};

std::string without_dashes(const std::string& option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

po::variables_map parse(const config::Manual& about, const po::options_description& options,
                        const std::vector<std::string>& arguments) {
  const std::string advice = "see " + about.program + " --help";
  try {
    return Reader(about, options).read(arguments);
  } catch (const InvalidValue& error) {
    throw_config_error("the value of --" + without_dashes(error.get_option_name()) + " is not valid",
                       "expected " + error.expectation(), advice);
  } catch (const po::error& error) {
    throw_config_error(error.what(), "the command line cannot be read", advice);
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
