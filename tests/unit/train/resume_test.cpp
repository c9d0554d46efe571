// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <functional>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/train/resume.hpp"

using namespace sft;

namespace {

constexpr std::int64_t num_rows = 100;
constexpr std::int64_t max_length = 64;

config::ValidConfig example() {
  const config::Config config = config::parse(
      "[model]\nhidden_size = 32\nnum_hidden_layers = 2\nnum_attention_heads = 4\nnum_key_value_heads = 2\n"
      "intermediate_size = 64\nvocab_size = 64\n[data]\ntrain_files = a.h5\n"
      "[train]\nper_device_train_batch_size = 2\ngradient_accumulation_steps = 4\nmax_steps = 10\n",
      {}, "example.ini");
  return config::validate(config, 4);
}

checkpoint::Header saved_by(const config::Config& config) {
  checkpoint::Header header;
  header.config_ini = config::to_ini(config);
  header.position.num_rows = num_rows;
  header.position.max_length = max_length;
  header.position.row_order = rank::name_of(rank::row_order(config.data, num_rows));
  return header;
}

/// Whether `error` is a configuration error that names `key`.
std::function<bool(const Error&)> names(const std::string& key) {
  return [key](const Error& error) {
    BOOST_TEST_MESSAGE(error.what());
    return error.status() == ExitStatus::configuration && std::string(error.what()).find(key) != std::string::npos;
  };
}

struct Change {
  const char* key;
  std::function<void(config::Config&)> apply;
};

const std::vector<Change> refused{
    {"model.hidden_size", [](auto& c) { c.model.hidden_size = 64; }},
    {"model.rope_theta", [](auto& c) { c.model.rope_theta = 5e5; }},
    {"model.tie_word_embeddings", [](auto& c) { c.model.tie_word_embeddings = true; }},
    {"data.seed", [](auto& c) { c.data.seed = 7; }},
    {"data.shuffle", [](auto& c) { c.data.shuffle = false; }},
    {"data.row_order", [](auto& c) { c.data.row_order = config::RowOrder::endless; }},
    {"train.seed", [](auto& c) { c.train.seed = 7; }},
};

const std::vector<Change> allowed{
    {"mesh",
     [](auto& c) {
       c.parallel.tp_size = 4;
       c.parallel.dp_shard_size = 1;
       c.train.gradient_accumulation_steps *= 4;
     }},
    {"effective batch", [](auto& c) { c.train.gradient_accumulation_steps = 5; }},
    {"longer run", [](auto& c) { c.train.max_steps = 20; }},
    {"rate", [](auto& c) { c.optimizer.learning_rate = 1e-4; }},
    {"moved data", [](auto& c) { c.data.train_files = {"elsewhere/a.h5"}; }},
    {"precision", [](auto& c) { c.train.precision = config::Precision::fp32; }},
};

}  // namespace

BOOST_AUTO_TEST_CASE(the_same_run_goes_on) {
  BOOST_CHECK_NO_THROW(train::check_resume(example(), num_rows, max_length, "checkpoint-000005", saved_by(example())));
}

BOOST_AUTO_TEST_CASE(changes_that_would_alter_the_run_are_refused_by_key) {
  for (const Change& change : refused) {
    config::Config config = example();
    change.apply(config);
    BOOST_TEST_CONTEXT(change.key) {
      BOOST_CHECK_EXCEPTION(train::check_resume(config, num_rows, max_length, "checkpoint-000005", saved_by(example())),
                            Error, names(change.key));
    }
  }
}

BOOST_AUTO_TEST_CASE(changes_that_would_not_are_allowed) {
  for (const Change& change : allowed) {
    config::Config config = example();
    change.apply(config);
    BOOST_TEST_CONTEXT(change.key) {
      BOOST_CHECK_NO_THROW(train::check_resume(config, num_rows, max_length, "checkpoint-000005", saved_by(example())));
    }
  }
}

