// SPDX-License-Identifier: Apache-2.0
// What follows from a configuration that can run: the batch, limits of rows, what it leaves, evaluations.
#include <boost/test/unit_test.hpp>
#include <cstdint>

#include "sft/config/head_groups.hpp"
#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"
#include "unit/config/small_config.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

BOOST_AUTO_TEST_SUITE(derived)

BOOST_AUTO_TEST_CASE(the_effective_batch_counts_data_parallel_ranks) {
  Config config = valid_config();
  set_mesh(config, 2, 3, 4, 1);
  config.train.per_device_train_batch_size = 5;
  config.train.gradient_accumulation_steps = 7;
  BOOST_TEST(validate(config, 24)->effective_batch_rows() == 5 * 2 * 3 * 7);
}

BOOST_AUTO_TEST_CASE(rows_of_any_length_can_be_cut_but_a_rank_has_a_limit) {
  Config config = valid_config();
  set_mesh(config, 1, 1, 4, 1);
  const ValidConfig valid = validate(config, 4);
  for (const std::int64_t max_length : {512, 500, 501, 3}) validate_data(valid, max_length, 272, "train.h5");
  const ValidConfig large = valid.with([](Config& c) { c.train.per_device_train_batch_size = 1 << 20; });
  validate_data(large, (1 << 13) - 1, 272, "train.h5");
  check_says(refusal([&] { validate_data(large, 1 << 13, 272, "train.h5"); }), "= 2147483648, above 2147483647");
}

BOOST_AUTO_TEST_CASE(rows_are_as_long_as_positions_count) {
  Config config = valid_config();
  config.train.per_device_train_batch_size = 1;
  set_mesh(config, 1, 1, 16, 1);
  const ValidConfig valid = validate(config, 16);
  for (const int bits : {24, 30}) validate_data(valid, std::int64_t{1} << bits, 272, "train.h5");
  validate_data(valid, (std::int64_t{1} << 31) - 1, 272, "train.h5");
  check_says(refusal([&] { validate_data(valid, std::int64_t{1} << 31, 272, "train.h5"); }),
             "rows of train.h5 are too long (2147483648 tokens, but positions are counted up to 2147483647)");
}

BOOST_AUTO_TEST_CASE(heads_that_follow_from_others_are_not_refused_beside_them) {
  Config config = valid_config();
  config.model.num_attention_heads = config.model.num_key_value_heads = 0;
  config.model.head_dim = 8;
  const std::string text = refusal([&] { static_cast<void>(validate(config, 1)); });
  check_says(text, "`model.num_attention_heads` is not set");
  BOOST_TEST(text.find("num_key_value_heads") == std::string::npos);
}

BOOST_AUTO_TEST_CASE(offloading_on_a_cpu_needs_a_folder) {
  Config config = valid_config();
  config.train.activation_offload = true;
  check_says(refusal([&] { (void)validate(config, 1); }), "set train.offload_folder");
  config.train.offload_folder = "scratch";
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
  config.train.mlp_tile_tokens = -1;
  check_says(refusal([&] { (void)validate(config, 1); }), "`train.mlp_tile_tokens = -1` is out of range");
}

BOOST_AUTO_TEST_CASE(activations_of_gpus_in_files_need_a_folder) {
  Config config = valid_config();
  config.device.backend = BackendChoice::cuda;
  config.train.activation_offload_to = ActivationPlace::nvme;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));  // nothing is offloaded
  config.train.activation_offload = true;
  check_says(refusal([&] { (void)validate(config, 1); }),
             "with `activation_offload_to = nvme` activations are offloaded to files, and `train.offload_folder` is "
             "empty");
  config.train.offload_folder = "scratch";
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
}

BOOST_AUTO_TEST_CASE(groups_of_heads_are_refused_where_all_heads_are_needed_at_once) {
  Config config = valid_config();
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 4;
  config.train.activation_checkpointing = ActivationCheckpointing::full;
  for (const std::int64_t groups : {1, 2, 4}) {
    config.train.attention_head_groups = groups;
    BOOST_CHECK_NO_THROW((void)validate(config, 1));
  }
  config.train.attention_head_groups = 3;
  check_says(refusal([&] { (void)validate(config, 1); }),
             "`train.attention_head_groups = 3` does not divide the key/value heads of a rank (it has 4)");
  config.train.attention_head_groups = 4;
  config.parallel.tp_size = 2;
  check_says(refusal([&] { (void)validate(config, 2); }), "does not divide the key/value heads of a rank (it has 2)");
  config.parallel = {};
  config.train.fp8 = Fp8::blockwise;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
  config.train.fp8 = Fp8::none;
  config.lora.use_peft = true;
  config.lora.use_dora = true;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
  config.lora = {};
  config.train.activation_checkpointing = ActivationCheckpointing::selective;
  check_says(refusal([&] { (void)validate(config, 1); }), "are kept without activation_checkpointing = full");
}

BOOST_AUTO_TEST_CASE(ranks_that_exchange_heads_have_as_many_of_each_group) {
  Config config = valid_config();
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 4;
  config.train.activation_checkpointing = ActivationCheckpointing::full;
  config.parallel.sp_size = 4;
  const auto most = [&](SpMethod method, int ulysses_size = 0) {
    config.parallel.sp_method = method;
    config.parallel.ulysses_size = ulysses_size;
    const std::int64_t groups = most_head_groups(config);
    config.train.attention_head_groups = groups;
    BOOST_CHECK_NO_THROW((void)validate(config, 4));
    return groups;
  };
  BOOST_TEST(most(SpMethod::ring) == 4);
  BOOST_TEST(most(SpMethod::all_gather) == 4);
  BOOST_TEST(most(SpMethod::hybrid, 2) == 4);
  BOOST_TEST(most(SpMethod::ulysses) == 2);
  config.train.attention_head_groups = 4;
  check_says(
      refusal([&] { (void)validate(config, 4); }),
      "`train.attention_head_groups = 4` leaves groups whose heads the ranks of sp cannot exchange (2 query heads "
      "for 4 ranks): set it to 2 or auto, or parallel.sp_method to ring");
}

