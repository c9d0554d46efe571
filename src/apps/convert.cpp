// SPDX-License-Identifier: Apache-2.0
// Turns a checkpoint into a model folder in hub format, or such a folder into a checkpoint. One process, any size.
//
//   ./sft-convert output/chat models/chat --dtype bfloat16
//   ./sft-convert models/chat start
//
// Exit status: 0 done; 2 command line; 3 a folder that cannot be read or written.

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "convert_options.hpp"
#include "model_folder.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/architecture.hpp"
#include "start_model.hpp"

namespace {

using namespace sft;

constexpr std::int64_t part_elements = 1 << 18;  ///< of a tensor that are in memory at a time

/// Copies a tensor from the source to the sink.
void copy_tensor(const io::TensorSource& source, const io::TensorInfo& tensor, io::TensorSink& sink) {
  const std::int64_t width = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  const std::int64_t num_rows = std::max<std::int64_t>(part_elements / std::max<std::int64_t>(width, 1), 1);
  std::vector<float> values;
  for (std::int64_t row = 0; row < tensor.shape[0]; row += num_rows) {
    const io::Rectangle part{
        .row_begin = row, .num_rows = std::min(num_rows, tensor.shape[0] - row), .num_columns = width};
    values.resize(static_cast<std::size_t>(part.num_elements()));
    source.read(tensor.name, part, DType::float32, values.data());
    sink.write(tensor.name, part, DType::float32, values.data());
  }
}

void checkpoint_to_hub(const std::string& folder, const apps::ConvertOptions& options) {
  // 1. What there is
  checkpoint::verify(folder);
  const checkpoint::Header header = checkpoint::read_header(folder);
  const config::Model model = config::parse(header.config_ini, {}, folder).model;
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
  std::vector<io::TensorInfo> tensors = source->tensors();
  std::erase_if(tensors, [](const io::TensorInfo& tensor) { return io::entry_of(tensor.name) != "model"; });

  // 2. The folder: everything but the weights, then these
  const hub::WeightsPlan plan(tensors, options.dtype, options.max_shard_bytes);
  const std::string temporary = hub::begin_folder(options.to, /*replaces=*/false);
  apps::write_companions(temporary, model, options.dtype, header.position.max_length);
  apps::write_weight_files(plan, temporary);
  hub::WeightsSink sink(plan, temporary);
  for (const io::TensorInfo& tensor : tensors) copy_tensor(*source, tensor, sink);
  sink.finish();
  hub::finish_folder(options.to);
  log_info("wrote " + options.to + ": " + std::to_string(tensors.size()) + " tensors, " + hub::name_of(options.dtype) +
           ", in " + std::to_string(plan.files().size()) + (plan.files().size() == 1 ? " file" : " files"));
}

void hub_to_checkpoint(const std::string& folder, const apps::ConvertOptions& options) {
  if (options.has_output_options) {
    throw_config_error("--dtype and --max_shard_size do not go with the model folder " + options.from,
                       "a checkpoint holds float32 in one shard file", "leave them out");
  }
  std::error_code ignored;
  if (std::filesystem::exists(options.to, ignored)) {
    throw_data_error("cannot write to " + options.to, "it is there already", "give a folder that is new");
  }
  // 1. The model that config.json describes, and whether the weights are its weights
  std::vector<std::string> warnings;
  config::Config config =
      apps::parse_with_model("", {"--model.model_name_or_path=" + options.from}, "the command line", warnings);
  for (const std::string& warning : warnings) log_warning(warning);
  config::Config sound = config;  // only to be checked: there is no data
  sound.data.train_files = {"none"};
  config::validate(sound, 1);
  const bool is_tied = config.model.tie_word_embeddings;
  const std::unique_ptr<io::TensorSource> source = hub::open_weights(folder, is_tied);
  const parallel::ShardMap shard_map(model::make_architecture(config.model).units, mesh::Place());
  const Tensor nowhere(nullptr, DType::float32, {shard_map.rank_shard_elements()});
  checkpoint::check_entries(*source, {{"model", &shard_map, nowhere}}, apps::mismatched_folder);
  if (is_tied) hub::check_tied_head(folder);

  // 2. The checkpoint
  checkpoint::import_weights(options.to, config, *source);
  log_info("wrote " + options.to + ": " + std::to_string(source->tensors().size()) + " tensors");
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::ConvertOptions> options = apps::read_convert_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  config::Model named;
  named.model_name_or_path = options->from;
  const apps::StartModel start = apps::find_start_model(named);
  if (start.kind == apps::StartModel::Kind::hub) {
    hub_to_checkpoint(start.folder, *options);
  } else {
    checkpoint_to_hub(start.folder, *options);
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sft::io::raise_open_file_limit();
  return sft::run_alone([&] { return sft::status_with_output(run(arguments)); });
}
