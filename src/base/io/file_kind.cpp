// SPDX-License-Identifier: Apache-2.0
#include "sft/io/file_kind.hpp"

#include <fmt/core.h>
#include <filesystem>

#include "known_kinds.hpp"
#include "sft/core/error.hpp"

namespace sft::io {

namespace fs = std::filesystem;

namespace {

std::string describe(Kind kind) {
  switch (kind) {
    case Kind::ini:
      return "it is an .ini file";
    case Kind::yaml:
      return "it is a YAML file";
    case Kind::config_json:
      return "it is the config.json of a model";
    case Kind::deepspeed_json:
      return "it is a DeepSpeed configuration";
    case Kind::json:
      return "it is a JSON file";
    case Kind::json_array:
      return "it is one JSON array";
    case Kind::json_lines:
      return "it is a JSON-lines file";
    case Kind::csv:
      return "it is a table of text, CSV or TSV";
    case Kind::utf16:
      return "it is text in UTF-16";
    case Kind::git_lfs:
      return "it is a pointer of git-lfs, which stands for the file";
    case Kind::parquet:
      return "it is a Parquet file";
    case Kind::arrow:
      return "it is an Arrow file";
    case Kind::markup:
      return "it is HTML or XML";
    case Kind::compressed:
      return "it is compressed";
    case Kind::bzip2:
      return "it is compressed with bzip2";
    case Kind::xz:
      return "it is compressed with xz";
    case Kind::lz4:
      return "it is compressed with LZ4";
    case Kind::tar:
      return "it is a tar archive, as WebDataset has them";
    case Kind::numpy:
      return "it is an array of NumPy";
    case Kind::pickle:
      return "it is a pickle of Python";
    case Kind::sqlite:
      return "it is a database of SQLite";
    case Kind::avro:
      return "it is an Avro file";
    case Kind::orc:
      return "it is an ORC file";
    case Kind::feather:
      return "it is a Feather file";
    case Kind::lance:
      return "it is a table of Lance";
    case Kind::megatron:
      return "it is an indexed data set of Megatron, .bin and .idx";
    case Kind::mds:
      return "it is an MDS data set of MosaicML Streaming";
    case Kind::litdata:
      return "it is a data set of litdata";
    case Kind::zip:
      return "it is a ZIP archive";
    case Kind::safetensors:
      return "it is a safetensors file";
    case Kind::pytorch:
      return "it is a PyTorch file";
    case Kind::gguf:
      return "it is a GGUF file";
    case Kind::hdf5:
      return "it is an HDF5 file";
    case Kind::hub_folder:
      return "it is a hub folder: config.json with weights or tokenizer";
    case Kind::adapter_folder:
      return "it is a PEFT folder with an adapter";
    case Kind::dataset_folder:
      return "it is a folder of the datasets library";
    case Kind::checkpoint_folder:
      return "it is a checkpoint";
    case Kind::output_folder:
      return "it is the output folder of a run";
    case Kind::shard_folder:
      return "it is a folder of packed shards";
    case Kind::folder:
      return "it is a folder";
    case Kind::unknown:
      break;
  }
  return {};
}

bool fits(Kind kind, Expected expected) {
  if (kind == Kind::unknown) return true;
  switch (expected) {
    case Expected::configuration:
      return kind == Kind::ini;
    case Expected::json_lines:  // a folder may hold some, and gzip and Zstandard are unpacked
      return kind == Kind::json_lines || kind == Kind::json || kind == Kind::json_array || kind == Kind::compressed ||
             kind == Kind::folder || kind == Kind::dataset_folder || kind == Kind::shard_folder;
    case Expected::packed_shard:
      return kind == Kind::hdf5;
    case Expected::checkpoint:
      return kind == Kind::checkpoint_folder || kind == Kind::output_folder || kind == Kind::folder;
    case Expected::model:
      return kind == Kind::hub_folder || kind == Kind::checkpoint_folder || kind == Kind::output_folder ||
             kind == Kind::folder;
  }
  return true;
}

std::string advice_for_configuration(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::yaml:
    case Kind::deepspeed_json:
      return "write its settings as key = value lines of an .ini file; one of Accelerate, DeepSpeed, TRL or Axolotl "
             "may "
             "be given to sft and sft-launch as it is, under a name that ends in .yaml or .json";
    case Kind::config_json:
    case Kind::hub_folder:
      return "give an .ini file, and set model.model_name_or_path in it to the folder of the model";
    case Kind::output_folder:
      return fmt::format("give its configuration, {}/resolved.ini", path);
    case Kind::checkpoint_folder:
      return "give the .ini file of the run, and --checkpoint.resume_from_checkpoint " + path;
    case Kind::hdf5:
    case Kind::shard_folder:
      return "give the .ini file of a run, and name packed shards in its data.train_files";
    default:
      return "give the .ini file of a run; `sft --help` lists its keys, and inputs/ has examples";
  }
}

std::string unpacked_by(const char* program, const std::string& path) {
  return fmt::format("unpack it first, or pipe it in: `{} {} | sft-prepare --input - ...`", program, path);
}

std::string advice_for_json_lines(Kind kind, const std::string& path) {
  const char* const write_lines = "write its records as JSON lines first, an object a line";
  switch (kind) {
    case Kind::bzip2:
      return unpacked_by("bzcat", path);
    case Kind::xz:
      return unpacked_by("xzcat", path);
    case Kind::lz4:
      return unpacked_by("lz4cat", path);
    case Kind::zip:
      return fmt::format("unpack it first, `unzip {}`, and name the files that were in it", path);
    case Kind::tar:
      return fmt::format("unpack it first, `tar -xf {}`, and name the files of records that were in it", path);
    case Kind::parquet:
      return fmt::format(
          "give it a name that ends in .parquet, or write it as JSON lines first: "
          "postprocess/parquet_to_jsonl.py {} --output FILE.jsonl",
          path);
    case Kind::arrow:
      return "give it a name that ends in .arrow, or write it as JSON lines first";
    case Kind::csv:
    case Kind::dataset_folder:
    case Kind::orc:
    case Kind::avro:
    case Kind::feather:
    case Kind::sqlite:
      return "write it as JSON lines first, such as with to_json(PATH, orient='records', lines=True) in Python";
    case Kind::lance:
      return "write it as Parquet first, in Python: pyarrow.parquet.write_table(lance.dataset(PATH).to_table(), FILE)";
    case Kind::mds:
      return "write it as JSON lines first, in Python: each record of streaming.StreamingDataset(local=PATH), by "
             "json.dumps";
    case Kind::litdata:
      return "write it as JSON lines first, in Python: each record of litdata.StreamingDataset(PATH), by json.dumps";
    case Kind::megatron:
      return R"(write its documents as JSON lines first, {"input_ids": [...]} a line, or take the text that they were made of)";
    case Kind::numpy:
    case Kind::pickle:
      return write_lines;
    case Kind::markup:
      return "get the file itself: pages of a site, such as one that asks for a log-in, are no records";
    case Kind::hdf5:
    case Kind::shard_folder:
      return "packed shards need no more preparation: name them in data.train_files of an .ini file; of other HDF5 "
             "files write the records as JSON lines";
    case Kind::config_json:
    case Kind::hub_folder:
      return "give files of records; --model_name_or_path takes the folder of a model";
    default:
      return "give JSON-lines files of messages, prompt/completion or text records";
  }
}

std::string advice_for_shard(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::json_lines:
    case Kind::json:
    case Kind::json_array:
      return fmt::format(
          "prepare it first, `sft-prepare --input {} --output FOLDER`, and set data.train_files = FOLDER/train-*.h5",
          path);
    case Kind::shard_folder:
      return fmt::format("set data.train_files = {}/train-*.h5", path);
    case Kind::parquet:
    case Kind::arrow:
    case Kind::csv:
    case Kind::compressed:
    case Kind::bzip2:
    case Kind::xz:
    case Kind::lz4:
    case Kind::zip:
    case Kind::tar:
    case Kind::numpy:
    case Kind::lance:
    case Kind::megatron:
    case Kind::mds:
    case Kind::litdata:
    case Kind::dataset_folder:
      return "write it as JSON lines, prepare those with sft-prepare, and set data.train_files = FOLDER/train-*.h5";
    default:
      return "name shards that sft-prepare wrote, data.train_files = FOLDER/train-*.h5";
  }
}

