// SPDX-License-Identifier: Apache-2.0
#include "prepare_options.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <ctime>
#include <filesystem>
#include <stdexcept>

#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/config/options.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_prepare() {
  cli::Manual manual;
  manual.program = "sft-prepare";
  manual.summary = "Turns files of records into packed HDF5 shards for training";
  manual.usage = {"sft-prepare --input FILE [--input FILE ...] --output FOLDER [options]"};
  manual.paragraphs = {
      "Writes FOLDER/train-00000.h5 ... A line of an input, or an element of a JSON array, is one record, of the shape",
      "Rows, their order and what is trained on are those of TRL's SFTTrainer with the same options; only --packing is "
      "on unless you turn it off. \"weight\": W of a message, 0 to 1, multiplies the loss weight of its tokens; "
      "\"train\": false means 0. Fields that are not used are listed at the end.",
      "Each file appears whole or not at all, all of them at the end; after an error none is there. A folder that "
      "holds train-*.h5 or eval-*.h5 already is refused, never overwritten. Tokenized text waits on the disk of FOLDER "
      "meanwhile, 4 bytes per token."};
  manual.shapes = {R"({"messages": [{"role": "user", "content": "..."}, ...]}   all of it is trained on)",
                   R"({"prompt": "...", "completion": "..."}                    the completion is)",
                   R"({"prompt": [MESSAGE, ...], "completion": [MESSAGE, ...]}   the completion is)",
                   R"({"text": "..."}                                           all of it is trained on)",
                   R"({"conversations": [{"from": "human", "value": "..."}, ...]}  as messages)",
                   R"({"instruction": "...", "input": "...", "output": "..."}   the output is)",
                   R"({"input_ids": [...], "labels": [...]}                     what labels say)"};
  return manual;
}

po::typed_value<bool>* truth_by_default(bool value) {
  return cli::truth()->default_value(value, value ? "true" : "false");
}

po::typed_value<std::string>* text(const char* name) { return po::value<std::string>()->value_name(name); }

po::typed_value<std::int64_t>* number_by_default(std::int64_t value) {
  return cli::number<std::int64_t>()->default_value(value);
}

void describe_input(po::options_description& options) {
  // clang-format off
  options.add_options()
    ("input", cli::path<std::vector<std::string>>("FILE"),
     "JSON lines or a JSON array, plain, gzip or Zstandard; a file, folder, glob, or - for standard input; repeatable")
    ("split", text("NAME"), "of folders, which are sorted into splits as by sft-launch; train by default")
    ("dataset_config", text("NAME"), "of folders whose card (README.md) has several configs")
    ("input_weight", cli::number<std::vector<double>>(nullptr, "W"),
     "share of records that an --input gives, one for each: its first records are taken until one input is used up")
    ("input_slice", po::value<std::vector<std::string>>()->value_name("A:B"),
     "records of an --input that are taken, one for each, as datasets writes slices: :1000, :20%, 10%:, -500:")
    ("output", cli::path("FOLDER"), "where the shards go; made when missing")
    ("model_name_or_path", cli::path("FOLDER"), "take the tokenizer and the chat template of this model folder, or of a name in the hub cache (org/name)")
    ("model_revision", po::value<std::string>()->default_value("main")->value_name("NAME"),
     "branch, tag or commit of a name in the cache")
    ("tokenizer", cli::path("FOLDER"), "byte, the default: one token a byte, vocabulary of 272 with ChatML markup; or a folder with a tokenizer.json")
    ("chat_template_path", cli::path("FILE"), "write conversations with this Jinja template")
    ("chat_template", text("TEXT"), "such a template itself, as recipes in YAML have it")
    ("template_date", text("YYYY-MM-DD"), "what templates that print the date take for today")
    ("eos_token", text("TOKEN"), "token that ends a text instead of the tokenizer's own")
    ("pad_token", text("TOKEN"), "token that fills rows; never trained on, whichever it is")
    ("prompt_template", text("TEMPLATE"),
     "a Jinja template, or a file of one, that makes the prompt from the fields of records whose completion is output, as \"Q: {{ question }} A:\"")
    ("dataset_text_field", po::value<std::string>()->default_value("text")->value_name("NAME"), "key of plain text")
    ("rename", po::value<std::vector<std::string>>()->value_name("FIELD=NAME"),
     "read a field of the records under another name, such as question=prompt; repeatable, or separated by commas")
    ("columns", po::value<std::vector<std::string>>()->value_name("NAMES"),
     "fields of records that are read, by their own names, separated by commas; others are left out")
    ("ignore_fields", po::value<std::vector<std::string>>()->value_name("NAMES"),
     "fields of records and messages to leave out, separated by commas, such as reasoning_content where the template does not show it")
    ("on_error", po::value<std::string>()->default_value("stop")->value_name("NAME"),
     "stop at a bad record, or skip it and list it at the end")
    ("num_threads", cli::number<int>()->default_value(0), "threads that make tokens; 0: one for each core; the result is always the same");
  // clang-format on
}

