// SPDX-License-Identifier: Apache-2.0
#include "sft/cli/options.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <utility>

#include "sft/cli/option_value.hpp"
#include "sft/config/options.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/nearest.hpp"
#include "sft/core/program.hpp"

namespace sft::cli {

namespace po = boost::program_options;

namespace {

/// From Boost's "NAME (=DEFAULT)", or "[=NAME(=true)] (=DEFAULT)" of truths.
ManualOption manual_option(const po::option_description& option) {
  const std::string parameter = option.format_parameter();
  ManualOption shown{
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

/// A name as words have it.
std::string as_in_words(std::string name) {
  std::ranges::replace(name, '-', '_');
  return name;
}

/// The first of --help and --version that is asked for, in this order; empty: neither.
std::string question_in(const std::vector<Word>& words) {
  const auto has = [&](const char* name) {
    return std::ranges::any_of(words, [&](const Word& word) { return word.name == name; });
  };
  if (has("help") || has("h")) return "help";
  return has("version") ? "version" : "";
}

/// The topics that the manual has help on.
std::vector<std::string> topics_of(const Manual& manual) {
  std::vector<std::string> topics;
  for (const ManualGroup& group : manual.groups) {
    if (!group.topic.empty()) topics.push_back(group.topic);
  }
  return topics;
}

/// The topic that --help is asked about: its value, or the word after it. Empty: none, or none that the manual has.
std::string topic_in(const std::vector<Word>& words, const Manual& manual) {
  const std::vector<std::string> topics = topics_of(manual);
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].name != "help" && words[i].name != "h") continue;
    std::optional<std::string> topic = words[i].value;
    if (!topic && i + 1 < words.size() && words[i + 1].name.empty()) topic = words[i + 1].value;
    if (topic && std::ranges::find(topics, *topic) != topics.end()) return *topic;
  }
  return "";
}

/// The words of a command line, sorted into options and what stands alone.
class Reader {
 public:
  Reader(const Manual& about, const po::options_description& options, const OtherOptions& others)
      : about_(about), options_(options), others_(others) {
    for (const auto& option : options.options()) known_.push_back(option->long_name());
    for (const char* name : {"help", "version"}) known_.emplace_back(name);
    for (int i = 1; i <= (about.operand.empty() ? 0 : about.num_operands); ++i) {
      operands_.push_back(i == 1 ? "operand" : fmt::format("operand{}", i));
      options_.add_options()(operands_.back().c_str(), path("OPERAND"));
    }
  }

  [[nodiscard]] std::vector<Word> split(const std::vector<std::string>& arguments) const {
    return split_words(arguments, [this](const std::string& name) { return takes_of(name); });
  }

  [[nodiscard]] po::variables_map read(const std::vector<Word>& words) {
    po::parsed_options parsed(&options_, po::command_line_style::allow_long);
    for (const Word& word : words) {
      if (names_operand(word.name)) parsed.options.push_back(option_of({next_operand(word), word.value}));
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (names_operand(words[i].name)) continue;
      if (words[i].name.empty() && num_operands_ == operands_.size()) refuse_extra(words, i);
      std::optional<Word> known = known_word(words[i]);
      if (known) parsed.options.push_back(option_of(std::move(*known)));
    }
    po::variables_map values;
    po::store(parsed, values);
    po::notify(values);
    return values;
  }

 private:
  /// The option that a word of this name gives; null: none.
  [[nodiscard]] const po::option_description* find(const std::string& name) const {
    for (const auto& option : options_.options()) {
      if (as_in_words(option->long_name()) == name) return option.get();
    }
    return nullptr;
  }

  [[nodiscard]] Takes takes_of(const std::string& name) const {
    if (name == "h" || name == "help" || name == "version") return Takes::nothing;
    if (const po::option_description* option = find(name)) {
      const po::value_semantic& value = *option->semantic();
      if (value.min_tokens() > 0) return Takes::value;
      return value.max_tokens() > 0 ? Takes::truth : Takes::nothing;
    }
    if (names_operand(name)) return Takes::value;
    if (is_negated(name)) return Takes::nothing;
    return others_.takes ? others_.takes(name) : Takes::value;
  }

  [[nodiscard]] bool names_operand(const std::string& name) const {
    return !name.empty() && name == about_.operand_option;
  }

  /// The operand that an option in its place gives.
  [[nodiscard]] std::string next_operand(const Word& word) {
    if (num_operands_ > 0) {
      throw_config_error(fmt::format("--{} is given twice", word.name), "it stands for one word",
                         fmt::format("see {} --help", about_.program));
    }
    if (!word.value) config::refuse_without_value(word.name);
    return operands_[num_operands_++];
  }