std::string advice_for_checkpoint(Kind kind) {
  if (kind == Kind::hub_folder || kind == Kind::adapter_folder || kind == Kind::safetensors || kind == Kind::gguf ||
      kind == Kind::pytorch) {
    return "give a checkpoint of sft; sft-convert makes one of a model folder";
  }
  return "give a checkpoint such as output/checkpoint-000100, or the output folder of a run";
}

std::string advice_for_model(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::config_json:
    case Kind::safetensors:
    case Kind::hdf5: {
      const std::string folder = fs::path(path).parent_path().string();
      return "give the folder that it lies in, " + (folder.empty() ? "." : folder);
    }
    case Kind::zip:
      return fmt::format("unpack it first, `unzip {}`, and give the folder", path);
    case Kind::pytorch:
    case Kind::gguf:
      return "give a folder with config.json and safetensors; transformers' save_pretrained writes one";
    case Kind::adapter_folder:
      return fmt::format("give the model that it changes; `sft-convert --merge MODEL {} OUT_FOLDER` makes one of both",
                         path);
    case Kind::ini:
      return "give the output folder of the run, a checkpoint or a model folder";
    default:
      return "give a model folder, a checkpoint, or the output folder of a run";
  }
}

const char* name_of(Expected expected) {
  switch (expected) {
    case Expected::configuration:
      return "a configuration";
    case Expected::json_lines:
      return "JSON lines";
    case Expected::packed_shard:
      return "packed data";
    case Expected::checkpoint:
      return "a checkpoint";
    case Expected::model:
      return "a model";
  }
  return "";
}

