// SPDX-License-Identifier: Apache-2.0
// Optimizers and schedules of the learning rate that cannot be.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

/// A schedule that has evaluations to go by.
void set_schedule(Config& config, Scheduler type, const SchedulerKwargs& kwargs = {}) {
  config.data.eval_files = {"eval.h5"};
  config.optimizer.lr_scheduler_type = type;
  config.optimizer.lr_scheduler_kwargs = kwargs;
}

const Refused schedules_that_cannot_be[] = {
    {"`optimizer.learning_rate = -1`", [](Config& c) { c.optimizer.learning_rate = -1; }},
    {"`optimizer.warmup_steps = -1`", [](Config& c) { c.optimizer.warmup_steps = -1; }},
    {"`optimizer.warmup_steps = 1e+300`", [](Config& c) { c.optimizer.warmup_steps = 1e300; }},
    {"`optimizer.warmup_ratio = -0.1` is out of range (it must be from 0 to 1)",
     [](Config& c) { c.optimizer.warmup_ratio = -0.1; }},
    {"`optimizer.warmup_ratio = 1.5`", [](Config& c) { c.optimizer.warmup_ratio = 1.5; }},
    {"`optimizer.warmup_steps = 0.5` and warmup_ratio = 0.1 contradict each other (both say how long warm-up "
     "is): keep "
     "one of them",
     [](Config& c) { c.optimizer.warmup_steps = 0.5, c.optimizer.warmup_ratio = 0.1; }},
    {"`optimizer.weight_decay = -0.1`", [](Config& c) { c.optimizer.weight_decay = -0.1; }},
    {"`optimizer.adam_beta1 = 1`", [](Config& c) { c.optimizer.adam_beta1 = 1; }},
    {"`optimizer.adam_beta2 = -1`", [](Config& c) { c.optimizer.adam_beta2 = -1; }},
    {"`optimizer.adam_epsilon = 0`", [](Config& c) { c.optimizer.adam_epsilon = 0; }},
    {"`optimizer.muon_momentum = 1`", [](Config& c) { c.optimizer.muon_momentum = 1; }},
    {"`optimizer.max_grad_norm = -1`", [](Config& c) { c.optimizer.max_grad_norm = -1; }},
    {"warmup_steps = 3 would be ignored (lr_scheduler_type = constant has no warm-up): set lr_scheduler_type = "
     "constant_with_warmup, or warmup_steps = 0",
     [](Config& c) { c.optimizer.lr_scheduler_type = Scheduler::constant, c.optimizer.warmup_steps = 3; }},
    {"warmup_ratio = 0.1 would be ignored (lr_scheduler_type = constant has no warm-up)",
     [](Config& c) { c.optimizer.lr_scheduler_type = Scheduler::constant, c.optimizer.warmup_ratio = 0.1; }},
    {"warmup_steps = 0.1 would be ignored (lr_scheduler_type = reduce_lr_on_plateau has no warm-up)",
     [](Config& c) { set_schedule(c, Scheduler::reduce_lr_on_plateau), c.optimizer.warmup_steps = 0.1; }},
    // what a schedule lets one choose
    {"`optimizer.lr_scheduler_kwargs` has a power that would be ignored (lr_scheduler_type = cosine takes "
     "num_cycles)",
     [](Config& c) { set_schedule(c, Scheduler::cosine, {.power = 2}); }},
    {"has a num_cycles that would be ignored (lr_scheduler_type = linear takes none): leave it out, or",
     [](Config& c) { set_schedule(c, Scheduler::linear, {.num_cycles = 2}); }},
    {"takes mode, factor, patience, threshold, threshold_mode, cooldown, min_lr, eps)",
     [](Config& c) { set_schedule(c, Scheduler::reduce_lr_on_plateau, {.min_lr_rate = 0.1}); }},
    {"lr_scheduler_type = polynomial cannot fall to its lr_end (lr_end = 0.001 is not below "
     "optimizer.learning_rate = "
     "2e-05): set a smaller one",
     [](Config& c) { set_schedule(c, Scheduler::polynomial, {.lr_end = 1e-3}); }},
    {"lr_end = 1e-07 is not below optimizer.learning_rate = 1e-07",
     [](Config& c) { set_schedule(c, Scheduler::polynomial), c.optimizer.learning_rate = 1e-7; }},
    {"`optimizer.lr_scheduler_kwargs` has both min_lr and min_lr_rate (both say how far the rate falls",
     [](Config& c) { set_schedule(c, Scheduler::cosine_with_min_lr, {.min_lr = 1e-6, .min_lr_rate = 0.1}); }},
    {"lr_scheduler_type = cosine_warmup_with_min_lr does not know how far the rate falls "
     "(`optimizer.lr_scheduler_kwargs` has neither min_lr nor min_lr_rate): set one of them",
     [](Config& c) { set_schedule(c, Scheduler::cosine_warmup_with_min_lr); }},
    {"min_lr / learning_rate = 1e-06 / 0",
     [](Config& c) {
       set_schedule(c, Scheduler::cosine_with_min_lr, {.min_lr = 1e-6}), c.optimizer.learning_rate = 0;
     }},
    {"lr_scheduler_type = warmup_stable_decay does not know how long the rate falls "
     "(`optimizer.lr_scheduler_kwargs` has no num_decay_steps): set it",
     [](Config& c) { set_schedule(c, Scheduler::warmup_stable_decay, {.num_stable_steps = 10}); }},
    {"lr_scheduler_type = reduce_lr_on_plateau has no losses to go by (`data.eval_files` is empty): set "
     "data.eval_files",
     [](Config& c) { set_schedule(c, Scheduler::reduce_lr_on_plateau), c.data.eval_files.clear(); }},
    {"has no losses to go by (`train.eval_steps = 0` evaluates at the end alone): set train.eval_steps",
     [](Config& c) { set_schedule(c, Scheduler::reduce_lr_on_plateau), c.train.eval_steps = 0; }},
    {"has no losses to go by (`train.eval_strategy = no`): set train.eval_strategy to steps or epoch",
     [](Config& c) { set_schedule(c, Scheduler::reduce_lr_on_plateau), c.train.eval_strategy = EvalStrategy::no; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refused_schedules)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(schedules_that_cannot_be), refused) {
  check_refused(refused);
}

BOOST_AUTO_TEST_SUITE_END()
