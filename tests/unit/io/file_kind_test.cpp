// SPDX-License-Identifier: Apache-2.0
#include "sft/io/file_kind.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "sft/core/error.hpp"
#include "support/config_error.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using io::Expected;
using test::check_says;

namespace {

class Folder {
 public:
  /// The path of a new file of this content.
  std::string file(const std::string& name, const std::string& content) const {
    const std::string path = folder_.file(name);
    std::filesystem::create_directories(std::filesystem::path(path).parent_path());
    std::ofstream(path, std::ios::binary) << content;
    return path;
  }
  std::string path(const std::string& name) const { return folder_.file(name); }

 private:
  test::TemporaryFolder folder_;
};

/// The error's text; empty when the path may be what is expected.
std::string misfit(const std::string& path, Expected expected) {
  try {
    io::require_kind(path, expected);
  } catch (const Error& error) {
    BOOST_TEST((error.status() == ExitStatus::data));
    return error.what();
  }
  return {};
}

const std::string hdf5 = std::string("\x89HDF\r\n\x1a\n") + std::string(100, '\0');

}  // namespace

BOOST_AUTO_TEST_CASE(what_belongs_there_passes) {
  const Folder folder;
  BOOST_TEST(misfit(folder.file("run.ini", "# x\n[model]\nhidden_size = 8\n"), Expected::configuration) == "");
  BOOST_TEST(misfit(folder.file("top.ini", "max_steps = 8\n"), Expected::configuration) == "");
  BOOST_TEST(misfit(folder.file("a.jsonl", "{\"text\": \"x\"}\n{\"text\": \"y\"}\n"), Expected::json_lines) == "");
  BOOST_TEST(misfit(folder.file("a.h5", hdf5), Expected::packed_shard) == "");
  BOOST_TEST(misfit(folder.file("b.h5", std::string(2048, '\0') + hdf5), Expected::packed_shard) == "");
  BOOST_TEST(misfit(folder.path("missing"), Expected::packed_shard) == "");
  BOOST_TEST(misfit(folder.file("empty", ""), Expected::configuration) == "");
  folder.file("checkpoint-000001/checkpoint.h5", hdf5);
  BOOST_TEST(misfit(folder.path("checkpoint-000001"), Expected::checkpoint) == "");
}

BOOST_AUTO_TEST_CASE(another_kind_for_a_configuration) {
  const Folder folder;
  const auto says = [&](const std::string& path, const std::string& part) {
    check_says(misfit(path, Expected::configuration), part);
  };
  const std::string yaml = folder.file("fsdp.conf", "# Accelerate\ncompute_environment: LOCAL_MACHINE\n");
  says(yaml, "cannot use " + yaml + " as a configuration (it is a YAML file): write its settings as key = value");
  says(yaml, "to sft and sft-launch as it is, under a name that ends in .yaml");
  const std::string utf16 = folder.file("utf16.ini", std::string("\xff\xfe[\0m\0", 6));
  says(utf16, "it is text in UTF-16): save it as UTF-8: `iconv -f UTF-16 -t UTF-8 " + utf16 + " -o FILE`");
  says(folder.file("a.yaml", "- x\n"), "it is a YAML file");
  says(folder.file("config.json", "{\n  \"hidden_size\": 8\n}\n"), "set model.model_name_or_path in it");
  says(folder.file("ds.json", "{\n  \"zero_optimization\": {}\n}\n"), "it is a DeepSpeed configuration");
  says(folder.file("x.jsonl", "{\"text\": \"x\"}\n"), "it is a JSON-lines file");
  says(folder.file("x.parquet", "PAR1...."), "it is a Parquet file");
  says(folder.file("x.h5", hdf5), "data.train_files");
  folder.file("out/resolved.ini", "");
  says(folder.path("out"), folder.path("out") + "/resolved.ini");
}

BOOST_AUTO_TEST_CASE(another_kind_for_packed_data) {
  const Folder folder;
  const auto says = [&](const std::string& path, const std::string& part) {
    check_says(misfit(path, Expected::packed_shard), part);
  };
  const std::string lines = folder.file("x.jsonl", "{\"text\": \"x\"}\n");
  says(lines, "`sft-prepare --input " + lines + " --output FOLDER`");
  says(folder.file("y.json", "[{\"text\": \"x\"}]"), "it is one JSON array");
  says(folder.file("x.parquet", "PAR1...."), "write it as JSON lines, prepare those");
  says(folder.file("x.arrow", "ARROW1.."), "it is an Arrow file");
  says(folder.file("x.gz", "\x1f\x8b...."), "it is compressed");
  says(folder.file("m.safetensors", std::string("\x50\0\0\0\0\0\0\0", 8) + "{\"a\": 1}"), "it is a safetensors file");
  folder.file("data/train-00000.h5", hdf5);
  says(folder.path("data"), "set data.train_files = " + folder.path("data") + "/train-*.h5");
  folder.file("hub/config.json", R"({"model_type": "llama"})");
  says(folder.path("hub"), "it is a hub folder");
}

