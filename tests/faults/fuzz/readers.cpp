// SPDX-License-Identifier: Apache-2.0
#include "readers.hpp"

#include <filesystem>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/text/hub_tokenizer.hpp"
#include "support/rendered_template.hpp"

namespace sft::test {

namespace {

/// As training reads it, without verify(): what that would find must be found by then.
std::string read_packed(const std::string& folder) {
  const rows::PackedDataset dataset({folder + "/*.h5"});
  io::ContentHash hash;
  for (const std::int64_t value :
       {dataset.num_rows(), dataset.max_length(), dataset.vocab_size(), dataset.pad_token_id(), dataset.eos_token_id(),
        dataset.num_documents(), dataset.num_tokens(), dataset.num_target_tokens()}) {
    hash.add(value);
  }
  hash.add(dataset.tokenizer());
  hash.add(dataset.fingerprint());
  for (std::int64_t index = 0; index < dataset.num_rows(); ++index) {
    const rows::Row row = dataset.read_row(index);
    hash.add(std::span(row.tokens));
    hash.add(std::span(row.loss_weight));
    hash.add(std::span(row.document_lengths));
  }
  return hash.text();
}

/// In the order of checkpoint::load(): everything is checked before a number is taken.
std::string read_checkpoint(const std::string& folder) {
  checkpoint::verify(folder);
  const checkpoint::Header header = checkpoint::read_header(folder);
  io::ContentHash hash;
  for (const std::string& text : {header.config_ini, header.tokenizer, header.mesh, header.position.data_fingerprint,
                                  header.sft_version, header.date}) {
    hash.add(text);
  }
  for (const std::int64_t value : {header.position.step, header.position.rows_consumed, header.position.num_tokens,
                                   header.position.num_rows, header.position.max_length}) {
    hash.add(value);
  }
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(folder);
  for (const io::TensorInfo& tensor : source->tensors()) {
    hash.add(tensor.name);
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
    const std::int64_t num_columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    source->read(tensor.name, {.num_rows = tensor.shape[0], .num_columns = num_columns}, DType::float32, values.data());
    hash.add(std::span(std::as_const(values)));
  }
  return hash.text();
}

void add_tensors(const io::TensorSource& source, io::ContentHash& hash) {
  for (const io::TensorInfo& tensor : source.tensors()) {
    hash.add(tensor.name);
    if (tensor.shape.empty() || tensor.shape.size() > 2 || tensor.num_elements() == 0) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
    const std::int64_t num_columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    source.read(tensor.name, {.num_rows = tensor.shape[0], .num_columns = num_columns}, DType::float32, values.data());
    hash.add(std::span(std::as_const(values)));
  }
}

/// The weights of a model folder alone, of whatever family.
std::string read_weights(const std::string& folder) {
  io::ContentHash hash;
  add_tensors(*hub::open_weights(folder, /*is_head_tied=*/false), hash);
  return hash.text();
}

/// Model folder: config.json and weights. Files in this format carry no checksums: damage may give another model, never
/// anything but a model.
std::string read_hub(const std::string& folder) {
  const config::ValidConfig config = config::validate(hub::read_model_config(folder).model);
  io::ContentHash hash;
  hash.add(config::to_ini(config));
  add_tensors(*hub::open_weights(folder, config->model.tie_word_embeddings), hash);
  return hash.text();
}

/// What it was read as must be what it is read as again when it is written down.
std::string read_config(const std::string& path) {
  const config::Config config = config::parse(io::read_file(path), {}, path);
  const std::string text = config::to_ini(config);
  SFT_ENSURE(config::to_ini(config::parse(text, {}, path)) == text,
             "a configuration that was read is read again the same");
  (void)config::validate(config, 16);
  return text;
}

/// What it makes of a text with all that its rules know.
std::string read_tokenizer(const std::string& folder) {
  const std::unique_ptr<text::Tokenizer> tokenizer = text::load_tokenizer(folder);
  io::ContentHash hash;
  hash.add(tokenizer->fingerprint());
  for (const std::string text :
       {"the Cat'S they'Ll 12345 don't\n\n  x", "K\u00E4se e\u0301 \u6F22\u5B57 \U0001F642 \xFF\xC3",
        "<|im_start|>user\nhi  <|im_end|>  mark <s>"}) {
    for (const bool is_true : {false, true}) {
      const text::Encoding encoding =
          tokenizer->encode_with_offsets(text, {.add_special_tokens = is_true, .split_special_tokens = is_true});
      hash.add(std::span(encoding.ids));
      for (const text::ByteRange& range : encoding.offsets) {
        SFT_ENSURE(range.begin <= range.end && range.end <= text.size(), "offsets lie in the text");
      }
      hash.add(tokenizer->decode(encoding.ids, is_true));
    }
  }
  return hash.text();
}

/// As sft-prepare reads a folder of records, with a conversation among them.
std::string read_records(const std::string& folder) {
  prepare::PrepareOptions options;
  options.inputs = {folder + "/*.json*"};
  options.output = folder + "/packed";
  options.max_length = 256;
  options.num_threads = 1;
  (void)prepare::prepare(options, [](const char*, std::int64_t, std::int64_t) {});
  std::string content = read_packed(options.output);
  std::filesystem::remove_all(options.output);
  return content;
}

/// A chat template, and what it makes of a conversation.
std::string read_template(const std::string& path) {
  jinja::Limits limits;
  limits.max_steps = 2'000'000;
  limits.max_memory_bytes = std::size_t{64} << 20;
  return render_conversation(io::read_file(path), limits);
}

}  // namespace

Reader make_reader(const std::string& kind) {
  if (kind == "packed") return {.read = read_packed};
  if (kind == "checkpoint") return {.read = read_checkpoint};
  if (kind == "config") return {.read = read_config, .may_change = true};
  if (kind == "hub") return {.read = read_hub, .may_change = true};
  if (kind == "weights") return {.read = read_weights, .may_change = true};
  if (kind == "records") return {.read = read_records, .may_change = true};
  if (kind == "template") return {.read = read_template, .may_change = true};
  if (kind == "tokenizer") return {.read = read_tokenizer, .may_change = true};
  throw_config_error("unknown kind \"" + kind + "\"",
                     "there are packed, checkpoint, config, hub, records, template, tokenizer and weights",
                     "name one of them");
}

}  // namespace sft::test