BOOST_AUTO_TEST_CASE(checkpoints_that_do_not_say_their_order_have_the_endless_one) {
  config::Config config = example();
  checkpoint::Header saved = saved_by(config);
  saved.position.row_order = checkpoint::Position{}.row_order;
  const auto check = [&] { train::check_resume(config, num_rows, max_length, "checkpoint-000005", saved); };
  BOOST_CHECK_EXCEPTION(check(), Error, names("data.row_order = endless"));
  config.data.row_order = config::RowOrder::endless;
  BOOST_CHECK_NO_THROW(check());
}

BOOST_AUTO_TEST_CASE(other_content_or_order_is_refused_and_both_are_named) {
  checkpoint::Header saved = saved_by(example());
  BOOST_CHECK_NO_THROW(train::check_resume_data("xxh128:1", "checkpoint-000005", saved));  // of sft 0.1.0
  saved.position.data_fingerprint = "xxh128:1";
  BOOST_CHECK_NO_THROW(train::check_resume_data("xxh128:1", "checkpoint-000005", saved));
  const auto check = [&] { train::check_resume_data("xxh128:2", "checkpoint-000005", saved); };
  for (const char* word : {"data.train_files", "xxh128:1", "xxh128:2", "resume_from_checkpoint = none"}) {
    BOOST_CHECK_EXCEPTION(check(), Error, names(word));
  }
}

BOOST_AUTO_TEST_CASE(other_data_is_refused) {
  BOOST_CHECK_EXCEPTION(train::check_resume(example(), 99, max_length, "checkpoint-000005", saved_by(example())), Error,
                        names("data.train_files"));
  BOOST_CHECK_EXCEPTION(train::check_resume(example(), num_rows, 32, "checkpoint-000005", saved_by(example())), Error,
                        names("max_length"));
}

