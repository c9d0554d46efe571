// SPDX-License-Identifier: Apache-2.0
// Files of model folders.
#include <algorithm>
#include <memory>

#include "readers.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/ensure.hpp"
#include "sft/hub/adapter_config.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/text/hub_tokenizer.hpp"

namespace sft::fuzz {

namespace {

void read_model_config(const std::string& bytes) {
  const hub::ModelConfig config = hub::parse_model_config(bytes, "config.json");
  config::Config whole;
  whole.model = config.model;
  whole.data.train_files = {"rows.h5"};
  (void)config::validate(whole, 1);
  (void)hub::make_config_json(config.model, hub::WeightType::bfloat16, bytes, 128);
}

void read_adapter_config(const std::string& bytes) {
  const hub::AdapterConfig config = hub::read_adapter_config(put_file("adapter", "adapter_config.json", bytes));
  (void)config.targets.contains("model.layers.0.self_attn.q_proj");
}

void read_generation_config(const std::string& bytes) {
  (void)hub::read_eos_token_ids(put_file("generation", "generation_config.json", bytes));
}

void read_safetensors(const std::string& bytes) {
  read_tensors(*hub::open_weights(put_file("weights", "model.safetensors", bytes), true));
}

void read_adapter_weights(const std::string& bytes) {
  read_tensors(*hub::open_adapter_weights(put_file("adapter_weights", "adapter_model.safetensors", bytes), {}));
}

/// model.safetensors.index.json beside two sound files, a.safetensors and b.safetensors.
void read_weights_index(const std::string& bytes) {
  for (const std::string name : {"a", "b"}) {
    const std::string header = R"({")" + name + R"(":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}})";
    std::string length(8, '\0');
    length[0] = static_cast<char>(header.size());
    put_file("index", name + ".safetensors", length + header + std::string(8, '\0'));
  }
  read_tensors(*hub::open_weights(put_file("index", "model.safetensors.index.json", bytes), false));
}

/// tokenizer.json, behind a zero byte tokenizer_config.json, behind another special_tokens_map.json.
void read_tokenizer(const std::string& bytes) {
  const std::size_t first = std::min(bytes.find('\0'), bytes.size());
  const std::size_t second = std::min(bytes.find('\0', first + 1), bytes.size());
  const auto behind = [&](std::size_t begin, std::size_t end) {
    return begin < bytes.size() ? bytes.substr(begin + 1, end - begin - 1) : "";
  };
  const std::unique_ptr<text::Tokenizer> tokenizer =
      text::make_hub_tokenizer({.name = "fuzz",
                                .tokenizer_json = bytes.substr(0, first),
                                .tokenizer_config_json = behind(first, second),
                                .special_tokens_map_json = behind(second, bytes.size())});
  for (const std::string text :
       {"the Cat'S 12345 don't\n\n  x", "K\u00E4se e\u0301 \u6F22 \xFF\xC3", "<s> mark </s>"}) {
    for (const bool is_true : {false, true}) {
      const text::Encoding encoding =
          tokenizer->encode_with_offsets(text, {.add_special_tokens = is_true, .split_special_tokens = is_true});
      for (const text::ByteRange& range : encoding.offsets) {
        SFT_ENSURE(range.begin <= range.end && range.end <= text.size(), "offsets lie in the text");
      }
      (void)tokenizer->decode(encoding.ids, is_true);
    }
  }
}

}  // namespace

std::vector<Reader> hub_readers() {
  return {{"model_config", read_model_config},
          {"adapter_config", read_adapter_config},
          {"generation_config", read_generation_config},
          {"safetensors", read_safetensors},
          {"adapter_weights", read_adapter_weights},
          {"weights_index", read_weights_index},
          {"tokenizer", read_tokenizer}};
}

}  // namespace sft::fuzz