void describe_rows(po::options_description& options) {
  // clang-format off
  options.add_options()
    ("max_length", po::value<std::string>()->default_value("1024")->value_name("N"),
     "tokens of documents in a row, at most; none (with --packing false): as long as the longest document")
    ("truncation_mode", po::value<std::string>()->default_value("keep_start")->value_name("NAME"),
     "without packing, which part of a document that is too long stays: keep_start or keep_end")
    ("packing", truth_by_default(true),
     "put several documents into a row; false, as TRL's default is: every document is a row of its own, padded")
    ("packing_strategy", po::value<std::string>()->default_value("bfd")->value_name("NAME"),
     "bfd: best fit decreasing, longer documents are cut at max_length; bfd_split: their rest becomes documents of its "
     "own; wrapped: one stream, cut every max_length tokens, a row counts as one document; balanced: bfd with rows of "
     "about equal attention work")
    ("packing_scope", po::value<std::string>()->default_value("block")->value_name("NAME"),
     "block: 1000 documents are packed together, as TRL does it; all: the whole data set, which fills rows better")
    ("dataset_num_proc", number_by_default(1),
     "pack as TRL does with so many processes: each packs a part of its own")
    ("completion_only_loss", cli::truth(),
     "train on the completion alone; unset: of records with a prompt and a completion")
    ("assistant_only_loss", truth_by_default(false),
     "of conversations, train on the assistant's turns alone, each up to and including its end-of-turn token")
    ("end_of_turn", text("TOKENS"),
     "with it, a turn is what its message says and the one of these tokens behind it, as Axolotl has it; eos: the "
     "tokenizer's; unset: all that the template writes of the turn, as TRL has it")
    ("pad_to_multiple_of", po::value<std::string>()->default_value("1")->value_name("N"),
     "pad rows to the next multiple of N at or above max_length; auto or none: 1")
    ("num_shards", number_by_default(0), "number of files; 0: as few as hold at most 1 GiB each before compression")
    ("shuffle_dataset", truth_by_default(false), "put documents in random order before packing, and rows after it")
    ("seed", number_by_default(42), "of that order, and of --eval_split")
    ("eval_split", cli::number<double>()->default_value(0.0, "0"),
     "hold documents back for data.eval_files, in FOLDER/eval-*.h5: a share below 1, or how many")
    ("preview", number_by_default(0), "print N rows: what is trained on in colour or brackets, documents apart")
    ("stats", truth_by_default(false), "print how long the documents are and what is odd about the records")
    ("json", truth_by_default(false), "print the summary for programs");
  // clang-format on
}

po::options_description describe() {
  po::options_description options;
  describe_input(options);
  describe_rows(options);
  return options;
}

[[noreturn]] void refuse_value(const std::string& option, const std::string& value, const std::string& known) {
  throw_config_error(fmt::format("unknown {} '{}'", option, value), fmt::format("known are {}", known),
                     "choose one of them");
}

