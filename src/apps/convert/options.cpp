// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>
#include <utility>

#include "apps/common/amounts.hpp"
#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_convert() {
  cli::Manual manual;
  manual.program = "sft-convert";
  manual.summary = "Turns checkpoints into model folders in hub format, and these into checkpoints";
  manual.usage = {"sft-convert CHECKPOINT OUT_FOLDER [--dtype float32|bfloat16|float16] [--max_shard_size 5GB]",
                  "sft-convert HUB_FOLDER OUT_CHECKPOINT",
                  "sft-convert --gguf HUB_FOLDER|CHECKPOINT OUT_FILE [--gguf_type auto|f32|f16|bf16|q8_0] "
                  "[--gguf_converter FILE]",
                  "sft-convert --quantize nf4|fp4 HUB_FOLDER OUT_FOLDER [--double_quant]",
                  "sft-convert --merge HUB_FOLDER ADAPTER_FOLDER OUT_FOLDER [...]",
                  "sft-convert --merge RUN_FOLDER OUT_FOLDER [...]"};
  manual.paragraphs = {
      "CHECKPOINT is a checkpoint of sft, or the output folder of a run: then the checkpoint saved last is used. "
      "OUT_FOLDER gets config.json, the weights as safetensors and, when the run began from a model folder, its "
      "tokenizer and generation settings.",
      "HUB_FOLDER is such a folder, or the name of one in the hub cache (org/name). OUT_CHECKPOINT can be given to sft "
      "as model.model_name_or_path, to sft-generate and sft-inspect, and to every HDF5 tool.",
      "With --merge, OUT_FOLDER gets the model with the adapter's weights added, as PEFT's merge_and_unload makes it. "
      "ADAPTER_FOLDER is in PEFT's format; a run with lora.use_peft leaves one in its output folder. A CHECKPOINT of "
      "such "
      "a run becomes such a folder. RUN_FOLDER is that output folder: its adapter is added to the model that the run "
      "began from.",
      "With --gguf, OUT_FILE is the model for llama.cpp. Its own converter makes it, which has to be installed; a "
      "CHECKPOINT becomes a model folder on the way.",
      "With --quantize, OUT_FOLDER gets the matrices of blocks' linear layers in 4 bits, in the format of "
      "bitsandbytes, "
      "which transformers loads and lora.load_in_4bit takes as they are.",
      "Tensors go through memory in parts, so models of any size can be converted."};
  manual.operand = "/";
  manual.operand_option = "model_name_or_path";
  manual.num_operands = 3;
  return manual;
}

struct Texts {
  std::string dtype = "float32", max_shard_size = "5GB";
  std::string gguf_type = "auto", gguf_converter;
  std::string quantize;
  bool merge = false, gguf = false, double_quant = false;
};

po::options_description describe(Texts& texts) {
  po::options_description description;
  auto add = description.add_options();
  add("merge", cli::flag(&texts.merge), "add the weights of an adapter to those of its model");
  add("gguf", cli::flag(&texts.gguf), "make a file in GGUF, by llama.cpp's converter");
  add("gguf_type", po::value(&texts.gguf_type)->default_value(texts.gguf_type)->value_name("TYPE"),
      "the converter's --outtype: auto (16 bits), f32, f16, bf16, q8_0");
  add("gguf_converter", po::value(&texts.gguf_converter)->value_name("FILE"),
      "llama.cpp's convert_hf_to_gguf.py; by default the one on PATH");
  add("quantize", po::value(&texts.quantize)->value_name("TYPE"),
      "keep the matrices of linear layers in 4 bits: nf4 or fp4");
  add("double_quant", cli::flag(&texts.double_quant), "with --quantize, keep their scales in 8 bits");
  add("dtype", po::value(&texts.dtype)->default_value(texts.dtype)->value_name("TYPE"),
      "how OUT_FOLDER holds the weights: float32, bfloat16 or float16; with --merge by default as HUB_FOLDER holds "
      "them");
  add("max_shard_size", po::value(&texts.max_shard_size)->default_value(texts.max_shard_size)->value_name("SIZE"),
      "largest safetensors file, as in 500MB, 5GB, 2GiB");
  return description;
}

}  // namespace

std::optional<ConvertOptions> read_convert_options(const std::vector<std::string>& arguments) {
  Texts texts;
  const std::optional<po::variables_map> values = read_options(about_convert(), describe(texts), arguments);
  if (!values) return std::nullopt;
  const bool takes_run = texts.merge && values->count("operand3") == 0;
  if (values->count("operand2") == 0) {
    if (texts.merge) {
      throw_config_error("two or three folders are needed",
                         "--merge reads a run, or a model and an adapter, and writes "
                         "a model",
                         "give them, as in sft-convert --merge output/chat models/chat, or "
                         "sft-convert --merge models/base output/chat/adapter models/chat");
    }
    throw_config_error("two folders are needed", "sft-convert reads one and writes the other",
                       "give them, as in sft-convert output/demo models/demo");
  }
  if (!texts.merge && values->count("operand3") != 0) {
    throw_config_error("there are three folders", "sft-convert reads one and writes the other",
                       "give two, or add --merge to merge an adapter into a model");
  }
  if (texts.merge && texts.gguf) {
    throw_config_error("--merge and --gguf are two conversions", "each reads what the other writes",
                       "merge the adapter first, and make a GGUF file of the folder that this leaves");
  }
  if (!texts.gguf && (!texts.gguf_converter.empty() || !(*values)["gguf_type"].defaulted())) {
    throw_config_error("--gguf_type and --gguf_converter have nothing to do", "they belong to --gguf",
                       "add --gguf, or leave them out");
  }
  if (!texts.quantize.empty() && (texts.merge || texts.gguf)) {
    throw_config_error("--quantize is a conversion of its own", "it makes a model folder of another",
                       "leave --merge and --gguf out, and convert what they leave, or what they read");
  }
  if (texts.double_quant && texts.quantize.empty()) {
    throw_config_error("--double_quant has nothing to do", "it belongs to --quantize",
                       "add --quantize nf4, or leave it out");
  }
  ConvertOptions options;
  if (!texts.quantize.empty()) {
    options.four_bits = FourBitForm{.is_nested = texts.double_quant};
    if (texts.quantize == "fp4") options.four_bits->type = FourBitType::fp4;
    if (texts.quantize != "fp4" && texts.quantize != "nf4") {
      throw_config_error(fmt::format("--quantize {} is not known", texts.quantize),
                         "the codes of 4 bits are nf4 and fp4", "give one of them");
    }
  }
  options.to_gguf = texts.gguf;
  options.gguf_type = texts.gguf_type;
  options.gguf_converter = texts.gguf_converter;
  options.from = (*values)["operand"].as<std::string>();
  options.takes_run = takes_run;
  if (texts.merge) options.adapter = takes_run ? options.from + "/adapter" : (*values)["operand2"].as<std::string>();
  options.to = (*values)[texts.merge && !takes_run ? "operand3" : "operand2"].as<std::string>();
  options.has_dtype = !(*values)["dtype"].defaulted();
  options.has_max_shard_size = !(*values)["max_shard_size"].defaulted();
  options.dtype = hub::parse_weight_type(texts.dtype);
  options.max_shard_bytes = parse_size(texts.max_shard_size);
  return options;
}

cli::Manual convert_manual() {
  Texts texts;
  return cli::manual_of(about_convert(), describe(texts));
}

}  // namespace sft::apps
