// SPDX-License-Identifier: Apache-2.0
// Folders in FP8: numbers by their scales, in every form of these, and what is refused.
#include "hub/fp8.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "sft/hub/model_config.hpp"
#include "sft/hub/weights.hpp"
#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
using test::data_error_of;
using test::mentions;

BOOST_AUTO_TEST_SUITE(fp8)

namespace {

using Shape = std::vector<std::int64_t>;

struct Stored {
  std::string name, dtype;
  Shape shape;
  std::string bytes;
};

std::string shape_text(const Shape& shape) {
  std::string text;
  for (const std::int64_t size : shape) text += (text.empty() ? "" : ",") + std::to_string(size);
  return "[" + text + "]";
}

void write_file(const std::string& path, const std::vector<Stored>& tensors) {
  std::string header, data;
  for (const Stored& tensor : tensors) {
    header += (header.empty() ? "{\"" : ",\"") + tensor.name + "\":{\"dtype\":\"" + tensor.dtype +
              "\",\"shape\":" + shape_text(tensor.shape) + ",\"data_offsets\":[" + std::to_string(data.size()) + "," +
              std::to_string(data.size() + tensor.bytes.size()) + "]}";
    data += tensor.bytes;
  }
  test::write_bytes(path, test::safetensors(header + "}", data));
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

constexpr std::int64_t rows = 5, columns = 7;
const std::string matrix = "model.layers.0.mlp.up_proj.weight";

/// All codes but those of NaN come up.
std::string codes_of_matrix() {
  std::string codes;
  for (int i = 0; i < rows * columns; ++i) codes += static_cast<char>(i * 37 % 251 == 0x7f ? 0 : i * 37 % 251 % 0x7f);
  return codes;
}

/// A scale whose products are rounded.
float scale(std::int64_t index) { return 0.0123F + 0.0017F * static_cast<float>(index); }

std::string quantized_config(const std::string& quantization) {
  return R"({"model_type": "llama", "quantization_config": )" + quantization + "}";
}

/// The matrix with its scales in blocks of (block_rows, block_columns), each scale's float being `rounded`.
template <class Scale>
std::vector<float> expected_numbers(std::int64_t block_rows, std::int64_t block_columns, const Scale& scale_of) {
  const std::string codes = codes_of_matrix();
  const std::int64_t width = (columns + block_columns - 1) / block_columns;
  std::vector<float> numbers;
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    const std::int64_t row = i / columns, column = i % columns;
    const float number = hub::float32_of_e4m3(static_cast<std::uint8_t>(codes[i])) *
                         scale_of(row / block_rows * width + column / block_columns);
    numbers.push_back(hub::float32_of_bf16(hub::bf16_of_float32(number)));
  }
  return numbers;
}

/// The whole matrix, after a look at parts of it that cut blocks.
std::vector<float> read_matrix(const std::string& folder) {
  const auto source = hub::open_weights(folder, false);
  BOOST_TEST_REQUIRE(source->tensors().size() == 1U);
  BOOST_TEST((source->tensors().front().dtype == DType::bf16));
  const std::string name = "model/" + matrix;
  std::vector<float> all(rows * columns);
  source->read(name, {0, rows, 0, columns}, DType::float32, all.data());
  for (const io::Rectangle& where : {io::Rectangle{1, 3, 2, 4}, {4, 1, 6, 1}, {0, 5, 3, 1}, {2, 2, 0, 7}}) {
    std::vector<float> part(static_cast<std::size_t>(where.num_elements()));
    source->read(name, where, DType::float32, part.data());
    for (std::int64_t i = 0; i < where.num_elements(); ++i) {
      const std::int64_t row = where.row_begin + i / where.num_columns;
      BOOST_TEST(part[i] == all[row * columns + where.column_begin + i % where.num_columns]);
    }
  }
  return all;
}

std::vector<float> scales(std::int64_t count) {
  std::vector<float> values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(scale(i));
  return values;
}

std::string open_error(const std::string& folder) {
  return data_error_of([&] { static_cast<void>(hub::open_weights(folder, false)); });
}

}  // namespace

BOOST_AUTO_TEST_CASE(codes_are_the_numbers_of_ofp8) {
  BOOST_TEST(hub::float32_of_e4m3(0x00) == 0.0F);
  BOOST_TEST(std::signbit(hub::float32_of_e4m3(0x80)));
  BOOST_TEST(hub::float32_of_e4m3(0x01) == 0x1p-9F);  // the least
  BOOST_TEST(hub::float32_of_e4m3(0x07) == 0x7p-9F);  // the largest subnormal
  BOOST_TEST(hub::float32_of_e4m3(0x08) == 0x1p-6F);  // the least normal
  BOOST_TEST(hub::float32_of_e4m3(0x38) == 1.0F);
  BOOST_TEST(hub::float32_of_e4m3(0x7e) == 448.0F);
  BOOST_TEST(hub::float32_of_e4m3(0xfe) == -448.0F);
  BOOST_TEST(std::isnan(hub::float32_of_e4m3(0x7f)));
  BOOST_TEST(std::isnan(hub::float32_of_e4m3(0xff)));
  BOOST_TEST(hub::float32_of_e5m2(0x01) == 0x1p-16F);
  BOOST_TEST(hub::float32_of_e5m2(0x3c) == 1.0F);
  BOOST_TEST(hub::float32_of_e5m2(0xfb) == -57344.0F);
  BOOST_TEST(std::isinf(hub::float32_of_e5m2(0x7c)));
  BOOST_TEST(hub::float32_of_e8m0(0) == 0x1p-127F);
  BOOST_TEST(hub::float32_of_e8m0(130) == 8.0F);
}

