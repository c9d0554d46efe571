// SPDX-License-Identifier: Apache-2.0
// Adapters of experts in PEFT's files: the names, and where each number lies.

#include "sft/hub/expert_factors.hpp"

#include <fmt/format.h>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "hub/weight_files.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/raw_file.hpp"
#include "support/temporary_folder.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;

namespace {

const std::string prefix = "base_model.model.model.layers.2.mlp.experts";
constexpr std::int64_t num_experts = 3, rank = 2, in = 5, half = 4, out = 2 * half;

/// What is in no two places the same, and fits into float16.
float number_of(int tensor, std::int64_t expert, std::int64_t row, std::int64_t column) {
  return static_cast<float>(400 * tensor + 100 * expert + 10 * row + column);
}

struct Tensor {
  std::vector<std::int64_t> shape;
  std::vector<float> values;
};

std::map<std::string, Tensor> written(const std::vector<std::string>& parameters, const std::string& family,
                                      hub::WeightType type) {
  struct Source {
    std::string name;
    int number;
    std::int64_t expert, rows, columns;
  };
  std::vector<Source> sources;
  std::vector<io::TensorInfo> tensors;
  const auto add = [&](std::int64_t expert, const std::string& end, int number, std::int64_t rows,
                       std::int64_t columns) {
    sources.push_back({fmt::format("adapter/{}.{}.{}", prefix, expert, end), number, expert, rows, columns});
    tensors.push_back({sources.back().name, {rows, columns}, DType::float32});
  };
  for (const std::string& parameter : parameters) {
    for (std::int64_t e = 0; e < num_experts; ++e) {
      const bool is_down = parameter == "down_proj";
      add(e, parameter + ".lora_A.weight", is_down ? 3 : 0, rank, in);
      if (is_down) {
        add(e, "down_proj.lora_B.weight", 4, out, rank);
      } else {
        add(e, "gate_proj.lora_B.weight", 1, half, rank);
        add(e, "up_proj.lora_B.weight", 2, half, rank);
      }
    }
  }
  const test::TemporaryFolder folder;
  hub::FileLayout layout;
  layout.family = family;
  const hub::WeightsPlan plan(tensors, type, UINT64_MAX, hub::adapter_stem, layout);
  hub::create_weight_files(plan, folder.path());
  hub::WeightsSink sink(plan, folder.path());
  for (const Source& source : sources) {
    for (std::int64_t row = 0; row < source.rows; ++row) {  // as shards end anywhere
      std::vector<float> values;
      for (std::int64_t c = 0; c < source.columns; ++c) {
        values.push_back(number_of(source.number, source.expert, row, c));
      }
      sink.write(source.name, {row, 1, 0, source.columns}, DType::float32, values.data());
    }
  }
  sink.finish();
  hub::order_experts(plan, folder.path());
  std::map<std::string, Tensor> result;
  const auto adapter = hub::open_adapter_weights(folder.path(), layout);
  for (const io::TensorInfo& tensor : adapter->tensors()) {
    Tensor& found = result[tensor.name];
    found.shape = tensor.shape;
    found.values.resize(static_cast<std::size_t>(tensor.num_elements()));
    adapter->read(tensor.name, {0, tensor.shape[0], 0, tensor.shape[1]}, DType::float32, found.values.data());
  }
  return result;
}

/// PEFT reshapes A to (experts, rank, in), and B to (out, rank, experts).
void check_a(const Tensor& found, int number) {
  BOOST_TEST_REQUIRE((found.shape == std::vector<std::int64_t>{num_experts * rank, in}));
  for (std::int64_t e = 0; e < num_experts; ++e) {
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t i = 0; i < in; ++i) {
        BOOST_TEST(found.values[static_cast<std::size_t>((e * rank + r) * in + i)] == number_of(number, e, r, i));
      }
    }
  }
}

