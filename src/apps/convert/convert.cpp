// SPDX-License-Identifier: Apache-2.0
// Turns a checkpoint into a model folder in hub format, or such a folder into a checkpoint. One process, any size.
//
//   ./sft-convert output/chat models/chat --dtype bfloat16
//   ./sft-convert models/chat start
//   ./sft-convert --merge models/base output/chat/adapter models/chat
//   ./sft-convert --gguf models/chat chat.gguf
//   ./sft-convert --quantize nf4 models/chat models/chat-nf4
//
// Exit status: 0 done; 2 command line; 3 a folder that cannot be read or written.

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/check_weights.hpp"
#include "apps/common/model_folder.hpp"
#include "apps/common/start_model.hpp"
#include "gguf.hpp"
#include "options.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/four_bit_folder.hpp"
#include "sft/hub/merged_weights.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/tokenizer_files.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"

namespace {

using namespace sft;
namespace fs = std::filesystem;

constexpr std::int64_t part_elements = 1 << 18;  ///< of a tensor that are in memory at a time

/// Copies a tensor from the source to the sink.
void copy_tensor(const io::TensorSource& source, const io::TensorInfo& tensor, io::TensorSink& sink) {
  const std::int64_t width = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
  const std::int64_t num_rows = std::max<std::int64_t>(part_elements / std::max<std::int64_t>(width, 1), 1);
  std::vector<float> values;
  for (std::int64_t row = 0; row < tensor.shape[0]; row += num_rows) {
    const io::Rectangle part{
        .row_begin = row, .num_rows = std::min(num_rows, tensor.shape[0] - row), .num_columns = width};
    values.resize(part.num_elements());
    source.read(tensor.name, part, DType::float32, values.data());
    checkpoint::require_finite(source.path(), tensor.name, part, values);
    sink.write(tensor.name, part, DType::float32, values.data());
  }
}

/// Writes the tensors of `source` by `plan` to a new folder; `write_rest(FOLDER)` makes its other files. What the plan
/// carries is that of the folder `origin`.
template <class WriteRest>
void write_folder(const io::TensorSource& source, const std::vector<io::TensorInfo>& tensors,
                  const hub::WeightsPlan& plan, const std::string& origin, const std::string& folder,
                  const WriteRest& write_rest) {
  hub::NewFolder out(folder, /*replaces=*/false);
  write_rest(out.temporary());
  apps::write_weight_files(plan, out.temporary());
  hub::WeightsSink sink(plan, out.temporary());
  for (const io::TensorInfo& tensor : tensors) copy_tensor(source, tensor, sink);
  sink.finish();
  hub::order_experts(plan, out.temporary());
  hub::copy_carried(plan, origin, out.temporary());
  out.finish();
  log_info(fmt::format("wrote {}: {}, {}, in {}", folder, plural(std::ssize(tensors), "tensor"),
                       hub::name_of(plan.type()), plural(std::ssize(plan.files()), "file")));
}

/// Writes the tensors of a model as `type` to a new folder with these contents.
void write_model(const io::TensorSource& source, const std::vector<io::TensorInfo>& tensors, hub::WeightType type,
                 const apps::FolderContents& contents, const apps::ConvertOptions& options) {
  const hub::WeightsPlan plan(tensors, type, options.max_shard_bytes, hub::model_stem, contents.layout);
  write_folder(source, tensors, plan, contents.origin, options.to,
               [&](const std::string& to) { apps::write_companions(to, contents); });
}

void checkpoint_to_adapter(const io::TensorSource& source, const config::Config& config, const Markup& markup,
                           const apps::ConvertOptions& options) {
  std::vector<io::TensorInfo> tensors = source.tensors();
  std::erase_if(tensors, [](const io::TensorInfo& tensor) {
    const std::string entry = io::entry_of(tensor.name);
    return entry != "adapter" && entry != std::string("adapter") + checkpoint::start_suffix;
  });
  apps::FolderContents contents = apps::plan_adapter_contents(config.model);
  contents.layout.carried.clear();
  contents.markup = markup;
  const hub::WeightsPlan plan(tensors, options.dtype, std::numeric_limits<std::uint64_t>::max(), hub::adapter_stem,
                              contents.layout, &config.lora);
  write_folder(source, tensors, plan, contents.origin, options.to,
               [&](const std::string& to) { apps::write_adapter_companions(to, contents, config, tensors); });
}

void checkpoint_to_hub(const std::string& folder, const apps::ConvertOptions& options) {
  // 1. What there is
  checkpoint::verify(folder);
  const checkpoint::Header header = checkpoint::read_header(folder);
  const config::Config config = config::parse(header.config_ini, {}, folder);
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
  if (config.lora.use_peft) return checkpoint_to_adapter(*source, config, header.position.markup, options);
  std::vector<io::TensorInfo> tensors = source->tensors();
  std::erase_if(tensors, [](const io::TensorInfo& tensor) { return io::entry_of(tensor.name) != "model"; });

  // 2. The folder
  apps::FolderContents contents = apps::plan_contents(config.model, options.dtype, header.position.max_length);
  contents.markup = header.position.markup;
  write_model(*source, tensors, options.dtype, contents, options);
}

void merge(const std::string& folder, const apps::ConvertOptions& options) {
  config::Model model = hub::read_model_config(folder).model;
  model.model_name_or_path = folder;
  const hub::AdapterConfig adapter_config = hub::read_adapter_config(options.adapter);
  const hub::FileLayout layout = hub::read_file_layout(folder);
  std::unique_ptr<io::TensorSource> adapter = hub::open_adapter_weights(options.adapter, layout);
  hub::MergedWeights merged(hub::open_weights(folder, model.tie_word_embeddings), model.tie_word_embeddings,
                            std::move(adapter), adapter_config, layout);
  if (merged.unties_head()) {
    model.tie_word_embeddings = false;
    log_info(fmt::format("head and embeddings become two matrices, as {} has trained one of them by itself",
                         options.adapter));
  }
  const std::vector<io::TensorInfo> tensors = merged.tensors();
  const bool is_bf16 = std::ranges::all_of(tensors, [](const auto& tensor) { return tensor.dtype == DType::bf16; });
  const hub::WeightType type = options.has_dtype || !is_bf16 ? options.dtype : hub::WeightType::bfloat16;
  log_info(fmt::format("adding {} matrices of {}", merged.num_adapted(), options.adapter));
  apps::FolderContents contents = apps::plan_contents(model, type, /*max_length=*/0);
  contents.adapter = options.adapter;
  write_model(merged, tensors, type, contents, options);
}

void hub_to_checkpoint(const std::string& folder, const apps::ConvertOptions& options) {
  if (options.has_output_options()) {
    throw_config_error(fmt::format("--dtype and --max_shard_size do not go with the model folder {}", options.from),
                       "a checkpoint holds float32 in one shard file", "leave them out");
  }
  std::error_code ignored;
  if (std::filesystem::exists(options.to, ignored)) {
    throw_data_error(fmt::format("cannot write to {}", options.to), "it is there already", "give a folder that is new");
  }
  // 1. The model that config.json describes, and whether the weights are its weights
  std::vector<std::string> warnings;
  config::Config config =
      apps::parse_with_model("", {{"model.model_name_or_path", options.from}}, "the command line", warnings);
  for (const std::string& warning : warnings) log_warning(warning);
  (void)config::validate(config.model);
  const bool is_tied = config.model.tie_word_embeddings;
  const std::unique_ptr<io::TensorSource> source = hub::open_weights(folder, is_tied);
  apps::check_weights(*source, config.model);
  if (is_tied) hub::check_tied_head(folder);

  // 2. The checkpoint
  checkpoint::import_weights(options.to, config, *source);
  log_info(fmt::format("wrote {}: {}", options.to, plural(std::ssize(source->tensors()), "tensor")));
}

/// A model folder of a checkpoint that is needed for a moment.
class PassingFolder {
 public:
  PassingFolder(const std::string& checkpoint, apps::ConvertOptions options) : path_(options.to + ".model.tmp") {
    if (config::parse(checkpoint::read_header(checkpoint).config_ini, {}, checkpoint).lora.use_peft) {
      throw_config_error(fmt::format("{} is the checkpoint of adapters", checkpoint),
                         "a GGUF file is made of a whole model",
                         "make an adapter folder of it, merge that, and give the merged folder");
    }
    options.to = path_;
    checkpoint_to_hub(checkpoint, options);
  }
  ~PassingFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  PassingFolder(const PassingFolder&) = delete;
  PassingFolder& operator=(const PassingFolder&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
};

/// Links to the files of a model folder, beside a tokenizer that version 4 of transformers reads, for a moment.
class ReadableFolder {
 public:
  ReadableFolder(const std::string& folder, const std::string& to) : root_(to + ".model.tmp") {
    const fs::path from = fs::canonical(folder);
    path_ = root_ / from.filename();  // the converter may name the model after its folder
    io::make_folders(path_.string());
    for (const fs::directory_entry& entry : fs::directory_iterator(from)) {
      if (entry.path().filename() == "tokenizer_config.json") {
        fs::copy_file(fs::canonical(entry.path()), path_ / entry.path().filename());
        fs::permissions(path_ / entry.path().filename(), fs::perms::owner_write, fs::perm_options::add);
      } else {
        fs::create_symlink(fs::canonical(entry.path()), path_ / entry.path().filename());
      }
    }
    hub::make_tokenizer_readable(path_.string());
  }
  ~ReadableFolder() {
    std::error_code ignored;
    fs::remove_all(root_, ignored);
  }
  ReadableFolder(const ReadableFolder&) = delete;
  ReadableFolder& operator=(const ReadableFolder&) = delete;
  [[nodiscard]] std::string path() const { return path_.string(); }