BOOST_AUTO_TEST_CASE(numbers_are_codes_times_scales_in_every_form_of_these) {
  const test::TemporaryFolder folder;
  const Stored codes{matrix, "F8_E4M3", {rows, columns}, codes_of_matrix()};
  const std::string
      fp8_blocks = quantized_config(R"({"quant_method": "fp8", "weight_block_size": [2, 3]})"),
      fp8 = quantized_config(R"({"quant_method": "fp8", "weight_block_size": null})"),
      compressed = quantized_config(
          R"({"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {"group_0":)"
          R"( {"weights": {"num_bits": 8, "type": "float", "strategy": "channel", "symmetric": true}}}})");
  const auto read = [&](const std::string& config, const Stored& beside) {
    test::write_bytes(folder.file("config.json"), config);
    write_file(folder.file("model.safetensors"),
               {codes, beside, {"model.layers.0.mlp.up_proj.input_scale", "F32", {1}, std::string(4, '\1')}});
    return read_matrix(folder.path());
  };
  const std::string inverse = matrix + "_scale_inv", plain = matrix + "_scale";
  BOOST_TEST(read(fp8_blocks, {inverse, "F32", {3, 3}, bytes_of(scales(9))}) == expected_numbers(2, 3, scale));
  BOOST_TEST(read(fp8, {inverse, "F32", {}, bytes_of(scales(1))}) == expected_numbers(rows, columns, scale));
  BOOST_TEST(read(fp8, {plain, "F32", {1}, bytes_of(scales(1))}) == expected_numbers(rows, columns, scale));
  BOOST_TEST(read(compressed, {plain, "F32", {rows, 1}, bytes_of(scales(rows))}) ==
             expected_numbers(1, columns, scale));
  std::vector<std::uint16_t> low;
  for (const float value : scales(rows)) low.push_back(bf16_of_float32(value));
  BOOST_TEST(read(compressed, {plain, "BF16", {rows}, bytes_of(low)}) ==
             expected_numbers(1, columns, [](std::int64_t i) { return float32_of_bf16(bf16_of_float32(scale(i))); }));
  std::string exponents;
  for (char i = 0; i < 9; ++i) exponents += static_cast<char>(120 + i);
  BOOST_TEST(read(fp8_blocks, {inverse, "F8_E8M0", {3, 3}, exponents}) ==
             expected_numbers(2, 3, [](std::int64_t i) { return std::ldexp(1.0F, static_cast<int>(i) - 7); }));
}

BOOST_AUTO_TEST_CASE(a_folder_without_the_scales_that_it_needs_is_refused_by_its_tensor) {
  const test::TemporaryFolder folder;
  const auto refusal = [&](const std::vector<Stored>& tensors, const std::string& quantization) {
    test::write_bytes(folder.file("config.json"), quantized_config(quantization));
    write_file(folder.file("model.safetensors"), tensors);
    return open_error(folder.path());
  };
  const Stored codes{matrix, "F8_E4M3", {rows, columns}, codes_of_matrix()},
      plain{matrix, "F32", {1, 1}, std::string(4, '\1')};
  const std::string blocks = R"({"quant_method": "fp8", "weight_block_size": [2, 3]})";
  BOOST_TEST(mentions(refusal({codes}, blocks), {matrix, "F8_E4M3", "neither", "_scale_inv"}));
  BOOST_TEST(mentions(refusal({codes, {matrix + "_scale_inv", "F32", {2, 3}, bytes_of(scales(6))}}, blocks),
                      {matrix, "(2, 3)", "blocks of 2 x 3 make (3, 3)"}));
  BOOST_TEST(mentions(refusal({codes, {matrix + "_scale_inv", "I32", {3, 3}, bytes_of(scales(9))}}, blocks), {"I32"}));
  BOOST_TEST(mentions(refusal({{matrix, "F8_E4M3", {rows, columns, 1}, codes_of_matrix()},
                               {matrix + "_scale_inv", "F32", {1}, bytes_of(scales(1))}},
                              blocks),
                      {matrix, "3 dims"}));
  BOOST_TEST(mentions(refusal({plain}, blocks), {"not stored as its config.json says", "FP8"}));
  BOOST_TEST(mentions(refusal({plain}, R"({"quant_method": "bitsandbytes", "load_in_4bit": true})"),
                      {"not stored as its config.json says", matrix, "llm_int8_skip_modules"}));
  for (const std::string skipped : {"model.layers.0.mlp", "up_proj", "mlp", "model.layers.0.mlp.up_proj"}) {
    BOOST_TEST(mentions(refusal({plain}, R"({"quant_method": "bitsandbytes", "load_in_4bit": true, )"
                                         R"("llm_int8_skip_modules": [")" +
                                             skipped + "\"]}"),
                        {"none of its matrices"}));
  }
}

