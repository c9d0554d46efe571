// SPDX-License-Identifier: Apache-2.0
#include "prepare_options.hpp"

#include <cstdint>

#include "sft/core/error.hpp"
#include "tool.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

config::Manual about() {
  config::Manual manual;
  manual.program = "sft-prepare";
  manual.summary = "Turns JSON-lines files into packed HDF5 shards for training";
  manual.usage = {"sft-prepare --input FILE [--input FILE ...] --output FOLDER [options]"};
  manual.paragraphs = {
      "Writes FOLDER/train-00000.h5 ... A line of an input is one record, of the shape",
      "\"weight\": W of a message, 0 to 1, multiplies the loss weight of its tokens; \"train\": false means 0. Fields "
      "that "
      "are not used are listed at the end.",
      "Each file appears whole or not at all, all of them at the end; after an error none is there. A folder that "
      "holds "
      "train-*.h5 already is refused, never overwritten. Tokenized text waits on the disk of FOLDER meanwhile, 4 bytes "
      "per token."};
  manual.shapes = {R"({"messages": [{"role": "user", "content": "..."}, ...]}   all of it is trained on)",
                   R"({"prompt": "...", "completion": "..."}                    the completion is)",
                   R"({"prompt": [MESSAGE, ...], "completion": [MESSAGE, ...]}   the completion is)",
                   R"({"text": "..."}                                           all of it is trained on)"};
  return manual;
}

po::options_description describe() {
  const auto boolean = [](bool value) {
    return po::value<bool>()->default_value(value, value ? "true" : "false")->implicit_value(true, "true");
  };
  po::options_description options;
  // clang-format off
  options.add_options()
    ("input", po::value<std::vector<std::string>>()->value_name("FILE"), "JSON-lines file, glob, or - for standard input; repeatable")
    ("output", po::value<std::string>()->value_name("FOLDER"), "where the shards go; made when missing")
    ("tokenizer", po::value<std::string>()->default_value("byte")->value_name("NAME"),
     "byte: one token a byte, vocabulary of 272 with ChatML markup; or a folder with a tokenizer.json, see "
     "docs/tokenizers.md")
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
    ("sp_size", po::value<int>()->default_value(1)->value_name("N"),
     "pad rows so that N ranks can share them: for runs with parallel.sp_size = N")
    ("num_shards", po::value<std::int64_t>()->default_value(0)->value_name("N"),
     "number of files; 0: as few as hold at most 1 GiB each before compression")
    ("shuffle_dataset", boolean(false)->value_name("BOOL"), "put documents in random order before packing")
    ("seed", po::value<std::int64_t>()->default_value(42)->value_name("N"), "of that order");
  // clang-format on
  return options;
}

data::PackingStrategy packing_strategy_of(const po::variables_map& values) {
  const auto& name = values["packing_strategy"].as<std::string>();
  for (const data::PackingStrategy strategy :
       {data::PackingStrategy::bfd, data::PackingStrategy::bfd_split, data::PackingStrategy::wrapped}) {
    if (name == data::name_of(strategy)) {
      return values["packing"].as<bool>() ? strategy : data::PackingStrategy::none;
    }
  }
  throw_config_error("unknown packing_strategy '" + name + "'", "known are bfd, bfd_split and wrapped",
                     "choose one of them, or --packing false");
}

data::PrepareOptions to_prepare_options(const po::variables_map& values) {
  const auto require = [&values](const char* name) {
    if (values.count(name) == 0) {
      throw_config_error(std::string("--") + name + " is missing", "it has no default", "see sft-prepare --help");
    }
  };
  if (values.count("model_name_or_path") != 0) {
    throw_config_error("--model_name_or_path is not supported yet",
                       "tokenizers of hub-format folders come with a later release", "use --tokenizer byte");
  }
  require("input");
  require("output");
  data::PrepareOptions options;
  options.inputs = values["input"].as<std::vector<std::string>>();
  options.output = values["output"].as<std::string>();
  options.tokenizer = values["tokenizer"].as<std::string>();
  options.max_length = values["max_length"].as<std::int64_t>();
  options.packing_strategy = packing_strategy_of(values);
  options.example.completion_only_loss = values["completion_only_loss"].as<bool>();
  options.example.assistant_only_loss = values["assistant_only_loss"].as<bool>();
  options.pad_to_multiple_of = values["pad_to_multiple_of"].as<std::int64_t>();
  options.sp_size = values["sp_size"].as<int>();
  options.num_shards = values["num_shards"].as<std::int64_t>();
  options.shuffle_dataset = values["shuffle_dataset"].as<bool>();
  const auto seed = values["seed"].as<std::int64_t>();
  if (seed < 0) {
    throw_config_error("seed = " + std::to_string(seed) + " is impossible", "it is a number from 0 on",
                       "give 0 or more, e.g. 42");
  }
  options.seed = static_cast<std::uint64_t>(seed);
  return options;
}

}  // namespace

std::optional<data::PrepareOptions> read_prepare_options(const std::vector<std::string>& arguments) {
  const std::optional<po::variables_map> values = read_options(about(), describe(), arguments);
  if (!values) return std::nullopt;
  return to_prepare_options(*values);
}

config::Manual prepare_manual() { return manual_of(about(), describe()); }

}  // namespace sft::apps
