// Turns JSON-lines files into packed HDF5 shards for training. Runs alone, without mpirun.
//
//   sft-prepare --input train.jsonl --output data/train
//   sft-prepare --input 'part-*.jsonl' --output data/train --max_length 4096 --packing_strategy bfd_split
//   sft-prepare --input chats.jsonl --output data/chats --assistant_only_loss

#include <unistd.h>

#include <algorithm>
#include <boost/program_options.hpp>
#include <csignal>
#include <cstdio>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "prepare_summary.hpp"
#include "sft/config/unknown_option.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/status_line.hpp"
#include "sft/core/version.hpp"
#include "sft/data/prepare.hpp"

namespace {

namespace po = boost::program_options;
using sft::data::PackingStrategy;
using sft::data::PrepareOptions;
using sft::data::PrepareSummary;

constexpr const char* usage =
    "usage: sft-prepare --input FILE [--input FILE ...] --output FOLDER [options]\n"
    "\n"
    "Writes FOLDER/train-00000.h5 ... from JSON-lines files. A line is one record, of the shape\n"
    "  {\"messages\": [{\"role\": \"user\", \"content\": \"...\"}, ...]}   all of it is trained on\n"
    "  {\"prompt\": \"...\", \"completion\": \"...\"}                    the completion is\n"
    "  {\"prompt\": [MESSAGE, ...], \"completion\": [MESSAGE, ...]}   the completion is\n"
    "  {\"text\": \"...\"}                                           all of it is trained on\n"
    "\"weight\": W of a message, 0 to 1, multiplies the loss weight of its tokens; \"train\": false\n"
    "means 0. Fields that are not used are listed at the end.\n"
    "\n"
    "Each file appears whole or not at all, all of them at the end; after an error none is there.\n"
    "A folder that holds train-*.h5 already is refused, never overwritten. Tokenized text waits on\n"
    "the disk of FOLDER meanwhile, 4 bytes per token.\n";

po::options_description describe_options() {
  const auto boolean = [](bool value) {
    return po::value<bool>()->default_value(value, value ? "true" : "false")->implicit_value(true, "true");
  };
  po::options_description options("options", 99, 50);
  // clang-format off
  options.add_options()
    ("input", po::value<std::vector<std::string>>()->value_name("FILE"), "JSON-lines file, glob, or - for standard input; repeatable")
    ("output", po::value<std::string>()->value_name("FOLDER"), "where the shards go; made when missing")
    ("tokenizer", po::value<std::string>()->default_value("byte")->value_name("NAME"),
     "byte: one token a byte, vocabulary of 272 with ChatML markup")
    ("model_name_or_path", po::value<std::string>()->value_name("FOLDER"),
     "take the tokenizer of a hub-format folder; comes with a later release")
    ("max_length", po::value<std::int64_t>()->default_value(1024)->value_name("N"),
     "tokens of documents in a row, at most")
    ("packing", boolean(true)->value_name("BOOL"),
     "put several documents into a row; false: every document is a row of its own, padded to max_length")
    ("packing_strategy", po::value<std::string>()->default_value("bfd")->value_name("NAME"),
     "bfd: best fit decreasing, longer documents are cut at max_length; bfd_split: their rest becomes documents of its "
     "own; wrapped: one stream, cut every max_length tokens, a row counts as one document")
    ("completion_only_loss", boolean(true)->value_name("BOOL"), "of prompt/completion, train on the completion alone")
    ("assistant_only_loss", boolean(false)->value_name("BOOL"),
     "of conversations, train on the assistant's turns alone, each up to and including its end-of-turn token")
    ("pad_to_multiple_of", po::value<std::int64_t>()->default_value(1)->value_name("N"),
     "pad rows to the next multiple of N at or above max_length; sequence parallelism needs 2 * sp_size")
    ("num_shards", po::value<std::int64_t>()->default_value(0)->value_name("N"),
     "number of files; 0: as few as hold at most 1 GiB each before compression")
    ("shuffle_dataset", boolean(false)->value_name("BOOL"), "put documents in random order before packing")
    ("seed", po::value<std::int64_t>()->default_value(42)->value_name("N"), "of that order")
    ("help", "print this and end")
    ("version", "print the version and end");
  // clang-format on
  return options;
}

PackingStrategy packing_strategy_of(const po::variables_map& values) {
  const auto& name = values["packing_strategy"].as<std::string>();
  for (const PackingStrategy strategy : {PackingStrategy::bfd, PackingStrategy::bfd_split, PackingStrategy::wrapped}) {
    if (name == sft::data::name_of(strategy)) {
      return values["packing"].as<bool>() ? strategy : PackingStrategy::none;
    }
  }
  sft::throw_config_error("unknown packing_strategy '" + name + "'", "known are bfd, bfd_split and wrapped",
                          "choose one of them, or --packing false");
}

PrepareOptions to_prepare_options(const po::variables_map& values) {
  const auto require = [&values](const char* name) {
    if (values.count(name) == 0) {
      sft::throw_config_error(std::string("--") + name + " is missing", "it has no default", "see sft-prepare --help");
    }
  };
  if (values.count("model_name_or_path") != 0) {
    sft::throw_config_error("--model_name_or_path is not supported yet",
                            "tokenizers of hub-format folders come with a later release", "use --tokenizer byte");
  }
  require("input");
  require("output");
  PrepareOptions options;
  options.inputs = values["input"].as<std::vector<std::string>>();
  options.output = values["output"].as<std::string>();
  options.tokenizer = values["tokenizer"].as<std::string>();
  options.max_length = values["max_length"].as<std::int64_t>();
  options.packing_strategy = packing_strategy_of(values);
  options.example.completion_only_loss = values["completion_only_loss"].as<bool>();
  options.example.assistant_only_loss = values["assistant_only_loss"].as<bool>();
  options.pad_to_multiple_of = values["pad_to_multiple_of"].as<std::int64_t>();
  options.num_shards = values["num_shards"].as<std::int64_t>();
  options.shuffle_dataset = values["shuffle_dataset"].as<bool>();
  const auto seed = values["seed"].as<std::int64_t>();
  if (seed < 0) {
    sft::throw_config_error("seed = " + std::to_string(seed) + " is impossible", "it is a number from 0 on",
                            "give 0 or more, e.g. 42");
  }
  options.seed = static_cast<std::uint64_t>(seed);
  return options;
}

/// Nothing when help or the version was asked for and printed.
std::optional<PrepareOptions> parse_command_line(int argc, char** argv) {
  const po::options_description options = describe_options();
  po::variables_map values;
  try {
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    // No positional options: what stands alone, such as a glob that the shell expanded, is refused by name.
    const po::positional_options_description none;
    po::store(po::command_line_parser(argc, argv).options(options).positional(none).style(style).run(), values);
    po::notify(values);
  } catch (const po::unknown_option& error) {
    std::vector<std::string> known;
    for (const auto& option : options.options()) known.push_back(option->long_name());
    const std::string name = error.get_option_name();
    sft::config::refuse_unknown_option("sft-prepare", name.substr(std::min(name.find_first_not_of('-'), name.size())),
                                       known);
  } catch (const po::error& error) {
    sft::throw_config_error(error.what(), "the command line cannot be read", "see sft-prepare --help");
  }
  if (values.count("help") != 0) {
    std::ostringstream text;
    text << usage << '\n' << options;
    sft::log_info(text.str());
    return std::nullopt;
  }
  if (values.count("version") != 0) {
    sft::log_info(std::string("sft-prepare ") + sft::version());
    return std::nullopt;
  }
  return to_prepare_options(values);
}

/// One line on standard error, redrawn at every full percent; silent when that is no terminal.
class ProgressBar {
 public:
  void draw(const char* stage, std::int64_t done, std::int64_t total) {
    const auto percent = static_cast<int>(total == 0 ? 100 : done * 100 / total);
    if (percent == percent_ && stage == stage_) return;
    percent_ = percent;
    stage_ = stage;
    const std::string filled(static_cast<std::size_t>(percent * width_ / 100), '#');
    const std::string empty(static_cast<std::size_t>(width_) - filled.size(), ' ');
    line_.show(stage_ + " [" + filled + empty + "] " + std::to_string(percent) + " %");
  }