prepare::PackingStrategy packing_strategy_of(const po::variables_map& values) {
  const auto& name = values["packing_strategy"].as<std::string>();
  using prepare::PackingStrategy;
  std::optional<PackingStrategy> chosen;
  for (const PackingStrategy strategy :
       {PackingStrategy::bfd, PackingStrategy::bfd_split, PackingStrategy::wrapped, PackingStrategy::balanced}) {
    if (name == prepare::name_of(strategy)) chosen = strategy;
  }
  if (name == "bfd-requeue") chosen = PackingStrategy::bfd_split;  // its older name in TRL
  if (!chosen) {
    throw_config_error(fmt::format("unknown packing_strategy '{}'", name),
                       "known are bfd, bfd_split, wrapped and balanced", "choose one of them, or --packing false");
  }
  return values["packing"].as<bool>() ? *chosen : PackingStrategy::none;
}

std::int64_t max_length_of(const std::string& value) {
  if (value == "none" || value == "None") return prepare::PrepareOptions::no_max_length;
  std::int64_t length = 0;
  try {
    config::read(value, length);
  } catch (const std::invalid_argument&) {
    length = 0;
  }
  if (length <= 0) {
    throw_config_error(fmt::format("max_length = {} is impossible", value), "it is a number of tokens, or none",
                       "give 2 or more, e.g. 1024");
  }
  return length;
}

/// The number that row lengths are padded to a multiple of. TRL's default, auto, pads on Trainium alone.
std::int64_t multiple_of(const std::string& value) {
  if (value == "auto" || config::is_none(value)) return 1;
  std::int64_t multiple = 0;
  try {
    config::read(value, multiple);
  } catch (const std::invalid_argument&) {
    multiple = 0;
  }
  if (multiple < 1) {
    throw_config_error(fmt::format("pad_to_multiple_of = {} is impossible", value),
                       "it is a whole number from 1, auto or none", "give e.g. 64, or leave it out");
  }
  return multiple;
}

std::chrono::system_clock::time_point date_of(const std::string& text) {
  std::tm date{};
  const char* end = ::strptime(text.c_str(), "%Y-%m-%d", &date);
  if (end == nullptr || *end != '\0') {
    throw_config_error(fmt::format("template_date = {} is impossible", text), "it is a date",
                       "give YYYY-MM-DD, e.g. 2025-01-31");
  }
  date.tm_hour = 12;
  date.tm_isdst = -1;
  return std::chrono::system_clock::from_time_t(std::mktime(&date));
}

prepare::TextOptions text_options_of(const po::variables_map& values) {
  const auto take = [&values](const char* name, std::string& member) {
    if (values.count(name) != 0) member = values[name].as<std::string>();
  };
  prepare::TextOptions text;
  if (values.count("model_name_or_path") != 0 && values.count("tokenizer") != 0) {
    throw_config_error("--model_name_or_path and --tokenizer are given", "each names a tokenizer", "leave one out");
  }
  take("tokenizer", text.tokenizer);
  take("chat_template_path", text.chat_template_path);
  take("chat_template", text.chat_template);
  if (!text.chat_template.empty() && !text.chat_template_path.empty()) {
    throw_config_error("--chat_template and --chat_template_path are given", "each is the template", "leave one out");
  }
  if (!text.chat_template.empty() && text.chat_template.find('{') == std::string::npos) {
    throw_config_error(fmt::format("--chat_template {} is no template", text.chat_template),
                       "a template of Jinja prints messages in braces",
                       "give --chat_template_path FILE, or the text of a template");
  }
  take("eos_token", text.eos_token);
  take("pad_token", text.pad_token);
  if (values.count("template_date") != 0) text.template_date = date_of(values["template_date"].as<std::string>());
  return text;
}

