// SPDX-License-Identifier: Apache-2.0
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <ostream>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "support/config_error.hpp"
#include "unit/config/small_config.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

BOOST_AUTO_TEST_SUITE(validation)

namespace {

struct Mesh {
  int replicate, shard, sp, tp, world_size;
  int resolved_shard;
};

std::ostream& operator<<(std::ostream& out, const Mesh& mesh) {
  return out << mesh.replicate << "x" << mesh.shard << "x" << mesh.sp << "x" << mesh.tp << " on " << mesh.world_size;
}

const Mesh good_meshes[] = {
    {1, 0, 1, 1, 1, 1}, {1, 0, 1, 1, 16, 16}, {2, 2, 2, 2, 16, 2},    {2, 0, 2, 2, 16, 2}, {3, 1, 2, 1, 6, 1},
    {2, 1, 1, 4, 8, 1}, {1, 5, 3, 1, 15, 5},  {8, 0, 16, 8, 1024, 1}, {1, 1, 1, 8, 8, 1},  {4, 0, 8, 8, 4096, 16},
};

}  // namespace

BOOST_DATA_TEST_CASE(a_mesh_that_fills_the_world_is_accepted, boost::unit_test::data::make(good_meshes), mesh) {
  Config config = valid_config();
  set_mesh(config, mesh.replicate, mesh.shard, mesh.sp, mesh.tp);
  BOOST_TEST(validate(config, mesh.world_size)->parallel.dp_shard_size == mesh.resolved_shard);
}

BOOST_AUTO_TEST_CASE(sizes_are_derived) {
  Config config = valid_config();
  config.model.num_key_value_heads = 0;
  BOOST_TEST(validate(config, 1)->model.num_key_value_heads == 8);
  BOOST_TEST(validate(config, 1)->model.head_dim == 8);
  config.model.head_dim = 16;  // need not divide hidden_size
  BOOST_TEST(validate(config, 1)->model.head_dim == 16);
}

BOOST_AUTO_TEST_CASE(a_validated_config_stays_valid) {
  Config config = valid_config();
  set_mesh(config, 2, 0, 2, 1);
  const std::string resolved = to_ini(validate(config, 8));
  const Config again = parse(resolved, {}, "resolved.ini");
  BOOST_TEST(to_ini(validate(again, 8)) == resolved);
}

BOOST_AUTO_TEST_CASE(a_change_is_validated_for_as_many_ranks) {
  Config config = valid_config();
  set_mesh(config, 2, 0, 2, 1);
  const ValidConfig valid = validate(config, 8);
  const ValidConfig changed = valid.with([](Config& c) { set_mesh(c, 1, 0, 2, 1); });
  BOOST_TEST(changed->parallel.dp_shard_size == 4);
  BOOST_TEST(valid->parallel.dp_shard_size == 2);
  check_says(refusal([&] { (void)valid.with([](Config& c) { set_mesh(c, 3, 0, 1, 1); }); }), "cannot fill 8");
}

BOOST_AUTO_TEST_CASE(what_stands_by_itself_is_refused_at_once) {
  Config config = valid_config();
  config.model.hidden_size = -1;
  config.model.rope_theta = 0;
  config.model.pad_token_id = -5;  // told of once the vocabulary is known to be right
  config.train.per_device_train_batch_size = 0;
  config.train.gradient_accumulation_steps = 0;
  config.train.label_smoothing_factor = 0.5;
  config.train.loss_type = LossType::dft;
  config.optimizer.learning_rate = -1;
  config.optimizer.adam_beta1 = 2;
  config.optimizer.optim = OptimizerKind::adafactor;
  config.optimizer.moments_dtype = DType::bf16;
  config.train.early_stopping_patience = -1;
  config.train.nan_skip_limit = 0;
  config.train.loss_watchdog_patience = 0;
  const std::string text = refusal([&] { static_cast<void>(validate(config, 1)); });
  for (const char* part : {"11 settings cannot be used", "early_stopping_patience = -1", "hidden_size = -1",
                           "rope_theta = 0", "per_device_train_batch_size = 0", "gradient_accumulation_steps = 0",
                           "label_smoothing_factor = 0.5", "learning_rate = -1", "adam_beta1 = 2",
                           "moments_dtype = bf16", "nan_skip_limit = 0", "loss_watchdog_patience = 0"}) {
    check_says(text, part);
  }
}

BOOST_AUTO_TEST_CASE(several_sizes_of_a_mesh_and_of_adapters_are_refused_at_once) {
  Config config = valid_config();
  config.parallel.sp_size = 0;
  config.parallel.zero_stage = 7;
  const std::string mesh = refusal([&] { static_cast<void>(validate(config, 1)); });
  for (const char* part : {"2 settings cannot be used", "sp_size = 0", "zero_stage = 7"}) check_says(mesh, part);
  config = valid_config();
  config.lora.use_peft = true;
  config.lora.lora_r = 0;
  config.lora.lora_dropout = 1;
  const auto check_modules = [](const Config&) { throw_config_error("`lora.x` names query", "no", "none"); };
  const std::string adapters = refusal([&] { static_cast<void>(validate(config, 1, check_modules)); });
  for (const char* part : {"3 settings cannot be used", "lora_r = 0", "lora_dropout = 1", "names query"}) {
    check_says(adapters, part);
  }
}

BOOST_AUTO_TEST_SUITE_END()