std::string advice(Kind kind, Expected expected, const std::string& path) {
  if (kind == Kind::utf16) return fmt::format("save it as UTF-8: `iconv -f UTF-16 -t UTF-8 {} -o FILE`", path);
  if (kind == Kind::git_lfs) return "fetch the file itself: `git lfs pull` in the clone, or `hf download`";
  switch (expected) {
    case Expected::configuration:
      return advice_for_configuration(kind, path);
    case Expected::json_lines:
      return advice_for_json_lines(kind, path);
    case Expected::packed_shard:
      return advice_for_shard(kind, path);
    case Expected::checkpoint:
      return advice_for_checkpoint(kind);
    case Expected::model:
      return advice_for_model(kind, path);
  }
  return {};
}

[[noreturn]] void refuse(Kind kind, Expected expected, const std::string& name, const std::string& path) {
  throw_data_error(fmt::format("cannot use {} as {}", name, name_of(expected)), describe(kind),
                   advice(kind, expected, path));
}

}  // namespace

void require_kind(const std::string& path, Expected expected) {
  const Kind kind = kind_of(path);
  if (!fits(kind, expected)) refuse(kind, expected, path, path);
}

void require_kind_of_bytes(const std::string& name, const std::string& start, Expected expected) {
  const Kind kind = kind_of_bytes(start);
  if (!fits(kind, expected)) refuse(kind, expected, name, "FILE");
}

bool is_table(const std::string& path) {
  const Kind kind = kind_of(path);
  return kind == Kind::parquet || kind == Kind::arrow;
}

}  // namespace sft::io