/// The names of all lists that the option gives.
std::vector<std::string> names_in(const char* option, const po::variables_map& values) {
  std::vector<std::string> fields;
  if (values.count(option) == 0) return fields;
  for (const std::string& list : values[option].as<std::vector<std::string>>()) {
    std::vector<std::string> names;
    config::read(list, names);
    fields.insert(fields.end(), names.begin(), names.end());
  }
  return fields;
}

/// The names of all --ignore_fields. Messages without a role or a content are none.
std::vector<std::string> ignored_fields_of(const po::variables_map& values) {
  std::vector<std::string> fields = names_in("ignore_fields", values);
  for (const char* needed : {"role", "content", "from", "value"}) {
    if (std::ranges::find(fields, needed) == fields.end()) continue;
    throw_config_error(fmt::format("ignore_fields names {}", needed), "a message is nothing without it",
                       "name fields that can be missed");
  }
  return fields;
}

/// The template itself, which the option gives or names a file of.
std::string prompt_template_of(const std::string& value) {
  const bool is_template = value.find("{{") != std::string::npos || value.find("{%") != std::string::npos;
  if (!is_template && !std::filesystem::is_regular_file(value)) {
    throw_config_error(fmt::format("cannot read the prompt template '{}'", value),
                       "it has neither {{ }} nor {% %}, and no file has that name",
                       "give a template, as \"Q: {{ question }} A:\", or a file of one");
  }
  std::string source = is_template ? value : io::read_file(value);
  if (source.empty()) {
    throw_config_error(fmt::format("the prompt template '{}' is empty", value), "a prompt is made of what it writes",
                       "write one, as \"Q: {{ question }} A:\"");
  }
  return source;
}

std::vector<prepare::InputSlice> input_slices_of(const std::vector<std::string>& texts) {
  std::vector<prepare::InputSlice> slices;
  for (const std::string& text : texts) {
    const std::optional<prepare::InputSlice> slice = prepare::parse_input_slice(text);
    if (!slice) {
      throw_config_error(fmt::format("input_slice = {} cannot be read", text), "it is A:B, numbers or percentages",
                         "write :1000, :20% or 10%:20%");
    }
    slices.push_back(*slice);
  }
  return slices;
}

/// Of all --rename: the name of a field, and the one that it is read under.
std::vector<std::pair<std::string, std::string>> renamed_fields_of(const po::variables_map& values) {
  std::vector<std::pair<std::string, std::string>> renamed;
  if (values.count("rename") == 0) return renamed;
  for (const std::string& list : values["rename"].as<std::vector<std::string>>()) {
    std::vector<std::string> items;
    config::read(list, items);
    for (const std::string& item : items) {
      const std::size_t equals = item.find('=');
      if (equals == std::string::npos || equals == 0 || equals + 1 == item.size()) {
        throw_config_error(fmt::format("--rename {} cannot be read", item), "it is FIELD=NAME",
                           "write --rename question=prompt");
      }
      renamed.emplace_back(item.substr(0, equals), item.substr(equals + 1));
    }
  }
  return renamed;
}

void require_choice(const po::variables_map& values, const char* name, const std::array<const char*, 2>& known) {
  const auto& value = values[name].as<std::string>();
  if (value != known[0] && value != known[1]) refuse_value(name, value, fmt::format("{} and {}", known[0], known[1]));
}