 private:
  fs::path root_, path_;
};

void to_gguf(const apps::StartModel& start, const apps::ConvertOptions& options) {
  const bool is_folder = start.kind == apps::StartModel::Kind::hub;
  if (is_folder && options.has_output_options()) {
    throw_config_error(fmt::format("--dtype and --max_shard_size do not go with the model folder {}", options.from),
                       "they say how a folder is written, and none is", "leave them out; --gguf_type is the file's");
  }
  const std::string converter = apps::find_gguf_converter(options.gguf_converter);
  if (!is_folder) {
    const PassingFolder passing(start.folder, options);
    return apps::convert_to_gguf(converter, passing.path(), options.to, options.gguf_type);
  }
  if (hub::is_tokenizer_readable(start.folder)) {
    return apps::convert_to_gguf(converter, start.folder, options.to, options.gguf_type);
  }
  const ReadableFolder readable(start.folder, options.to);
  apps::convert_to_gguf(converter, readable.path(), options.to, options.gguf_type);
}

/// The model folder that the run with this output folder began from, to which its adapter is added.
std::string base_of_run(const apps::ConvertOptions& options) {
  std::error_code ignored;
  if (!std::filesystem::exists(options.adapter, ignored)) {
    throw_data_error(
        fmt::format("{} has no adapter", options.from),
        fmt::format("there is no {}, which a finished run with lora.use_peft leaves", options.adapter),
        fmt::format("make it of the newest checkpoint with sft-convert {} {}", options.from, options.adapter));
  }
  const checkpoint::Header header = checkpoint::read_header(apps::checkpoint_at(options.from));
  const config::Config config = config::parse(header.config_ini, {}, options.from);
  std::string base = apps::find_origin(config.model);
  if (!base.empty()) return base;
  if (config.model.model_name_or_path.empty()) {
    throw_data_error(fmt::format("there is no model folder that the adapter of {} belongs to", options.from),
                     "its run began with random weights", "sft-generate takes the run as it is");
  }
  throw_data_error(fmt::format("the model of {} is not known", options.from),
                   fmt::format("it began from '{}', where there is no model folder", config.model.model_name_or_path),
                   "name it: sft-convert --merge MODEL ADAPTER OUT");
}

void quantize(const apps::StartModel& start, const FourBitForm& form, const apps::ConvertOptions& options) {
  if (start.kind != apps::StartModel::Kind::hub || options.has_output_options()) {
    throw_config_error("--quantize reads a model folder in hub format, and takes no --dtype and --max_shard_size",
                       "it writes what is not in 4 bits as it is, into one file",
                       "turn a checkpoint into a folder with sft-convert first");
  }
  hub::NewFolder out(options.to, /*replaces=*/false);
  const hub::FourBitFolder written = hub::write_four_bit_folder(start.folder, form, out.temporary());
  hub::copy_companions(start.folder, out.temporary());
  out.finish();
  log_info(fmt::format("wrote {}: {} matrices in 4 bits, {} in all", options.to, written.num_matrices,
                       format_bytes(written.size_bytes)));
}

int run(const std::vector<std::string>& arguments) {
  const std::optional<apps::ConvertOptions> options = apps::read_convert_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  config::Model named;
  named.model_name_or_path = options->takes_run ? base_of_run(*options) : options->from;
  const apps::StartModel start = apps::find_start_model(named);
  if (options->four_bits) {
    quantize(start, *options->four_bits, *options);
  } else if (options->to_gguf) {
    to_gguf(start, *options);
  } else if (!options->adapter.empty()) {
    if (start.kind != apps::StartModel::Kind::hub) {
      throw_config_error(fmt::format("--merge cannot add to the checkpoint {}", start.folder),
                         "it adds to model folders in hub format",
                         "turn the checkpoint into one with sft-convert first");
    }
    merge(start.folder, *options);
  } else if (start.kind == apps::StartModel::Kind::hub) {
    hub_to_checkpoint(start.folder, *options);
  } else {
    checkpoint_to_hub(start.folder, *options);
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sft::raise_open_file_limit();
  return sft::run_alone([&] { return sft::status_with_output(run(arguments)); });
}
