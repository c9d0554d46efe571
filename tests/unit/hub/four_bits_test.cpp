// SPDX-License-Identifier: Apache-2.0
// Weights in 4 bits as bitsandbytes stores them; the folders are by tests/hub/make_folders.py.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "sft/hub/file_layout.hpp"
#include "sft/hub/four_bit_folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

namespace {

namespace fs = std::filesystem;

const std::string folders = std::string(SFT_SOURCE_DIR) + "/tests/hub/folders/";

std::vector<float> read(const io::TensorSource& source, const std::string& name, const io::Rectangle& where) {
  std::vector<float> values(static_cast<std::size_t>(where.num_elements()));
  source.read(name, where, DType::float32, values.data());
  return values;
}

/// The folder with `from` replaced by `to`, of the same length, in its weights; the error of reading them.
std::string refusal(const std::string& folder, const std::string& from, const std::string& to) {
  const test::TemporaryFolder copy;
  fs::copy(folders + folder, copy.path(), fs::copy_options::recursive);
  const std::string path = copy.path() + "/model.safetensors";
  std::string bytes = io::read_file(path);
  const std::size_t at = bytes.find(from);
  BOOST_TEST_REQUIRE(at != std::string::npos);
  BOOST_TEST_REQUIRE(from.size() == to.size());
  bytes.replace(at, from.size(), to);
  io::write_file_atomically(path, bytes);
  return data_error_of([&] { return hub::open_weights(copy.path(), false); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(four_bits)

BOOST_AUTO_TEST_CASE(numbers_are_those_of_bitsandbytes) {
  for (const std::string name : {"nf4_nested", "fp4"}) {
    const std::string folder = folders + name;
    const auto source = hub::open_weights(folder, false), expected = hub::open_weights(folder + "/expected", false);
    BOOST_TEST(source->tensors().size() == expected->tensors().size());
    for (const io::TensorInfo& tensor : expected->tensors()) {
      const std::int64_t rows = tensor.shape[0], columns = tensor.shape.size() > 1 ? tensor.shape[1] : 1;
      const io::Rectangle rectangles[] = {
          {.num_rows = rows, .num_columns = columns},
          {.row_begin = rows / 3, .num_rows = 1, .num_columns = columns},
          {.row_begin = rows / 2, .num_rows = rows - rows / 2, .num_columns = 1},
          {.row_begin = 1, .num_rows = rows - 2, .column_begin = columns / 3, .num_columns = columns - columns / 3}};
      for (const io::Rectangle& where : rectangles) {
        BOOST_TEST(read(*source, tensor.name, where) == read(*expected, tensor.name, where), tensor.name);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(such_a_folder_is_a_model_like_another) {
  BOOST_TEST(hub::read_model_config(folders + "nf4_nested").model.intermediate_size == 320);
  const test::TemporaryFolder copy;
  fs::copy(folders + "fp4", copy.path(), fs::copy_options::recursive);
  std::string config = io::read_file(copy.path() + "/config.json");
  const std::string from = "\"load_in_4bit\": true", to = "\"load_in_4bit\": false";
  config.replace(config.find(from), from.size(), to);
  io::write_file_atomically(copy.path() + "/config.json", config);
  BOOST_TEST(mentions(data_error_of([&] { return hub::read_model_config(copy.path()); }), {"quantization_config"}));
}

BOOST_AUTO_TEST_CASE(what_bitsandbytes_does_not_write_is_refused_by_its_tensor) {
  BOOST_TEST(mentions(refusal("fp4", "\"blocksize\": 64", "\"blocksize\": 63"), {"cannot be read in 4 bits", "63"}));
  BOOST_TEST(mentions(refusal("fp4", "\"blocksize\": 64", "\"blocksize\": 32"), {"absmax should have"}));
  BOOST_TEST(mentions(refusal("fp4", "\"dtype\": \"float32\"", "\"dtype\": \"float99\""), {"float99"}));
  BOOST_TEST(mentions(refusal("fp4", "\"shape\": [64, 64]", "\"shape\": [64, 66]"), {"take a byte"}));
  BOOST_TEST(mentions(refusal("nf4_nested", "\"nested_blocksize\": 256", "\"nested_blocksize\": 128"),
                      {"nested_absmax should have"}));
  BOOST_TEST(mentions(refusal("nf4_nested", "\"nested_offset\"", "\"nested_offsee\""), {"nested_offset"}));
  BOOST_TEST(mentions(refusal("nf4_nested", "weight.quant_map\"", "weight.quant_mup\""), {"no", "quant_map"}));
}

BOOST_AUTO_TEST_CASE(codes_are_taken_by_rows_of_a_joined_matrix) {
  constexpr std::int64_t width = 64, num_rows = 64;
  const std::string prefix = "model.layers.0.self_attn.";
  std::vector<io::TensorInfo> tensors;
  for (const std::string part : {"q", "k", "v", "o"}) {
    tensors.push_back({"model/" + prefix + part + "_proj.weight", {num_rows, width}, DType::float32});
  }
  const std::string config = R"({"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 64,)"
                             R"("num_attention_heads": 1, "num_key_value_heads": 1, "intermediate_size": 64})";
  const test::TemporaryFolder numbers;
  test::write_bytes(numbers.file("config.json"), config);
  const hub::WeightsPlan plan(tensors, hub::WeightType::float32, 1 << 20, hub::model_stem,
                              hub::parse_file_layout(config, "config", {}));
  hub::create_weight_files(plan, numbers.path());
  hub::WeightsSink sink(plan, numbers.path());
  std::vector<std::vector<float>> values;
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    std::vector<float>& matrix = values.emplace_back(num_rows * width);
    for (std::size_t j = 0; j < matrix.size(); ++j) matrix[j] = std::sin(static_cast<float>(j * (i + 1)));
    sink.write(tensors[i].name, {0, num_rows, 0, width}, DType::float32, matrix.data());
  }
  sink.finish();
  const std::vector<std::string> attention{prefix + "q_proj", prefix + "k_proj", prefix + "v_proj"};
  const std::vector<std::vector<std::string>> groups = {attention, {prefix + "o_proj"}};
  BOOST_TEST(!hub::unquantized_modules(numbers.path(), false, groups).has_value());
  for (const bool is_nested : {false, true}) {
    const test::TemporaryFolder folder;
    const FourBitForm form{.is_nested = is_nested};
    static_cast<void>(hub::write_four_bit_folder(numbers.path(), form, folder.path()));
    const auto source = hub::open_weights(folder.path(), false);
    for (std::size_t i = 0; i < tensors.size(); ++i) {
      const std::optional<FourBitMatrix> codes = source->read_four_bits(tensors[i].name);
      // Blocks of nested scales have more numbers than one of these parts, so the second does not begin with one.
      BOOST_TEST_REQUIRE(codes.has_value() == (!is_nested || i == 0 || i == 3));
      if (!codes) continue;
      FourBitQuantizer quantizer(form);
      quantizer.add(values[i]);
      const FourBitMatrix expected = quantizer.finish();
      BOOST_TEST(codes->codes == expected.codes);
      BOOST_TEST(codes->scales == expected.scales);
      BOOST_TEST((codes->nested.size() == expected.nested.size()));
    }
    const auto modules = hub::unquantized_modules(folder.path(), false, groups);
    BOOST_TEST_REQUIRE(modules.has_value());
    BOOST_TEST(*modules == (is_nested ? attention : std::vector<std::string>{}));
  }
}

BOOST_AUTO_TEST_SUITE_END()