BOOST_AUTO_TEST_CASE(another_kind_for_json_lines) {
  const Folder folder;
  const auto says = [&](const std::string& path, const std::string& part) {
    check_says(misfit(path, Expected::json_lines), part);
  };
  says(folder.file("x.parquet", "PAR1...."), "postprocess/parquet_to_jsonl.py ");
  BOOST_TEST(misfit(folder.file("x.jsonl.gz", "\x1f\x8b...."), Expected::json_lines) == "");
  const std::string bzip2 = folder.file("x.jsonl.bz2", "BZh91AY");
  says(bzip2,
       "it is compressed with bzip2): unpack it first, or pipe it in: `bzcat " + bzip2 + " | sft-prepare --input -");
  says(folder.file("x.jsonl.xz",
                   "\xfd"
                   "7zXZ"),
       "`xzcat ");
  says(folder.file("x.h5", hdf5), "packed shards need no more preparation");
  says(folder.file("config.json", "{}"), "--model_name_or_path takes the folder of a model");
  says(folder.file("z.jsonl", "version https://git-lfs.github.com/spec/v1\noid sha256:0\n"), "`git lfs pull`");
  says(folder.file("x.csv", "a,b\n1,2\n"), "it is a table of text");
  says(folder.file("x.yaml", "a: b\n"), "give JSON-lines files");
  says(folder.file("x.zip", "PK\x03\x04...."), "it is a ZIP archive): unpack it first, `unzip ");
  says(folder.file("empty.zip", "PK\x05\x06...."), "it is a ZIP archive");
  says(folder.file("x.pt", std::string("PK\x03\x04", 4) + "........archive/data.pkl"), "it is a PyTorch file");
  says(folder.file("x.lz4", "\x04\x22\x4d\x18...."), "`lz4cat ");
  says(folder.file("x.ini", "[model]\n"), "it is an .ini file");
  says(folder.file("pages.jsonl", "<!DOCTYPE html>"), "it is HTML or XML");
  says(folder.file("x.npy", "\x93NUMPY"), "it is an array of NumPy");
  says(folder.file("x.pkl", "\x80\x04..."), "it is a pickle of Python");
  says(folder.file("x.db", std::string("SQLite format 3\0", 16)), "it is a database of SQLite");
  says(folder.file("x.avro", "Obj\x01"), "it is an Avro file");
  says(folder.file("x.orc", "ORC"), "it is an ORC file");
  for (const char* array : {"[]", "[ ]", "[[1]]", "[1, 2]", "[{}]", "[\"a\"]"}) {
    BOOST_TEST(misfit(folder.file("array.json", array), Expected::json_lines) == "");
  }
}

BOOST_AUTO_TEST_CASE(data_sets_of_other_trainers) {
  const Folder folder;
  const auto says = [&](const std::string& path, const std::string& part) {
    check_says(misfit(path, Expected::json_lines), part);
  };
  const std::string tar = folder.file("wds/shard-0", std::string(257, '\0') + "ustar");
  says(tar, "it is a tar archive, as WebDataset has them): unpack it first, `tar -xf " + tar);
  says(folder.file("wds/0.tar.gz", "\x1f\x8b...."), "it is a tar archive");
  folder.file("t.lance/_versions/1.manifest", "");
  folder.file("t.lance/data/0.lance", "");
  says(folder.path("t.lance"), "it is a table of Lance): write it as Parquet first");
  says(folder.path("t.lance/data/0.lance"), "it is a table of Lance");
  says(folder.file("m/text_document.idx", std::string("MMIDIDX\0\0\1", 10)), "Megatron, .bin and .idx");
  says(folder.file("m/text_document.bin", "\1\2"), "Megatron, .bin and .idx");
  says(folder.file("mds/index.json", R"({"shards": [], "version": 2})"), "it is an MDS data set");
  says(folder.file("mds/shard.00000.mds", "\1"), "it is an MDS data set");
  says(folder.path("mds"), "it is an MDS data set");
  says(folder.file("lit/index.json", R"({"chunks": [], "config": {}})"), "it is a data set of litdata");
  says(folder.file("lit/chunk-0-0.bin", "\1"), "it is a data set of litdata");
  says(folder.path("lit"), "it is a data set of litdata");
  folder.file("data/config.json", R"({"name": "of a tool"})");
  BOOST_TEST(misfit(folder.path("data"), Expected::json_lines) == "");
  try {
    io::require_kind_of_bytes("standard input", "BZh91AY", Expected::json_lines);
    BOOST_ERROR("was not refused");
  } catch (const Error& error) {
    check_says(error.what(), "cannot use standard input as JSON lines (it is compressed with bzip2): unpack it first");
    check_says(error.what(), "`bzcat FILE |");
  }
}

BOOST_AUTO_TEST_CASE(another_kind_for_a_checkpoint) {
  const Folder folder;
  folder.file("hub/config.json", R"({"model_type": "llama"})");
  check_says(misfit(folder.path("hub"), Expected::checkpoint), "sft-convert makes one of a model folder");
  check_says(misfit(folder.file("x.ini", "[model]\n"), Expected::checkpoint), "give a checkpoint such as");
}

BOOST_AUTO_TEST_CASE(another_kind_for_a_model) {
  const Folder folder;
  const auto says = [&](const std::string& path, const std::string& part) {
    check_says(misfit(path, Expected::model), part);
  };
  const std::string config = folder.file("hub/config.json", "{}");
  BOOST_TEST(misfit(folder.path("hub"), Expected::model) == "");
  says(config, "it is the config.json of a model): give the folder that it lies in, " + folder.path("hub"));
  says(folder.file("m.gguf", "GGUF...."), "save_pretrained writes one");
  says(folder.file("x.jsonl", "{\"text\": \"x\"}\n"), "it is a JSON-lines file): give a model folder, a checkpoint");
  says(folder.file("run.ini", "[model]\n"), "give the output folder of the run");
  folder.file("adapter/adapter_config.json", "{}");
  says(folder.path("adapter"), "sft-convert --merge MODEL " + folder.path("adapter"));
}
