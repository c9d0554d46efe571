// SPDX-License-Identifier: Apache-2.0
// Weights with an adapter added, beside the same by hand.
#include "sft/hub/merged_weights.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/error.hpp"

using namespace sft;

BOOST_AUTO_TEST_SUITE(merged_weights)

namespace {

struct Matrix {
  std::int64_t rows, columns;
  std::vector<float> values;
  bool is_vector = false;  ///< of `rows` elements
};

/// Matrices in memory, which are read whole or by rectangles.
class Matrices final : public io::TensorSource {
 public:
  explicit Matrices(std::map<std::string, Matrix> matrices) : matrices_(std::move(matrices)) {}

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override {
    std::vector<io::TensorInfo> all;
    for (const auto& [name, matrix] : matrices_) {
      all.push_back({name, {matrix.rows}});
      if (!matrix.is_vector) all.back().shape.push_back(matrix.columns);
    }
    return all;
  }
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override {
    const Matrix& matrix = matrices_.at(name);
    std::vector<float> part;
    for (std::int64_t row = 0; row < where.num_rows; ++row) {
      const auto begin = matrix.values.begin() + (where.row_begin + row) * matrix.columns + where.column_begin;
      part.insert(part.end(), begin, begin + where.num_columns);
    }
    io::convert(part, dtype, values);
  }

 private:
  std::string path_ = "matrices";
  std::map<std::string, Matrix> matrices_;
};

const std::string module = "model.layers.0.self_attn.q_proj", weight = "model/" + module + ".weight",
                  of_peft = "model/base_model.model." + module;
const Matrix base{2, 3, {1, 2, 3, 4, 5, 6}}, a{1, 3, {1, 0, -1}}, b{2, 1, {2, 3}};

/// Rank 1 and scale 0.5.
hub::AdapterConfig rank_one() {
  hub::AdapterConfig config{.lora = {}, .targets = hub::TargetModules::named({"q_proj"})};
  config.lora.use_peft = true;
  config.lora.lora_r = 1;
  config.lora.lora_alpha = 0.5;
  return config;
}

hub::MergedWeights merged(const std::map<std::string, Matrix>& adapter, const hub::AdapterConfig& config) {
  return {std::make_unique<Matrices>(std::map<std::string, Matrix>{{weight, base}}), /*is_head_tied=*/false,
          std::make_unique<Matrices>(adapter), config};
}

std::vector<float> read(const io::TensorSource& source, const io::Rectangle& where) {
  std::vector<float> values(where.num_elements());
  source.read(weight, where, DType::float32, values.data());
  return values;
}

constexpr io::Rectangle whole{.row_begin = 0, .num_rows = 2, .column_begin = 0, .num_columns = 3};
constexpr io::Rectangle corner{.row_begin = 1, .num_rows = 1, .column_begin = 1, .num_columns = 2};

const std::map<std::string, Matrix> factors{{of_peft + ".lora_A.weight", a}, {of_peft + ".lora_B.weight", b}};

/// The data Error that an adapter is refused with; empty: it is taken.
std::string refusal(const std::map<std::string, Matrix>& adapter, const hub::AdapterConfig& config) {
  try {
    (void)merged(adapter, config);
  } catch (const Error& error) {
    BOOST_TEST((error.status() == ExitStatus::data));
    return error.what();
  }
  return "";
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_scaled_product_of_the_factors_is_added) {
  const hub::MergedWeights weights = merged(factors, rank_one());
  BOOST_TEST(weights.num_adapted() == 1u);
  BOOST_TEST(read(weights, whole) == (std::vector<float>{2, 2, 2, 5.5, 5, 4.5}), boost::test_tools::per_element());
  BOOST_TEST(read(weights, corner) == (std::vector<float>{5, 4.5}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(rows_get_the_norms_of_their_magnitudes) {
  hub::AdapterConfig config = rank_one();
  config.lora.use_dora = true;
  std::map<std::string, Matrix> adapter = factors;
  BOOST_TEST(refusal(adapter, config).find("no magnitudes") != std::string::npos);
  adapter[of_peft + ".lora_magnitude_vector"] = {2, 1, {7, 10}, /*is_vector=*/true};
  const hub::MergedWeights weights = merged(adapter, config);
  const std::vector<float> values = read(weights, whole);
  BOOST_TEST(std::hypot(values[0], values[1], values[2]) == 7.0F, boost::test_tools::tolerance(1e-6F));
  BOOST_TEST(values[0] == values[2]);
  const std::vector<float> part = read(weights, corner);
  const float norm = std::hypot(5.5F, 5.0F, 4.5F);
  BOOST_TEST(part[0] == 10.0F * 5.0F / norm, boost::test_tools::tolerance(1e-6F));
  BOOST_TEST(part[1] == 10.0F * 4.5F / norm, boost::test_tools::tolerance(1e-6F));
}

BOOST_AUTO_TEST_CASE(a_module_that_was_trained_whole_takes_the_place_of_its_weight) {
  hub::AdapterConfig config = rank_one();
  config.lora.modules_to_save = {"q_proj"};
  const hub::MergedWeights weights = merged({{of_peft + ".weight", {2, 3, {9, 8, 7, 6, 5, 4}}}}, config);
  BOOST_TEST(read(weights, corner) == (std::vector<float>{5, 4}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(an_adapter_that_does_not_fit_is_refused_by_tensor) {
  const auto refuses = [](const std::map<std::string, Matrix>& adapter, const std::string& why) {
    const std::string text = refusal(adapter, rank_one());
    BOOST_TEST(text.find(why) != std::string::npos, text);
  };
  refuses({{of_peft + ".lora_A.weight", a}}, "only one of the two matrices");
  refuses({{of_peft + ".lora_A.weight", b}}, "should have 1 x 3 elements");
  refuses({{"model/base_model.model.model.layers.1.self_attn.q_proj.lora_A.weight", a}}, "has no matrix");
  refuses({{"model/base_model.model.model.layers.0.self_attn.q_proj.lora_C.weight", a}}, "none of LoRA");
  hub::AdapterConfig of_another = rank_one();
  of_another.targets = hub::TargetModules::named({"k_proj"});
  BOOST_TEST(refusal(factors, of_another).find("does not name") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
