// SPDX-License-Identifier: Apache-2.0
#include "start_model.hpp"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <memory>
#include <optional>
#include <string_view>

#include "model_folder.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/model/modules.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

/// Keys of [model] that are about the run, not about the model.
constexpr std::array<std::string_view, 6> keys_of_run{"model_name_or_path", "model_revision",       "init_seed",
                                                      "initializer_range",  "router_aux_loss_coef", "pad_token_id"};

/// The [model] section of what stands in the folder; names and seeds of the run keep their defaults.
config::Model read_model(const StartModel& start, std::vector<std::string>& warnings) {
  if (start.kind == StartModel::Kind::hub) {
    hub::ModelConfig read = hub::read_model_config(start.folder);
    warnings.insert(warnings.end(), read.warnings.begin(), read.warnings.end());
    return read.model;
  }
  const checkpoint::Header header = checkpoint::read_header(start.folder);
  config::Model model = config::parse(header.config_ini, {}, start.folder).model;
  model.model_name_or_path = "";
  model.model_revision = config::Model{}.model_revision;
  return model;
}

/// Refuses keys that contradict the model.
void require_agreement(const config::Config& with_model, const config::Config& given, const std::string& folder) {
  for (const config::Difference& difference : config::differences(with_model, given)) {
    if (difference.section != "model" || std::ranges::find(keys_of_run, difference.name) != keys_of_run.end()) continue;
    // 0 stands for the number that follows from others.
    const bool follows = difference.name == "head_dim" || difference.name == "num_key_value_heads";
    if (follows && difference.now == "0") continue;
    throw_config_error(
        fmt::format("`model.{} = {}` does not fit the model in {}", difference.name, difference.now, folder),
        fmt::format("it has {} = {}", difference.name, difference.before.empty() ? "none" : difference.before),
        "leave the key out");
  }
}

/// Beside load_in_4bit a model that is in 4 bits keeps what it holds as numbers: sets llm_int8_skip_modules.
void keep_unquantized(const StartModel& start, config::Config& config, std::vector<std::string>& warnings) {
  config::Lora& lora = config.lora;
  if (!lora.load_in_4bit || start.kind != StartModel::Kind::hub) return;
  std::vector<std::vector<std::string>> groups;
  for (const auto& group : model::linear_modules(config::validate(config.model)->model)) {
    std::ranges::transform(group, std::back_inserter(groups.emplace_back()), &model::LinearMember::module);
  }
  const std::optional<std::vector<std::string>> numbers =
      hub::unquantized_modules(start.folder, config.model.tie_word_embeddings, groups);
  if (!numbers) return;
  if (lora.llm_int8_skip_modules.empty()) {
    lora.llm_int8_skip_modules = *numbers;
  } else {
    for (const std::vector<std::string>& group : groups) {
      for (const std::string& module : group) {
        const bool is_number = std::ranges::find(*numbers, module) != numbers->end();
        if (lora.skips_four_bits(module) == is_number) continue;
        throw_config_error(fmt::format("`lora.llm_int8_skip_modules` does not fit the model in {}", start.folder),
                           fmt::format("it holds {} {}", module, is_number ? "as numbers" : "in 4 bits"),
                           "leave the key out");
      }
    }
  }
  if (numbers->empty()) return;
  constexpr std::ptrdiff_t most_shown = 4;
  const std::ptrdiff_t num_shown = std::min(most_shown, std::ssize(*numbers));
  warnings.push_back(fmt::format(
      "{} matrices of {} stay numbers beside lora.load_in_4bit, because it holds them so, or one that is one product "
      "with them: {}{}",
      numbers->size(), start.folder, fmt::join(numbers->begin(), numbers->begin() + num_shown, ", "),
      num_shown < std::ssize(*numbers) ? " ..." : ""));
}

/// Runs `check` on rank 0 alone; its error becomes every rank's and names no rank.
template <class Check>
void check_on_rank_0(const comm::Group& world, const Check& check) {
  world.agree([&] {
    if (world.rank() != 0) return;
    try {
      check();
    } catch (const Error& error) {
      throw comm::SharedError(error.status(), error.what());
    }
  });
}

}  // namespace