BOOST_AUTO_TEST_CASE(modules_of_a_tower_have_the_names_of_either_version) {
  const test::TemporaryFolder folder;
  write_file(folder.file("model.safetensors"), {{"language_model." + matrix, "F32", {1, 1}, std::string(4, '\1')}});
  for (const auto& [skipped, says] :
       std::vector<std::pair<std::string, std::string>>{{"language_model.model.layers.0.mlp", "none of its matrices"},
                                                        {"model.language_model.layers.0.mlp", "none of its matrices"},
                                                        {"model.language_model.layers.1.mlp", "does not name"}}) {
    test::write_bytes(
        folder.file("config.json"),
        R"({"text_config": {"model_type": "llama"}, "quantization_config": {"quant_method": "bitsandbytes",)"
        R"("load_in_4bit": true, "llm_int8_skip_modules": [")" +
            skipped + "\"]}}");
    BOOST_TEST(mentions(open_error(folder.path()), {says}), skipped);
  }
}

BOOST_AUTO_TEST_CASE(what_is_carried_is_written_as_numbers) {
  const test::TemporaryFolder folder, out;
  const std::string later = "model.layers.1.mlp.up_proj.weight";
  test::write_bytes(folder.file("config.json"),
                    R"({"model_type": "glm4_moe", "num_hidden_layers": 1, "quantization_config": )"
                    R"({"quant_method": "fp8", "weight_block_size": [2, 3]}})");
  std::vector<Stored> tensors;
  for (const std::string& name : {matrix, later}) {
    tensors.push_back({name, "F8_E4M3", {rows, columns}, codes_of_matrix()});
    tensors.push_back({name + "_scale_inv", "F32", {3, 3}, bytes_of(scales(9))});
  }
  write_file(folder.file("model.safetensors"), tensors);
  const hub::FileLayout layout = hub::read_file_layout(folder.path());
  BOOST_TEST_REQUIRE(layout.carried.size() == 1U);
  BOOST_TEST(layout.carried.front().dtype == "BF16");
  const hub::WeightsPlan plan({{"model/" + matrix, {rows, columns}, DType::float32}}, hub::WeightType::bfloat16,
                              1 << 20, hub::model_stem, layout);
  hub::create_weight_files(plan, out.path());
  hub::copy_carried(plan, folder.path(), out.path());
  const auto source = hub::open_weights(out.path(), false);
  BOOST_TEST_REQUIRE(source->tensors().size() == 2U);
  std::vector<float> numbers(rows * columns);
  source->read("model/" + later, {0, rows, 0, columns}, DType::float32, numbers.data());
  BOOST_TEST(numbers == expected_numbers(2, 3, scale));
}

BOOST_AUTO_TEST_CASE(other_quantization_is_refused_by_its_field) {
  const auto refusal = [](const std::string& quantization) {
    return data_error_of([&] {
      static_cast<void>(hub::parse_model_config(
          R"({"architectures": ["LlamaForCausalLM"], "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1,)"
          R"("intermediate_size": 8, "vocab_size": 8, "quantization_config": )" +
              quantization + "}",
          "config.json"));
    });
  };
  const std::string weights = R"("weights": {"num_bits": 8, "type": "float", "strategy": "tensor"})";
  const auto compressed = [&](const std::string& more, const std::string& group) {
    return refusal(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {)" + group + "}}" + more +
                   "}");
  };
  BOOST_TEST(compressed("", weights).empty());
  BOOST_TEST(refusal(R"({"quant_method": "fbgemm_fp8"})").empty());
  BOOST_TEST(refusal(R"({"quant_method": "modelopt", "quant_algo": "FP8"})").empty());
  for (const std::string quantization :
       {R"({"quant_method": "gptq", "bits": 4})", R"({"quant_method": "fp8", "weight_block_size": [128]})",
        R"({"quant_method": "fp8", "weight_block_size": [0, 128]})",
        R"({"quant_method": "fp8", "expert_dtype": "fp4"})", R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})",
        R"({"quant_method": "mxfp4"})", R"({})", "3", R"({"quant_method": "compressed-tensors"})",
        R"({"quant_method": "bitsandbytes", "load_in_4bit": true, "llm_int8_skip_modules": "lm_head"})"}) {
    BOOST_TEST(mentions(refusal(quantization), {"quantization_config"}), quantization);
  }
  for (const std::string more : {R"(, "format": "pack-quantized")", R"(, "sparsity_config": {"format": "sparse-24"})",
                                 R"(, "transform_config": {"config_groups": {"R1": {}}})"}) {
    BOOST_TEST(mentions(compressed(more, weights), {"quantization_config"}), more);
  }
  BOOST_TEST(mentions(compressed("", R"("weights": {"num_bits": 4, "type": "int", "strategy": "group"})"), {"8 bits"}));
}

BOOST_AUTO_TEST_SUITE_END()
