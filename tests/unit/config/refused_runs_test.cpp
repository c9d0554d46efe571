// SPDX-License-Identifier: Apache-2.0
// Runs that cannot be: their data, steps and state, their device, best models and early stopping.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <limits>

#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

const Refused runs_that_cannot_be[] = {
    // offloaded state
    {"`train.offload_optimizer = nvme` has no folder (its files lie in train.offload_folder, which is empty)",
     [](Config& c) { c.train.offload_optimizer = Offload::nvme; }},
    {"`train.offload_parameters = nvme` has no folder", [](Config& c) { c.train.offload_parameters = Offload::nvme; }},
    {"`train.offload_parameters = nvme` does not go with precision = fp32 (it moves the float32 master weights "
     "away, 4 "
     "bytes a parameter beside the 2 that precision = bf16 computes with; here the 4 bytes",
     [](Config& c) {
       c.train.offload_parameters = Offload::nvme, c.train.offload_folder = "scratch";
       c.train.precision = Precision::fp32;
     }},
    {"does not go with precision = pure_bf16",
     [](Config& c) {
       c.train.offload_parameters = Offload::nvme, c.train.offload_folder = "scratch";
       c.train.precision = Precision::pure_bf16;
     }},
    {"`optimizer.moments_dtype = bf16` does not go with optim = adafactor",
     [](Config& c) { c.optimizer.moments_dtype = DType::bf16, c.optimizer.optim = OptimizerKind::adafactor; }},
    {"`optimizer.moments_dtype = bf16` does not go with optim = adamw_8bit",
     [](Config& c) { c.optimizer.moments_dtype = DType::bf16, c.optimizer.optim = OptimizerKind::adamw_8bit; }},
    // steps and data
    {"`data.train_files` is empty", [](Config& c) { c.data.train_files.clear(); }},
    {"`train.per_device_train_batch_size = 0`", [](Config& c) { c.train.per_device_train_batch_size = 0; }},
    {"`train.gradient_accumulation_steps = 0`", [](Config& c) { c.train.gradient_accumulation_steps = 0; }},
    {"`train.max_steps = -2`", [](Config& c) { c.train.max_steps = -2; }},
    {"`train.max_steps = 9223372036854775807` is out of range (it must be -1 (num_train_epochs decides), or "
     "from 0 to",
     [](Config& c) { c.train.max_steps = std::numeric_limits<std::int64_t>::max(); }},
    {"`train.num_train_epochs = 0`", [](Config& c) { c.train.num_train_epochs = 0; }},
    {"`train.label_smoothing_factor = 1.5` is out of range (it must be from 0 (none) to 1)",
     [](Config& c) { c.train.label_smoothing_factor = 1.5; }},
    {"`train.label_smoothing_factor = 0.1` does not go with loss_type = dft",
     [](Config& c) { c.train.label_smoothing_factor = 0.1, c.train.loss_type = LossType::dft; }},
    {"`train.neftune_noise_alpha = -5` is out of range", [](Config& c) { c.train.neftune_noise_alpha = -5; }},
    {"`train.output_dir = `", [](Config& c) { c.train.output_dir = ""; }},
    {"`train.logging_steps = 0`", [](Config& c) { c.train.logging_steps = 0; }},
    // devices
    {"`device.peak_tflops = -1`", [](Config& c) { c.device.peak_tflops = -1; }},
    {"`device.comm_timeout_s = -1`", [](Config& c) { c.device.comm_timeout_s = -1; }},
    {"`device.dp_replicate_max_ctas = -1`", [](Config& c) { c.device.dp_replicate_max_ctas = -1; }},
    {"`device.dp_shard_max_ctas = 65`", [](Config& c) { c.device.dp_shard_max_ctas = 65; }},
    {"`device.sp_max_ctas = -2`", [](Config& c) { c.device.sp_max_ctas = -2; }},
    {"`device.tp_max_ctas = 65` is out of range (it must be 0 (NCCL chooses) to 64)",
     [](Config& c) { c.device.tp_max_ctas = 65; }},
    {"`device.comm = nccl` does not go with backend = cpu",
     [](Config& c) { c.device.comm = CommChoice::nccl, c.device.backend = BackendChoice::cpu; }},
    {"`device.matmul_autotune = true` does not go with backend = cpu",
     [](Config& c) { c.device.matmul_autotune = true, c.device.backend = BackendChoice::cpu; }},
    {"`device.cuda_graphs = true` does not go with backend = cpu",
     [](Config& c) { c.device.cuda_graphs = true, c.device.backend = BackendChoice::cpu; }},
    {"`device.attention = cudnn` does not go with backend = cpu",
     [](Config& c) { c.device.attention = AttentionChoice::cudnn, c.device.backend = BackendChoice::cpu; }},
    {"`device.attention = cudnn_forward` does not go with precision = fp32",
     [](Config& c) { c.device.attention = AttentionChoice::cudnn_forward, c.train.precision = Precision::fp32; }},
    {"`device.attention = cudnn` does not go with precision = fp32",
     [](Config& c) { c.device.attention = AttentionChoice::cudnn, c.train.precision = Precision::fp32; }},
    {"`device.attention = cudnn` does not go with attn_logit_softcapping",
     [](Config& c) {
       c.device.attention = AttentionChoice::cudnn, c.train.precision = Precision::bf16;
       c.model.attn_logit_softcapping = 50.0;
     }},
    {"`device.attention = cudnn_forward` does not go with model.head_dim = 100",
     [](Config& c) {
       c.device.attention = AttentionChoice::cudnn_forward, c.train.precision = Precision::bf16;
       c.model.head_dim = 100;
     }},
    {"`device.attention = hopper` does not go with backend = cpu",
     [](Config& c) { c.device.attention = AttentionChoice::hopper, c.device.backend = BackendChoice::cpu; }},
    {"`device.attention = hopper` does not go with precision = fp32",
     [](Config& c) { c.device.attention = AttentionChoice::hopper, c.train.precision = Precision::fp32; }},
    {"`device.attention = hopper` does not go with model.head_dim = 256",
     [](Config& c) {
       c.device.attention = AttentionChoice::hopper, c.train.precision = Precision::bf16;
       c.model.head_dim = 256;
     }},
    // best models and early stopping
    {"`train.eval_strategy = epoch` has no data (`data.eval_files` is empty)",
     [](Config& c) { c.train.eval_strategy = EvalStrategy::epoch; }},
    {"`train.load_best_model_at_end = true` has no data", [](Config& c) { c.train.load_best_model_at_end = true; }},
    {"`train.load_best_model_at_end = true` has no evaluations to go by (`train.eval_strategy = no`): set "
     "train.eval_strategy to steps or epoch",
     [](Config& c) { load_best(c), c.train.eval_strategy = EvalStrategy::no; }},
    {"`train.load_best_model_at_end = true` has no evaluations to go by (`train.eval_steps = 0` evaluates at "
     "the end "
     "alone)",
     [](Config& c) { load_best(c), c.train.eval_steps = 0; }},
    {"needs evaluations and checkpoints of the same steps (train.eval_strategy = epoch, but "
     "checkpoint.save_strategy = "
     "steps): set checkpoint.save_strategy to epoch or best",
     [](Config& c) { load_best(c), c.train.eval_strategy = EvalStrategy::epoch; }},
    {"needs an evaluation with every checkpoint (checkpoint.save_steps = 50 is no multiple of the 20 steps "
     "between two "
     "evaluations): set checkpoint.save_steps to a multiple of 20, or checkpoint.save_strategy = best",
     [](Config& c) { load_best(c), c.checkpoint.save_steps = 50; }},
    {"needs an evaluation with every checkpoint (`checkpoint.save_steps = 0` saves at the end alone)",
     [](Config& c) { load_best(c), c.checkpoint.save_steps = 0; }},
    {"`checkpoint.save_strategy = best` has no data",
     [](Config& c) { c.checkpoint.save_strategy = SaveStrategy::best; }},
    {"`checkpoint.save_strategy = best` has no metric to go by (`train.metric_for_best_model` is none): set "
     "metric_for_best_model = loss",
     [](Config& c) {
       load_best(c), c.train.load_best_model_at_end = false, c.checkpoint.save_strategy = SaveStrategy::best;
     }},
    {"`train.early_stopping_patience = 3` has no evaluations to go by (`train.eval_strategy = no`)",
     [](Config& c) {
       load_best(c), c.train.load_best_model_at_end = false, c.train.early_stopping_patience = 3,
                     c.train.eval_strategy = EvalStrategy::no;
     }},
    {"`train.early_stopping_patience = 3` has no metric to go by",
     [](Config& c) { load_best(c), c.train.load_best_model_at_end = false, c.train.early_stopping_patience = 3; }},
    {"`train.early_stopping_patience = -1`", [](Config& c) { c.train.early_stopping_patience = -1; }},
    {"`train.early_stopping_threshold = -1`", [](Config& c) { c.train.early_stopping_threshold = -1; }},
    {"`train.nan_skip_limit = 0`", [](Config& c) { c.train.nan_skip_limit = 0; }},
    {"`train.loss_watchdog_threshold = -1`", [](Config& c) { c.train.loss_watchdog_threshold = -1; }},
    {"`train.loss_watchdog_patience = 0`", [](Config& c) { c.train.loss_watchdog_patience = 0; }},
    {"`checkpoint.save_steps = -1`", [](Config& c) { c.checkpoint.save_steps = -1; }},
    {"`checkpoint.save_total_limit = -1`", [](Config& c) { c.checkpoint.save_total_limit = -1; }},
    {"`checkpoint.resume_from_checkpoint = `", [](Config& c) { c.checkpoint.resume_from_checkpoint = ""; }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refused_runs)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(runs_that_cannot_be), refused) {
  check_refused(refused);
}

BOOST_AUTO_TEST_SUITE_END()