prepare::PrepareOptions to_prepare_options(const po::variables_map& values) {
  for (const char* name : {"input", "output"}) {
    if (values.count(name) == 0) {
      throw_config_error(fmt::format("--{} is missing", name), "it has no default", "see sft-prepare --help");
    }
  }
  require_choice(values, "on_error", {"stop", "skip"});
  require_choice(values, "truncation_mode", {"keep_start", "keep_end"});
  require_choice(values, "packing_scope", {"block", "all"});
  prepare::PrepareOptions options;
  if (values.count("input_weight") != 0) options.input_weights = values["input_weight"].as<std::vector<double>>();
  if (values.count("input_slice") != 0) {
    options.input_slices = input_slices_of(values["input_slice"].as<std::vector<std::string>>());
  }
  options.output = values["output"].as<std::string>();
  options.text = text_options_of(values);
  options.max_length = max_length_of(values["max_length"].as<std::string>());
  options.keep_end = values["truncation_mode"].as<std::string>() == "keep_end";
  options.packing_strategy = packing_strategy_of(values);
  if (values["packing_scope"].as<std::string>() == "all") {
    options.packing_blocks.block_size = prepare::PackingBlocks::whole;
  }
  options.packing_blocks.num_shards = values["dataset_num_proc"].as<std::int64_t>();
  if (values.count("completion_only_loss") != 0) {
    options.example.completion_only_loss = values["completion_only_loss"].as<bool>();
  }
  options.example.assistant_only_loss = values["assistant_only_loss"].as<bool>();
  if (values.count("end_of_turn") != 0)
    config::read(values["end_of_turn"].as<std::string>(), options.example.end_of_turn);
  if (values.count("prompt_template") != 0) {
    options.example.prompt_template = prompt_template_of(values["prompt_template"].as<std::string>());
  }
  options.example.rename_fields = renamed_fields_of(values);
  options.example.columns = names_in("columns", values);
  options.example.ignore_fields = ignored_fields_of(values);
  options.example.dataset_text_field = values["dataset_text_field"].as<std::string>();
  options.pad_to_multiple_of = multiple_of(values["pad_to_multiple_of"].as<std::string>());
  options.num_shards = values["num_shards"].as<std::int64_t>();
  options.shuffle_dataset = values["shuffle_dataset"].as<bool>();
  options.eval_split = values["eval_split"].as<double>();
  options.skip_bad_records = values["on_error"].as<std::string>() == "skip";
  options.num_threads = values["num_threads"].as<int>();
  const auto seed = values["seed"].as<std::int64_t>();
  if (seed < 0) {
    throw_config_error(fmt::format("seed = {} is impossible", seed), "it is a number from 0 on",
                       "give 0 or more, e.g. 42");
  }
  options.seed = static_cast<std::uint64_t>(seed);
  return options;
}

/// What a name of TRL, transformers or Accelerate means here.
std::optional<cli::Word> meaning_of(const cli::Word& word, const std::vector<std::string>& known) {
  const std::optional<config::Option> meant = config::meaning_to_prepare({word.name, word.value}, known);
  if (!meant) return std::nullopt;
  if (std::ranges::find(known, meant->name) == known.end()) cli::refuse_unknown("sft-prepare", word, known);
  return cli::Word{meant->name, meant->value};
}

}  // namespace

std::optional<PrepareCommand> read_prepare_options(const std::vector<std::string>& arguments) {
  const cli::OtherOptions foreign_names{.takes = {}, .meaning = meaning_of};
  const std::optional<po::variables_map> values = read_options(about_prepare(), describe(), arguments, foreign_names);
  if (!values) return std::nullopt;
  PrepareCommand command;
  command.options = to_prepare_options(*values);
  command.records.inputs = (*values)["input"].as<std::vector<std::string>>();
  command.options.source = fmt::format("{}", fmt::join(command.records.inputs, ", "));
  if (values->count("split") != 0) command.records.split = (*values)["split"].as<std::string>();
  if (values->count("dataset_config") != 0) command.records.config = (*values)["dataset_config"].as<std::string>();
  if (values->count("model_name_or_path") != 0) command.model = (*values)["model_name_or_path"].as<std::string>();
  command.model_revision = (*values)["model_revision"].as<std::string>();
  command.num_preview_rows = (*values)["preview"].as<std::int64_t>();
  command.shows_statistics = (*values)["stats"].as<bool>();
  command.is_json = (*values)["json"].as<bool>();
  return command;
}

cli::Manual prepare_manual() { return cli::manual_of(about_prepare(), describe()); }

}  // namespace sft::apps
