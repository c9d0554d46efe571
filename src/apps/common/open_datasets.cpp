// SPDX-License-Identifier: Apache-2.0
#include "open_datasets.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/rows/planned_rows.hpp"
#include "sft/text/hub_tokenizer.hpp"
#include "start_model.hpp"

namespace sft::apps {

namespace {

/// Refuses a file that is trained on and evaluated on, and warns of two files with the same rows. Rows that two files
/// share beside others are not looked for.
void check_apart(const rows::PackedDataset& train, const rows::PackedDataset& eval) {
  const std::vector<std::string> train_texts = train.fingerprints(), eval_texts = eval.fingerprints();
  std::map<std::string, std::string> file_with;  // by fingerprint
  for (std::size_t i = 0; i < train_texts.size(); ++i) file_with.emplace(train_texts[i], train.files()[i]);
  for (std::size_t i = 0; i < eval_texts.size(); ++i) {
    const auto found = file_with.find(eval_texts[i]);
    if (found == file_with.end()) continue;
    const std::string& eval_file = eval.files()[i];
    std::error_code ignored;
    for (const std::string& train_file : train.files()) {
      if (!std::filesystem::equivalent(train_file, eval_file, ignored)) continue;
      throw_config_error(
          fmt::format("{} is in data.train_files and in data.eval_files", eval_file),
          "a loss on rows that are trained on says nothing about others",
          "hold rows back with sft-prepare --eval_split; to know the loss on these, give a copy of the file");
    }
    log_warning(
        fmt::format("{} of data.eval_files holds the rows of {}, which is trained on (their hashes are the same): its "
                    "loss says nothing about other rows",
                    eval_file, found->second));
  }
}

/// Opens the packed shards and refuses what cannot be trained on.
rows::PackedDataset open_data(const config::ValidConfig& config) {
  rows::PackedDataset dataset(config->data.train_files,
                              {.lengths = true, .counts = config->train.gradient_accumulation_steps > 1});
  if (dataset.num_target_tokens() == 0) {
    throw_data_error(fmt::format("{} has no token to train on", dataset.files().front()),
                     "every loss_weight in the data set is 0",
                     "prepare it again; see --completion_only_loss and --assistant_only_loss of sft-prepare");
  }
  config::validate_data(config, dataset.max_length(), dataset.vocab_size(), dataset.files().front());
  return dataset;
}

/// The same for rows to evaluate on beside the rows of `train`.
rows::PackedDataset open_eval_data(const config::ValidConfig& config, const rows::PackedDataset& train) {
  rows::PackedDataset dataset(config->data.eval_files, {.lengths = true});
  const std::string& file = dataset.files().front();
  if (dataset.num_target_tokens() == 0) {
    throw_data_error(fmt::format("{} has no token to evaluate on", file), "every loss_weight in the data set is 0",
                     "prepare it again; see --completion_only_loss and --assistant_only_loss of sft-prepare");
  }
  const bool is_same = dataset.tokenizer_fingerprint().empty() || train.tokenizer_fingerprint().empty()
                           ? dataset.tokenizer() == train.tokenizer()
                           : dataset.tokenizer_fingerprint() == train.tokenizer_fingerprint();
  if (!is_same) {
    throw_data_error(fmt::format("cannot evaluate on {}", file),
                     fmt::format("its tokenizer is '{}', that of {} '{}'", dataset.tokenizer(), train.files().front(),
                                 train.tokenizer()),
                     "prepare it with the tokenizer of the data that is trained on");
  }
  config::validate_eval_data(config, dataset.max_length(), dataset.vocab_size(), file, train.max_length());
  check_apart(train, dataset);
  return dataset;
}

/// The values of rank 0 on every rank that keeps them, a mebibyte at a time. Collective.
template <class T>
void share_column(std::vector<T>& values, const comm::Group& world, bool keeps) {
  static_assert(std::is_trivially_copyable_v<T>);
  constexpr std::size_t values_at_once = (std::size_t{1} << 20) / sizeof(T);
  std::array<std::int64_t, 1> size{std::ssize(values)};
  world.broadcast(std::span<std::int64_t>(size), 0);
  const std::size_t num_values = size[0];
  if (world.rank() != 0 && keeps) values.resize(num_values);
  for (std::size_t begin = 0; begin < num_values; begin += values_at_once) {
    const std::size_t num_bytes = std::min(values_at_once, num_values - begin) * sizeof(T);
    std::string part;
    if (world.rank() == 0) part.assign(reinterpret_cast<const char*>(values.data() + begin), num_bytes);
    world.broadcast(part, 0);
    if (world.rank() != 0 && keeps) std::memcpy(values.data() + begin, part.data(), num_bytes);
  }
}

/// Gives all ranks what rank 0 has. Collective.
void share_sp(std::optional<rank::SpChoice>& choice, const comm::Group& world) {
  std::array<std::int64_t, 2> numbers{-1, 0};
  if (choice) numbers = {static_cast<std::int64_t>(choice->method), choice->ulysses_size};
  world.broadcast(std::span<std::int64_t>(numbers), 0);
  if (numbers[0] >= 0) choice = {static_cast<config::SpMethod>(numbers[0]), checked_cast<int>(numbers[1])};
}

/// The row table that rank 0 holds, on every rank that keeps it. Collective.
void share_rows(rows::PackedDataset& dataset, const comm::Group& world, bool keeps) {
  rows::RowTable table = dataset.row_table();
  share_column(table.lengths, world, keeps);
  share_column(table.counts, world, keeps);
  dataset.hold(std::move(table));
}

}  // namespace

rank::Datasets open_datasets(const config::ValidConfig& config, const std::vector<std::string>& damaged) {
  rank::Datasets datasets{.train = open_data(config), .eval = {}};
  if (!config->data.eval_files.empty()) datasets.eval.emplace(open_eval_data(config, datasets.train));
  if (const auto header = checkpoint::header_of_resume(config, damaged)) {
    const config::Config then = config::parse(header->config_ini, {}, "the checkpoint");
    datasets.origin = rank::origin_at(config, header->position, then.effective_batch_rows());
    datasets.saved_sp = rank::saved_sp(config->parallel, then.parallel);
  }
  datasets.measured_limits = rank::measure_limits(config, datasets);
  return datasets;
}

rank::Datasets planned_datasets(const config::ValidConfig& config, std::int64_t max_length, std::int64_t num_rows) {
  config::validate_data(config, max_length, config->model.vocab_size, "the rows that are planned for");
  if (num_rows == 0) num_rows = config->effective_batch_rows();
  rank::Datasets datasets{.train = rows::planned_rows(num_rows, max_length, config->model.vocab_size), .eval = {}};
  datasets.measured_limits = rows::limits_of_full_rows(config->train.per_device_train_batch_size, max_length);
  return datasets;
}

rank::Datasets share_datasets(const config::ValidConfig& config, const mesh::Place& place, const comm::Group& world,
                              const std::vector<std::string>& damaged) {
  std::optional<rank::Datasets> datasets;
  world.agree([&] {
    if (world.rank() != 0) return io::load_hdf5();  // in time to be in the plan of the memory
    try {
      datasets.emplace(open_datasets(config, damaged));
      require_model_tokenizer(*datasets, config->model);
    } catch (const Error& error) {
      throw comm::SharedError(error.status(), error.what());  // of the data, not of a rank
    }
  });
  std::string train = datasets ? datasets->train.facts() : "";
  std::string eval = datasets && datasets->eval ? datasets->eval->facts() : "";
  rows::MicroBatchLimits limits = datasets ? *datasets->measured_limits : rows::MicroBatchLimits{};
  world.broadcast(train, 0);
  world.broadcast(eval, 0);
  std::array<std::int64_t, 3> sizes{limits.tokens, limits.document_tokens, limits.num_lengths};
  world.broadcast(std::span<std::int64_t>(sizes), 0);
  limits = {.tokens = sizes[0], .document_tokens = sizes[1], .num_lengths = sizes[2]};
  rows::StepOrigin origin = datasets ? datasets->origin : rows::StepOrigin{};
  rank::broadcast(origin, world);
  std::optional<rank::SpChoice> saved_sp;
  if (datasets) saved_sp = datasets->saved_sp;
  share_sp(saved_sp, world);
  if (!datasets) {
    datasets.emplace(rank::Datasets{.train = rows::PackedDataset::from_facts(train), .eval = {}});
    if (!eval.empty()) datasets->eval.emplace(rows::PackedDataset::from_facts(eval));
    datasets->measured_limits = limits;
    datasets->origin = origin;
    datasets->saved_sp = saved_sp;
  }
  share_rows(datasets->train, world, place.owns_rows());
  if (datasets->eval) share_rows(*datasets->eval, world, place.owns_rows());
  rank::keep_needed_rows(config, place, *datasets);
  return std::move(*datasets);
}

void require_model_tokenizer(const rank::Datasets& datasets, const config::Model& model) {
  const std::string folder = find_origin(model);
  std::error_code ignored;
  if (folder.empty() || !std::filesystem::exists(std::filesystem::path(folder) / "tokenizer.json", ignored)) return;
  std::unique_ptr<text::Tokenizer> tokenizer;
  try {
    tokenizer = text::load_tokenizer(folder);
  } catch (const Error&) {
    return;
  }
  rows::require_tokenizer(datasets.train, tokenizer->fingerprint(), folder);
  if (datasets.eval) rows::require_tokenizer(*datasets.eval, tokenizer->fingerprint(), folder);
}

}  // namespace sft::apps