  /// Whether it is `no_NAME`, where NAME is a truth.
  [[nodiscard]] bool is_negated(const std::string& name) const {
    return name.starts_with("no_") && takes_of(name.substr(3)) == Takes::truth;
  }

  /// Throws the Error of the word `words[i]`, which has no name, where no operand is left.
  [[noreturn]] void refuse_extra(const std::vector<Word>& words, std::size_t i) const {
    const std::string& text = *words[i].value;
    std::string advice = "quote a value that has spaces or a glob";
    if (i > 0 && !words[i - 1].value && takes_of(words[i - 1].name) == Takes::truth) {
      advice = fmt::format("--{} takes true or false", words[i - 1].name);
    } else if (text.size() > 1 && text[0] == '-' && text[1] != '-') {
      advice = fmt::format("options begin with two dashes: -{}", text);
    }
    throw_config_error(fmt::format("`{}` is one word too many", text), "it belongs to no option",
                       fmt::format("{}; see {} --help", advice, about_.program));
  }

  /// The word with a name that is an option of this program; nothing for one that has no effect.
  [[nodiscard]] std::optional<Word> known_word(const Word& word) {
    if (word.name.empty()) {
      return Word{operands_[num_operands_++], word.value};
    }
    if (find(word.name) != nullptr) return word;
    if (!word.value && is_negated(word.name) && find(word.name.substr(3)) != nullptr) {
      return Word{word.name.substr(3), "false"};
    }
    if (others_.meaning) return others_.meaning(word, known_);
    refuse_unknown(about_.program, word, known_);
  }

  [[nodiscard]] po::option option_of(Word word) const {
    if (!word.value && takes_of(word.name) == Takes::value) config::refuse_without_value(word.name);
    po::option option(find(word.name)->long_name(), {});
    if (word.value) option.value.push_back(std::move(*word.value));
    return option;
  }

  const Manual& about_;
  po::options_description options_;
  const OtherOptions& others_;
  std::vector<std::string> known_, operands_;  // names
  std::size_t num_operands_ = 0;               // that were read
};

std::string without_dashes(const std::string& option) {
  return option.substr(std::min(option.find_first_not_of('-'), option.size()));
}

po::variables_map read(Reader& reader, const std::string& program, const std::vector<Word>& words) {
  const std::string advice = fmt::format("see {} --help", program);
  try {
    return reader.read(words);
  } catch (const InvalidValue& error) {
    throw_config_error(fmt::format("the value of --{} is not valid", without_dashes(error.get_option_name())),
                       fmt::format("expected {}", error.expectation()), advice);
  } catch (const po::error& error) {
    throw_config_error(error.what(), "the command line cannot be read", advice);
  }
}

}  // namespace

Manual manual_of(Manual about, const po::options_description& options) {
  ManualGroup group{"Options", {}, /*has_dashes=*/true};
  for (const auto& option : options.options()) group.options.push_back(manual_option(*option));
  const std::vector<std::string> topics = topics_of(about);
  if (topics.empty()) {
    group.options.push_back({"help", "", "print this text (also -h)", "", {}, false});
  } else {
    group.options.push_back({"help", fmt::format("[{}]", fmt::join(topics, "|")),
                             "print this text, or the one about that (also -h)", "", topics, false});
  }
  group.options.push_back({"version", "", "print the version", "", {}, false});
  about.groups.insert(about.groups.begin(), std::move(group));
  return about;
}

void refuse_unknown(const std::string& program, const Word& word, const std::vector<std::string>& known) {
  const std::string problem = fmt::format("{} has no option --{}", program, word.name);
  if (const std::string guess = nearest(word.name, known); !guess.empty()) {
    throw_config_error(problem, fmt::format("it knows --{}", guess), fmt::format("did you mean --{}?", guess));
  }
  throw_config_error(problem, "there is nothing like it", fmt::format("see {} --help", program));
}

std::optional<po::variables_map> read_options(const Manual& about, const po::options_description& options,
                                              const std::vector<std::string>& arguments, const OtherOptions& others) {
  Reader reader(about, options, others);
  const std::vector<Word> words = reader.split(arguments);
  const std::string question = question_in(words);
  if (question == "help") {
    const std::string topic = topic_in(words, about);
    const Manual manual = manual_of(about, options);
    log_info(topic.empty() ? help_of(manual) : help_of_topic(manual, topic));
    return std::nullopt;
  }
  if (question == "version") {
    log_info(fmt::format("{} {}", about.program, version()));
    return std::nullopt;
  }
  return read(reader, about.program, words);
}

}  // namespace sft::cli