BOOST_AUTO_TEST_CASE(rows_must_not_reach_beyond_what_rotation_is_made_for) {
  Config config = valid_config();
  config.model.sliding_window = 128;
  config.model.rope_scaling = {.rope_type = RopeType::dynamic, .factor = 2.0, .original_max_position_embeddings = 256};
  validate_data(validate(config, 1), 256, 272, "train.h5");
  check_says(refusal([&] { validate_data(validate(config, 1), 258, 272, "train.h5"); }),
             "original_max_position_embeddings = 256");
  config.model.rope_scaling.rope_type = RopeType::longrope;
  config.model.rope_scaling.short_factor = config.model.rope_scaling.long_factor = {1, 1, 1, 1};
  validate_data(validate(config, 1), 256, 272, "train.h5");
  check_says(refusal([&] { validate_data(validate(config, 1), 258, 272, "train.h5"); }), "rope_type = longrope");
}

BOOST_AUTO_TEST_CASE(a_model_folder_is_left_when_the_run_began_from_one) {
  Config config = valid_config();
  BOOST_TEST((validate(config, 1)->checkpoint.save_hub_model == HubModel::never));
  config.model.model_name_or_path = "models/x";
  BOOST_TEST((validate(config, 1)->checkpoint.save_hub_model == HubModel::at_end));
  config.checkpoint.save_hub_model = HubModel::every_save;
  BOOST_TEST((validate(config, 1)->checkpoint.save_hub_model == HubModel::every_save));
}

BOOST_AUTO_TEST_CASE(a_copy_for_saving_is_held_only_where_there_are_saves_before_the_end) {
  config::Checkpoint checkpoint{.save_steps = 5, .async = true};
  BOOST_TEST(checkpoint.has_snapshot());
  checkpoint.save_steps = 0;
  BOOST_TEST(!checkpoint.has_snapshot());
  checkpoint = {.save_steps = 5, .async = std::nullopt};
  BOOST_TEST(!checkpoint.has_snapshot());
}

BOOST_AUTO_TEST_CASE(the_model_must_know_every_token) {
  const ValidConfig config = validate(valid_config(), 1);
  validate_data(config, 512, 260, "train.h5");
  check_says(refusal([&] { validate_data(config, 512, 300, "train.h5"); }), "set vocab_size to 300 or more");
}

BOOST_AUTO_TEST_CASE(evaluation_needs_data) {
  Config config = valid_config();
  config.data.eval_files.clear();
  config.train.eval_steps = 0;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
  config.train.eval_steps = 10;
  check_says(refusal([&] { (void)validate(config, 1); }),
             "`train.eval_steps = 10` has no data (`data.eval_files` is empty)");
  config.train.eval_steps = -1;
  config.train.eval_on_start = true;
  check_says(refusal([&] { (void)validate(config, 1); }), "`train.eval_on_start = true` has no data");
  config.data.eval_files = {"eval.h5"};
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
}

BOOST_AUTO_TEST_CASE(a_metric_follows_from_who_needs_it_and_its_sense_from_its_name) {
  Config config = valid_config();
  BOOST_TEST(!validate(config, 1)->train.metric_for_best_model);
  BOOST_TEST(!validate(config, 1)->train.greater_is_better);
  load_best(config);
  BOOST_TEST((validate(config, 1)->train.metric_for_best_model == EvalMetric::loss));
  BOOST_TEST((validate(config, 1)->train.greater_is_better == false));
  for (const EvalMetric metric : {EvalMetric::mean_token_accuracy, EvalMetric::entropy}) {
    config.train.metric_for_best_model = metric;
    BOOST_TEST((validate(config, 1)->train.greater_is_better == true));  // also of entropy, as in transformers
  }
  config.train.greater_is_better = false;
  BOOST_TEST((validate(config, 1)->train.greater_is_better == false));
  config.train.eval_strategy = EvalStrategy::epoch;
  config.checkpoint.save_strategy = SaveStrategy::epoch;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
  config.checkpoint.save_strategy = SaveStrategy::best;
  BOOST_CHECK_NO_THROW((void)validate(config, 1));
}

BOOST_AUTO_TEST_CASE(evaluation_works_in_the_memory_of_training) {
  Config config = valid_config();
  set_mesh(config, 1, 1, 4, 1);
  const ValidConfig valid = validate(config, 4);
  validate_eval_data(valid, 512, 272, "eval.h5", 512);
  validate_eval_data(valid, 499, 272, "eval.h5", 512);
  const std::string longer = refusal([&] { validate_eval_data(valid, 513, 272, "eval.h5", 512); });
  check_says(longer, "rows of eval.h5 are longer than those that are trained on");
  check_says(longer, "--max_length 512");
  check_says(refusal([&] { validate_eval_data(valid, 512, 300, "eval.h5", 512); }),
             "the model cannot read eval.h5 (its tokens run to vocab_size = 300");
}

BOOST_AUTO_TEST_SUITE_END()