  void clear() {
    line_.clear();
    percent_ = -1;
  }

 private:
  static constexpr int width_ = 40;
  sft::StatusLine line_{stderr, isatty(STDERR_FILENO) != 0};
  int percent_ = -1;
  std::string stage_;
};

/// Thrown out of the work when a signal asks to stop, so that unfinished files go.
struct Stopped {};

volatile std::sig_atomic_t stop_signal = 0;

/// SIGINT, SIGTERM and SIGHUP set stop_signal; a second one ends the process at once.
void listen_for_stop_signals() {
  struct sigaction action {};
  action.sa_handler = [](int signal) { stop_signal = signal; };
  action.sa_flags = SA_RESETHAND | SA_RESTART;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) ::sigaction(signal, &action, nullptr);
}

PrepareSummary prepare_with_progress(const PrepareOptions& options) {
  ProgressBar bar;
  return sft::data::prepare(options, [&bar](const char* stage, std::int64_t done, std::int64_t total) {
    if (stop_signal != 0) throw Stopped();
    if (total > 0) bar.draw(stage, done, total);
  });
}

int run(int argc, char** argv) {
  const std::optional<PrepareOptions> options = parse_command_line(argc, argv);
  if (options) {
    listen_for_stop_signals();
    try {
      sft::apps::print_summary(prepare_with_progress(*options), *options);
    } catch (const Stopped&) {
      std::raise(stop_signal);  // its default action is back: the process ends as one that the signal killed
    }
  }
  return static_cast<int>(sft::ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  return sft::run_alone([&] { return run(argc, argv); });
}