std::string dtype_of_model(const StartModel& start, std::vector<std::string>& warnings) {
  if (start.kind == StartModel::Kind::checkpoint) return "float32";
  std::string dtype = hub::dtype_of_weights(start.folder);
  if (dtype != "float32" && dtype != "bfloat16") {
    throw_config_error(fmt::format("`dtype = auto` is {} for {}", dtype, start.folder),
                       "weights are trained in float32, or in bf16 alone with train.precision = pure_bf16",
                       "write dtype = float32, or bfloat16");
  }
  warnings.push_back(fmt::format("dtype = auto is {}, as in {}{}", dtype, start.folder,
                                 dtype == "float32" ? ""
                                                    : ": trained alone, bf16 weights lose small steps, so that TRL's "
                                                      "default is float32"));
  return dtype;
}

std::string checkpoint_at(const std::string& path) {
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) {
    throw_data_error(fmt::format("cannot find the checkpoint {}", path), "there is no such folder", "check the path");
  }
  io::require_kind(path, io::Expected::checkpoint);
  if (std::filesystem::exists(std::filesystem::path(path) / "checkpoint.h5", ignored)) return path;
  std::string chosen = checkpoint::saved_last(path);
  if (chosen.empty()) return path;
  if (log_rank() == 0) std::fprintf(stderr, "using %s, saved last\n", printable(chosen, /*keep_layout=*/false).c_str());
  return chosen;
}

StartModel find_start_model(const config::Model& model) {
  const std::string folder = hub::find_model_folder(model.model_name_or_path, model.model_revision);
  if (hub::is_model_folder(folder)) return {StartModel::Kind::hub, folder};
  std::error_code ignored;
  if (!fs::exists(fs::path(folder) / "checkpoint.h5", ignored) && checkpoint::list(folder).empty()) {
    throw_data_error(fmt::format("cannot start from {}", folder),
                     "it holds neither config.json with weights nor a checkpoint",
                     "give a model folder, a checkpoint, or the output folder of a run that has saved one");
  }
  return {StartModel::Kind::checkpoint, checkpoint_at(folder)};
}

config::Config parse_with_model(const std::string& ini_text, const std::vector<config::Option>& options,
                                const std::string& source, std::vector<std::string>& warnings) {
  config::Config given = config::parse(ini_text, options, source);
  if (given.model.model_name_or_path.empty()) return given;
  const StartModel start = find_start_model(given.model);
  std::vector<config::Option> overrides = options;
  if (config::is_dtype_of_model(ini_text, options, source)) {
    overrides.push_back({"dtype", dtype_of_model(start, warnings)});
  }
  config::Config base;
  base.model = read_model(start, warnings);
  config::Config config = config::parse(ini_text, overrides, source, base);
  require_agreement(base, config, start.folder);
  if (config.model.head_dim == 0) config.model.head_dim = base.model.head_dim;
  if (config.model.num_key_value_heads == 0) config.model.num_key_value_heads = base.model.num_key_value_heads;
  keep_unquantized(start, config, warnings);
  if (start.kind == StartModel::Kind::checkpoint) config.model.model_name_or_path = start.folder;
  std::error_code ignored;
  if (fs::is_directory(config.model.model_name_or_path, ignored)) {
    config.model.model_name_or_path = fs::absolute(config.model.model_name_or_path).lexically_normal().string();
  }
  return config;
}

void load_start_weights(const StartModel& start, const config::Model& model, const comm::Group& world,
                        const checkpoint::State& weights, device::Device& device, device::Stream& stream,
                        checkpoint::LoadedWeights& seen) {
  if (start.kind == StartModel::Kind::checkpoint) {
    checkpoint::load_weights(start.folder, world, weights, device, stream, seen);
    return;
  }
  check_on_rank_0(world, [&] {
    const std::unique_ptr<io::TensorSource> source = hub::open_weights(start.folder, model.tie_word_embeddings);
    checkpoint::check_entries(*source, weights.entries(), mismatched_folder);
    if (model.tie_word_embeddings) hub::check_tied_head(start.folder);
  });
  std::unique_ptr<io::TensorSource> source;
  world.agree([&] { source = hub::open_weights(start.folder, model.tie_word_embeddings); });
  checkpoint::load_shared(*source, world, weights, device, stream, seen);
  seen.check_zeros(start.folder, weights, world);
}

std::string find_origin(const config::Model& model) {
  config::Model current = model;
  constexpr int max_generations = 64;
  for (int generation = 0; generation < max_generations && !current.model_name_or_path.empty(); ++generation) {
    try {
      const StartModel start = find_start_model(current);
      if (start.kind == StartModel::Kind::hub) return start.folder;
      current = config::parse(checkpoint::read_header(start.folder).config_ini, {}, start.folder).model;
    } catch (const Error&) {
      return "";
    }
  }
  return "";
}

}  // namespace sft::apps