BOOST_AUTO_TEST_CASE(changed_optimizer_keys_are_reported) {
  BOOST_TEST(train::changes_on_resume(example(), "checkpoint-000005", saved_by(example())).empty());
  config::Config config = example();
  config.optimizer.learning_rate = 1e-4;
  config.optimizer.adam_beta2 = 0.95;
  config.train.precision = config::Precision::fp32;
  config.train.max_steps = 20;
  config.parallel.tp_size = 4;
  checkpoint::Header saved = saved_by(example());
  saved.position.step = 5;
  const std::vector<std::string> changes = train::changes_on_resume(config, "checkpoint-000005", saved);
  const std::vector<std::string> expected{
      "train.precision is fp32 from here on; it was bf16 when checkpoint-000005 was written",
      "optimizer.learning_rate is 1e-04 from here on; it was 2e-05 when checkpoint-000005 was written",
      "optimizer.adam_beta2 is 0.95 from here on; it was 0.999 when checkpoint-000005 was written",
      "the run has 20 steps now; it had 10 when checkpoint-000005 was written: the learning rate of step 6 is "
      "7.5e-05, not 1e-05, and comes to 0 after step 20, which is neither the schedule that was begun nor that of a "
      "run of this "
      "length"};
  BOOST_TEST(changes == expected, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(another_batch_is_reported_with_the_row_that_it_begins_with) {
  config::Config config = example();
  config.data.row_order = config::RowOrder::trl;
  checkpoint::Header saved = saved_by(config);
  saved.position.step = 5;
  saved.position.rows_consumed = 132;
  config.train.gradient_accumulation_steps = 2;
  const std::vector<std::string> expected{
      "the effective batch is 16 rows from here on; it was 32 when checkpoint-000005 was written: step 6 begins with "
      "row 33 of epoch 2"};
  BOOST_TEST(train::changes_on_resume(config, "checkpoint-000005", saved) == expected,
             boost::test_tools::per_element());
  const rows::StepOrigin origin = train::origin_of_resume(config, "checkpoint-000005", saved);
  BOOST_TEST((origin == rows::StepOrigin{.step = 5, .rows = 132, .batch_rows_then = 32}));
}

BOOST_AUTO_TEST_CASE(another_length_is_reported_where_the_rate_follows_it) {
  using config::Scheduler;
  const auto changes = [](Scheduler type, double epochs, std::int64_t step,
                          const std::function<void(config::Optimizer&)>& change = {}) {
    config::Config before = example();
    before.train.max_steps = -1;
    before.train.num_train_epochs = 2;
    before.optimizer.lr_scheduler_type = type;
    if (change) change(before.optimizer);
    checkpoint::Header saved = saved_by(before);
    saved.position.step = step;
    saved.position.rows_consumed = rank::step_positions(before, num_rows).begin(step);
    config::Config now = before;
    now.train.num_train_epochs = epochs;
    return train::changes_on_resume(now, "checkpoint-000005", saved);
  };
  for (const Scheduler type :
       {Scheduler::linear, Scheduler::cosine, Scheduler::cosine_with_restarts, Scheduler::polynomial,
        Scheduler::cosine_with_min_lr, Scheduler::cosine_warmup_with_min_lr}) {
    BOOST_TEST(changes(type, 2, 2).empty());
    BOOST_TEST(changes(type, 3, 0).empty());  // nothing is trained yet
    BOOST_TEST(changes(type, 1, 2).size() == 1U);
    BOOST_TEST(changes(type, 3, 2).size() == 1U);
    BOOST_TEST(changes(type, 1, 20).empty());  // nothing is left to train
  }
  const auto warm_up = [](double steps) {
    return [=](config::Optimizer& optimizer) { optimizer.warmup_steps = steps; };
  };
  for (const Scheduler type : {Scheduler::constant, Scheduler::constant_with_warmup, Scheduler::inverse_sqrt,
                               Scheduler::reduce_lr_on_plateau}) {
    BOOST_TEST(changes(type, 3, 2).empty());
  }
  for (const Scheduler type : {Scheduler::constant_with_warmup, Scheduler::inverse_sqrt, Scheduler::linear}) {
    BOOST_TEST(changes(type, 3, 4, warm_up(4)).empty());  // the steps so far are those of a run of this length
    BOOST_TEST(changes(type, 3, 4, warm_up(0.25)).size() == 1U);
  }
  const auto decay = [](config::Optimizer& optimizer) { optimizer.lr_scheduler_kwargs.num_decay_steps = 4; };
  BOOST_TEST(changes(Scheduler::warmup_stable_decay, 3, 3, decay).empty());  // the rate falls from step 5 of 8 on
  BOOST_TEST(changes(Scheduler::warmup_stable_decay, 3, 6, decay).size() == 1U);
}

BOOST_AUTO_TEST_CASE(other_frozen_weights_are_refused_and_both_folders_are_named) {
  checkpoint::Header saved = saved_by(example());
  const auto check = [&](const std::string& fingerprint, const std::string& origin) {
    return train::check_resume_weights(fingerprint, origin, "checkpoint-000005", saved);
  };
  BOOST_TEST(check("xxh3sum:1", "models/a").size() == 1U);  // of an earlier version: a warning
  saved.position.frozen_fingerprint = "xxh3sum:1";
  saved.position.frozen_origin = "models/a";
  BOOST_TEST(check("xxh3sum:1", "moved/a").empty());
  for (const char* words : {"models/b", "models/a", "xxh3sum:1", "xxh3sum:2", "model_revision", "checkpoint-000005"}) {
    BOOST_CHECK_EXCEPTION(check("xxh3sum:2", "models/b"), Error, [&](const Error& error) {
      return error.status() == ExitStatus::data && std::string(error.what()).find(words) != std::string::npos;
    });
  }
  saved.position.frozen_fingerprint = train::random_weights;
  BOOST_TEST(check(train::random_weights, "random").empty());
  BOOST_CHECK_THROW(check("xxh3sum:2", "models/b"), Error);
}