void check_b(const Tensor& found, bool has_halves, int number) {
  BOOST_TEST_REQUIRE((found.shape == std::vector<std::int64_t>{out, rank * num_experts}));
  for (std::int64_t o = 0; o < out; ++o) {
    const int part = has_halves ? static_cast<int>(o / half) : 0;
    for (std::int64_t r = 0; r < rank; ++r) {
      for (std::int64_t e = 0; e < num_experts; ++e) {
        const float expected = number_of(number + part, e, has_halves ? o % half : o, r);
        BOOST_TEST(found.values[static_cast<std::size_t>((o * rank + r) * num_experts + e)] == expected);
      }
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_factors)

BOOST_AUTO_TEST_CASE(names_say_what_they_are) {
  const auto up = hub::expert_factor_of(prefix + ".17.up_proj.lora_B.weight");
  BOOST_TEST_REQUIRE(up.has_value());
  BOOST_TEST(up->experts == "model.layers.2.mlp.experts");
  BOOST_TEST(up->path() == "model.layers.2.mlp.experts.gate_up_proj");
  BOOST_TEST(up->expert == 17);
  BOOST_TEST(!up->is_a);
  BOOST_TEST(up->part == 1);
  BOOST_TEST(up->num_parts == 2);
  const auto inner = hub::stacked_factor_of(prefix + ".base_layer.lora_A.weight");
  BOOST_TEST_REQUIRE(inner.has_value());
  BOOST_TEST(inner->is_inner);
  BOOST_TEST(inner->is_a);
  BOOST_TEST(inner->experts == "model.layers.2.mlp.experts");
  BOOST_TEST(!hub::stacked_factor_of(prefix + ".lora_B.weight")->is_inner);
  for (const char* other : {".3.gate_proj.weight", ".x.gate_proj.lora_A.weight", ".3.lora_A.weight",
                            ".3.gate_proj.lora_A.weight", ".3.other.lora_A.weight"}) {
    BOOST_TEST(!hub::expert_factor_of(prefix + other).has_value(), other);
    BOOST_TEST(!hub::stacked_factor_of(prefix + other).has_value(), other);
  }
  BOOST_TEST(!hub::stacked_factor_of("model.layers.2.mlp.experts.lora_A.weight").has_value());
}

BOOST_AUTO_TEST_CASE(files_have_them_as_peft_has) {
  // Rules of these families are about names of experts, too.
  for (const std::string family : {"qwen3_moe", "mixtral", "gpt_oss"}) {
    for (const hub::WeightType type : {hub::WeightType::float32, hub::WeightType::float16}) {
      const auto both = written({"gate_up_proj", "down_proj"}, family, type);
      BOOST_TEST(both.size() == 4);
      check_a(both.at("model/" + prefix + ".base_layer.lora_A.weight"), 0);
      check_b(both.at("model/" + prefix + ".base_layer.lora_B.weight"), true, 1);
      check_a(both.at("model/" + prefix + ".lora_A.weight"), 3);
      check_b(both.at("model/" + prefix + ".lora_B.weight"), false, 4);
    }
    const auto gate_up = written({"gate_up_proj"}, family, hub::WeightType::float32);
    BOOST_TEST(gate_up.size() == 2);
    check_a(gate_up.at("model/" + prefix + ".lora_A.weight"), 0);
    check_b(gate_up.at("model/" + prefix + ".lora_B.weight"), true, 1);
  }
}

/// As PEFT wrote them with transformers 4, whose experts were modules.
BOOST_AUTO_TEST_CASE(adapters_of_experts_that_are_modules_keep_their_names) {
  const test::TemporaryFolder folder;
  const std::string a = prefix + ".1.down_proj.lora_A.weight", b = prefix + ".1.down_proj.lora_B.weight";
  const std::string header = fmt::format(
      R"({{"{}":{{"dtype":"F32","shape":[1,2],"data_offsets":[0,8]}},"{}":{{"dtype":"F32","shape":[3,1],"data_offsets":[8,20]}}}})",
      a, b);
  std::string data(20, '\0');
  const float numbers[] = {1, 2, 3, 4, 5};
  std::memcpy(data.data(), numbers, data.size());
  test::write_bytes(folder.file("adapter_model.safetensors"), test::safetensors(header, data));
  hub::FileLayout layout;
  layout.family = "qwen3_moe";
  const auto adapter = hub::open_adapter_weights(folder.path(), layout);
  BOOST_TEST_REQUIRE(adapter->tensors().size() == 2);
  std::vector<float> values(3);
  adapter->read("model/" + b, {0, 3, 0, 1}, DType::float32, values.data());
  BOOST_TEST(values == (std::vector<float>{3, 4, 5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_SUITE_END()
