// SPDX-License-Identifier: Apache-2.0
// What sft-prove makes of numbers: layouts, bounds, and which tensors give a wrong gradient away.
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <limits>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "apps/prove/compare.hpp"
#include "apps/prove/layouts.hpp"
#include "apps/prove/rounding.hpp"
#include "sft/config/valid_config.hpp"

using namespace sft;
using apps::Gap;

namespace {

/// Tensors of one dim in memory.
class Tensors : public io::TensorSource {
 public:
  using Values = std::vector<float>;
  explicit Tensors(std::vector<std::pair<std::string, Values>> tensors) : tensors_(std::move(tensors)) {}

  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override {
    std::vector<io::TensorInfo> infos;
    for (const auto& [name, values] : tensors_) infos.push_back({name, {std::ssize(values)}, DType::float32});
    return infos;
  }
  void read(const std::string& name, const io::Rectangle& where, DType /*dtype*/, void* values) const override {
    for (const auto& [other, held] : tensors_) {
      if (other == name) std::memcpy(values, held.data() + where.row_begin, where.num_rows * sizeof(float));
    }
  }

 private:
  std::string path_ = "memory";
  std::vector<std::pair<std::string, Values>> tensors_;
};

config::Config small_run() {
  config::Config config;
  config.model.hidden_size = 32;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 4;
  config.model.intermediate_size = 48;
  config.model.vocab_size = 272;
  config.data.train_files = {"train.h5"};
  config.train.precision = config::Precision::fp32;
  config.train.max_steps = 5;
  config.train.per_device_train_batch_size = 3;
  config.train.gradient_accumulation_steps = 2;
  return config;
}

std::vector<std::string> not_explained(const std::vector<Gap>& gaps) {
  std::vector<std::string> names;
  for (const Gap& gap : gaps) {
    if (!gap.holds()) names.push_back(gap.what + " " + gap.where);
  }
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(one_rank_has_the_rows_of_all) {
  config::Config config = small_run();
  config.parallel.dp_replicate_size = 2;
  config.parallel.dp_shard_size = 2;
  config.parallel.tp_size = 2;
  const apps::Layout layout{"a.ini", config::validate(config, 8), 8};
  const apps::Layout alone = apps::on_one_rank(layout);
  BOOST_TEST(alone.num_ranks == 1);
  BOOST_TEST(alone.config->effective_batch_rows() == 24);
  BOOST_TEST(alone.config->train.gradient_accumulation_steps == 8);
  BOOST_TEST(apps::keys_of_other_runs(layout, alone).empty());
}

BOOST_AUTO_TEST_CASE(one_rank_has_the_micro_batches_of_all_where_experts_have_an_auxiliary_loss) {
  config::Config config = small_run();
  config.model.num_experts = 4;
  config.model.num_experts_per_tok = 2;
  config.model.moe_intermediate_size = 16;
  config.parallel.dp_shard_size = 4;
  const apps::Layout layout{"a.ini", config::validate(config, 4), 4};
  const apps::Layout alone = apps::on_one_rank(layout);
  BOOST_TEST(alone.config->train.per_device_train_batch_size == 12);
  BOOST_TEST(alone.config->train.gradient_accumulation_steps == 2);
  BOOST_TEST(apps::keys_of_other_runs(layout, alone).empty());
  config.train.gradient_accumulation_steps = 8;
  config.train.per_device_train_batch_size = 3;
  config.parallel.dp_shard_size = 1;
  BOOST_TEST(apps::keys_of_other_runs(layout, {"b.ini", config::validate(config, 1), 1}).size() == 1u);
}

BOOST_AUTO_TEST_CASE(keys_of_another_run_are_named_and_those_of_a_layout_are_not) {
  const config::Config config = small_run();
  config::Config other = config;
  other.train.activation_checkpointing = config::ActivationCheckpointing::full;
  other.parallel.zero_stage = 1;
  other.optimizer.weight_decay = 0.1;
  other.train.gradient_accumulation_steps = 1;
  const std::vector<std::string> keys =
      apps::keys_of_other_runs({"a", config::validate(config, 1), 1}, {"b", config::validate(other, 1), 1});
  BOOST_REQUIRE(keys.size() == 2u);
  BOOST_TEST(keys[0] == "optimizer.weight_decay: 0, 0.1");
  BOOST_TEST(keys[1] == "rows of a step: 6, 3");
}

BOOST_AUTO_TEST_CASE(bounds_grow_with_sums_and_with_the_coarsest_precision) {
  const config::Config fine = *config::validate(small_run(), 1);
  config::Config coarse = fine;
  coarse.train.precision = config::Precision::bf16;
  const apps::Rounding few = apps::rounding_between(fine, fine, 100), many = apps::rounding_between(fine, fine, 100000);
  BOOST_TEST(few.loss < 2e-5);
  BOOST_TEST(few.loss == many.loss);
  BOOST_TEST(many.gradient > 10.0 * few.gradient);
  const apps::Rounding mixed = apps::rounding_between(fine, coarse, 100);
  BOOST_TEST(mixed.loss == apps::rounding_between(coarse, coarse, 100).loss);
  BOOST_TEST(mixed.loss > 100.0 * few.loss);
}

BOOST_AUTO_TEST_CASE(steps_differ_by_tokens_loss_or_norm) {
  const apps::Rounding rounding{.loss = 1e-5, .gradient = 1e-4};
  const std::vector<apps::StepNumbers> first{{.num_tokens = 10, .num_target_tokens = 5, .loss = 2.0, .grad_norm = 1.0}};
  const auto with = [&](auto change) {
    std::vector<apps::StepNumbers> second = first;
    change(second[0]);
    return not_explained(apps::compare_steps(first, second, rounding));
  };
  using Names = std::vector<std::string>;
  BOOST_TEST(with([](apps::StepNumbers& step) { step.loss += 1e-5; }) == Names{}, boost::test_tools::per_element());
  BOOST_TEST(with([](apps::StepNumbers& step) { step.loss += 1e-4; }) == Names{"loss step 1"},
             boost::test_tools::per_element());
  BOOST_TEST(with([](apps::StepNumbers& step) { step.grad_norm *= 1.36; }) == Names{"gradient norm step 1"},
             boost::test_tools::per_element());
  BOOST_TEST(with([](apps::StepNumbers& step) { ++step.num_target_tokens; }) == Names{"tokens step 1"},
             boost::test_tools::per_element());
  BOOST_TEST(with([](apps::StepNumbers& step) { step.loss = std::numeric_limits<double>::quiet_NaN(); }) ==
                 Names{"loss step 1"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_that_adamw_hides_is_found_in_its_moments) {
  const apps::Rounding rounding{.moments = 1e-4, .movement = 1e-2, .stored = 0x1p-24};
  const Tensors start({{"model/a", {1, 1}}, {"model/b", {1, 1}}});
  const Tensors first({{"model/a", {2, 2}}, {"model/b", {2, 2}}, {"exp_avg/a", {3, 4}}, {"exp_avg/b", {3, 4}}});
  const Tensors doubled({{"model/a", {2, 2}}, {"model/b", {2, 2}}, {"exp_avg/a", {3, 4}}, {"exp_avg/b", {6, 8}}});
  const Tensors moved({{"model/a", {2, 2.1F}}, {"model/b", {2, 2}}, {"exp_avg/a", {3, 4}}, {"exp_avg/b", {3, 4}}});
  const Tensors less({{"model/a", {2, 2}}, {"model/b", {2, 2}}, {"exp_avg/a", {3, 4}}});
  const auto found = [&](const Tensors& second) {
    return not_explained(apps::compare_tensors(start, first, second, 5, rounding));
  };
  using Names = std::vector<std::string>;
  BOOST_TEST(found(first) == Names{}, boost::test_tools::per_element());
  BOOST_TEST(found(doubled) == Names{"exp_avg b"}, boost::test_tools::per_element());
  BOOST_TEST(found(moved) == Names{"weights a"}, boost::test_tools::per_element());
  BOOST_TEST(found(less) == Names{"exp_avg b"}, boost::test_tools::per_element());
  BOOST_TEST(not_explained(apps::compare_tensors(start, less, first, 5, rounding)) == Names{"exp_avg exp_avg/b"},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_gradient_that_is_rounding_alone_does_not_count) {
  const apps::Rounding rounding{.moments = 1e-4, .movement = 1e-2, .stored = 0x1p-24};
  const Tensors start({{"model/a", {1, 1}}});
  const Tensors first({{"model/a", {2, 2}}, {"exp_avg/a", {3, 4}}, {"exp_avg/k_bias", {1e-8F, -1e-8F}}});
  const Tensors second({{"model/a", {2, 2}}, {"exp_avg/a", {3, 4}}, {"exp_avg/k_bias", {-1e-8F, 2e-8F}}});
  BOOST_TEST(not_explained(apps::compare_tensors(start, first, second, 5, rounding)).empty());
}

BOOST_AUTO_TEST_CASE(digits_are_those_that_agree) {
  BOOST_TEST(apps::digits_of(0.0) == "all");
  BOOST_TEST(apps::digits_of(1e-7) == "7.0");
  BOOST_TEST(apps::digits_of(std::numeric_limits<double>::infinity()) == "none");
}
