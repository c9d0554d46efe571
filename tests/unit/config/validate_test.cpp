// SPDX-License-Identifier: Apache-2.0
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <functional>
#include <limits>
#include <ostream>

#include "sft/config/parse.hpp"
#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"
#include "unit/config/small_config.hpp"

using namespace sft;
using namespace sft::config;
using test::check_says;
using test::refusal;

namespace {

void set_experts(Config& config, std::int64_t num_experts, std::int64_t choices) {
  config.model.num_experts = num_experts;
  config.model.num_experts_per_tok = choices;
  config.model.moe_intermediate_size = 16;
}

/// Of both layers of the model, which get experts.
void adapt_experts(Config& config, const std::string& target) {
  set_experts(config, 4, 2);
  config.lora.use_peft = true;
  config.lora.lora_dropout = 0.0;
  config.lora.lora_target_parameters = {target};
}

void set_sigmoid_experts(Config& config, std::int64_t num_experts, std::int64_t choices) {
  set_experts(config, num_experts, choices);
  config.model.scoring_func = ScoringFunc::sigmoid;
  config.model.router_aux_loss_coef = 0.0;
}

/// reshard_after_forward = N.
void reshard_to(Config& config, int num_neighbours) {
  config.parallel.reshard_after_forward = Reshard::to_groups;
  config.parallel.reshard_size = num_neighbours;
}

/// A schedule that has evaluations to go by.
void set_schedule(Config& config, Scheduler type, const SchedulerKwargs& kwargs = {}) {
  config.data.eval_files = {"eval.h5"};
  config.optimizer.lr_scheduler_type = type;
  config.optimizer.lr_scheduler_kwargs = kwargs;
}

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

struct Refused {
  const char* says;
  std::function<void(Config&)> change;
  int world_size = 1;
};

std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.says; }

const Refused
    refused_configs[] =
        {
            // mesh
            {"2 x 3 x 2 x 2 = 24 ranks (dp_replicate x dp_shard x sp x tp), but there are 16",
             [](Config& c) { set_mesh(c, 2, 3, 2, 2); }, 16},
            {"start `mpirun -np 24`, or set dp_shard_size = 2", [](Config& c) { set_mesh(c, 2, 3, 2, 2); }, 16},
            {"or choose sizes whose product is 15", [](Config& c) { set_mesh(c, 2, 2, 2, 2); }, 15},
            {"2 x auto x 2 x 2 ranks (dp_replicate x dp_shard x sp x tp) cannot fill 12 (12 is no multiple of 2 x 2 x "
             "2 = 8): "
             "start `mpirun -np 16`",
             [](Config& c) { set_mesh(c, 2, 0, 2, 2); }, 12},
            {"32768 x 32768 x 32768 x 8 = 281474976710656 ranks",
             [](Config& c) { set_mesh(c, 32768, 32768, 32768, 8); }, 16},
            {"`parallel.tp_size = 0` is out of range", [](Config& c) { c.parallel.tp_size = 0; }},
            {"`parallel.sp_size = -2` is out of range", [](Config& c) { c.parallel.sp_size = -2; }},
            {"`parallel.dp_shard_size = -1` is out of range", [](Config& c) { c.parallel.dp_shard_size = -1; }},
            {"`parallel.zero_stage = 4` is out of range (it must be 0, 1, 2 or 3)",
             [](Config& c) { c.parallel.zero_stage = 4; }},
            {"`parallel.reshard_after_forward = 4` does not fit the mesh (the ranks that share parameters, "
             "dp_shard_size x "
             "sp_size = 3 x 2 = 6, are no multiple of 4): set it to true, false or one of 2, 3, 6",
             [](Config& c) { reshard_to(c, 4), set_mesh(c, 1, 0, 2, 1); }, 6},
            {"`parallel.reshard_after_forward = 2` does not fit the mesh (the ranks that share parameters, "
             "dp_shard_size x "
             "sp_size = 1 x 1 = 1, are no multiple of 2): set it to true",
             [](Config& c) { reshard_to(c, 2); }},
            {"`parallel.reshard_after_forward = 2` has nothing to do (with zero_stage = 1 parameters stay whole on "
             "every rank)",
             [](Config& c) { reshard_to(c, 2), c.parallel.zero_stage = 1, set_mesh(c, 1, 4, 1, 1); }, 4},
            {"`parallel.ep_size = 0` is out of range", [](Config& c) { c.parallel.ep_size = 0; }},
            {"`parallel.ep_size = 2` has nothing to do (the model has no experts",
             [](Config& c) { c.parallel.ep_size = 2; }, 2},
            {"`parallel.ep_size = 4` does not fit the model (num_experts / ep_size = 6 / 4 is no whole number): choose a "
             "divisor of 6",
             [](Config& c) { set_experts(c, 6, 2), c.parallel.ep_size = 4; }, 4},
            {"`parallel.ep_size = 2` does not go with reshard_after_forward = 2 (1 share each expert, dp_shard x sp, "
             "which is no multiple of 2)",
             [](Config& c) { set_experts(c, 6, 2), reshard_to(c, 2), c.parallel.ep_size = 2; }, 2},
            {"1 x 2 x 2 x 1 x 1 = 4 ranks (dp_replicate x dp_shard x ep x sp x tp), but there are 8",
             [](Config& c) { set_experts(c, 6, 2), set_mesh(c, 1, 2, 1, 1), c.parallel.ep_size = 2; }, 8},
            {"`parallel.ulysses_size = -1` is out of range", [](Config& c) { c.parallel.ulysses_size = -1; }},
            // what exchanges heads: 8 query heads
            {"8 / 1 = 8 heads, and 8 / sp_size = 8 / 3 is no whole number): set sp_method = hybrid with a ulysses_size "
             "of 1,",
             [](Config& c) { set_mesh(c, 1, 1, 3, 1), c.parallel.sp_method = SpMethod::ulysses; }, 3},
            {"8 / 2 = 4 heads, and 4 / sp_size = 4 / 8 is no whole number): set sp_method = hybrid with a ulysses_size "
             "of 1, "
             "2, 4",
             [](Config& c) { set_mesh(c, 1, 1, 8, 2), c.parallel.sp_method = SpMethod::ulysses; }, 16},
            {"`parallel.ulysses_size = 3` does not fit (it has to divide sp_size = 4 and the query heads of a rank: "
             "num_attention_heads / tp_size = 8 / 1 = 8 heads): set it to one of 1, 2, 4",
             [](Config& c) {
               set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::hybrid, c.parallel.ulysses_size = 3;
             },
             4},
            {"`parallel.ulysses_size = 2` contradicts sp_method = ulysses (with it all sp_size = 4 ranks exchange "
             "heads)",
             [](Config& c) {
               set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::ulysses, c.parallel.ulysses_size = 2;
             },
             4},
            {"`parallel.ulysses_size = 2` would be ignored (this sp_method exchanges no heads)",
             [](Config& c) { set_mesh(c, 1, 1, 4, 1), c.parallel.ulysses_size = 2; }, 4},
            {"`parallel.ulysses_size = 2` would be ignored (sp_method = auto chooses it)",
             [](Config& c) {
               set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::automatic, c.parallel.ulysses_size = 2;
             },
             4},
            // adapters
            {"`lora.rank_pattern` has q_prj, which no adapter's path ends with (such a path is "
             "model.layers.0.self_attn.q_proj)",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.rank_pattern = {{"q_prj", 4}};
             }},
            {"`lora.rank_pattern = {\"q_proj\":2.5}` is out of range (it must be an object of whole numbers from 1 to "
             "4096)",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.rank_pattern = {{"q_proj", 2.5}};
             }},
            {"`lora.alpha_pattern` has (q_proj, which is no regular expression",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.alpha_pattern = {{"(q_proj", 4}};
             }},
            {"`lora.layers_to_transform = 0 9` is out of range (it must be numbers of blocks, below num_hidden_layers "
             "= 2)",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.layers_to_transform = {0, 9};
             }},
            {"`lora.layers_pattern` has nothing to do",
             [](Config& c) { c.lora.use_peft = true, c.lora.layers_pattern = {"layers"}; }},
            {"`lora.layers_pattern = h` leaves no layer to adapt",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.layers_to_transform = {0}, c.lora.layers_pattern = {"h"};
             }},
            {"`lora.modules_to_save` names q_proj",
             [](Config& c) { c.lora.use_peft = true, c.lora.modules_to_save = {"q_proj"}; }},
            {"`lora.modules_to_save` names k_norm",
             [](Config& c) { c.lora.use_peft = true, c.lora.modules_to_save = {"k_norm"}; }},
            {"`lora.modules_to_save` names lm_head of a model with tied embeddings",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.modules_to_save = {"lm_head"}, c.model.tie_word_embeddings = true;
             }},
            {"`lora.init_lora_weights = olora` does not go with lora.load_in_4bit",
             [](Config& c) {
               c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m";
               c.lora.init_lora_weights.kind = LoraInit::olora;
             }},
            {"`lora.init_lora_weights = pissa_niter_8` does not go with rank 17 of model.layers.0.self_attn.k_proj (that "
             "weight has 16 singular values",
             [](Config& c) {
               c.lora.use_peft = true, c.lora.lora_r = 17, c.lora.init_lora_weights = {LoraInit::pissa, 8};
               c.lora.lora_target_modules = {"k_proj"};
             }},
            {"`lora.lora_target_parameters` names mlp.experts.down_proj (it is about weights of experts, and this model "
             "has none)",
             [](Config& c) { c.lora.use_peft = true, c.lora.lora_target_parameters = {"mlp.experts.down_proj"}; }},
            {"`lora.lora_target_parameters` names experts.up_proj (weights that can be named are such as "
             "model.layers.0.mlp.experts.gate_up_proj and model.layers.0.mlp.experts.down_proj)",
             [](Config& c) { adapt_experts(c, "experts.up_proj"); }},
            {"`lora.lora_dropout = 0.05` does not go with lora.lora_target_parameters",
             [](Config& c) { adapt_experts(c, "experts.down_proj"), c.lora.lora_dropout = 0.05; }},
            {"`lora.use_dora` does not go with lora.lora_target_parameters",
             [](Config& c) { adapt_experts(c, "experts.down_proj"), c.lora.use_dora = true; }},
            {"`lora.init_lora_weights = pissa` does not go with lora.lora_target_parameters",
             [](Config& c) {
               adapt_experts(c, "down_proj"), c.lora.lora_r = 1, c.lora.init_lora_weights.kind = LoraInit::pissa;
             }},
            {"`lora.rank_pattern` has experts.gate_up_proj, which no adapter's path ends with",
             [](Config& c) {
               adapt_experts(c, "model.layers.1.mlp.experts.down_proj");
               c.lora.rank_pattern = {{"experts.gate_up_proj", 4}};
             }},
            {"`lora.loraplus_lr_ratio = 0`", [](Config& c) { c.lora.use_peft = true, c.lora.loraplus_lr_ratio = 0; }},
            {"`lora.load_in_4bit` needs `lora.use_peft`", [](Config& c) { c.lora.load_in_4bit = true; }},
            {"`lora.load_in_4bit` needs `model.model_name_or_path`",
             [](Config& c) { c.lora.use_peft = c.lora.load_in_4bit = true; }},
            {"`lora.load_in_4bit` does not fit hidden_size = 80",
             [](Config& c) {
               c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m",
               c.model.hidden_size = 80;
             }},
            {"`train.fp8 = blockwise` does not go with lora.load_in_4bit",
             [](Config& c) {
               c.lora.use_peft = c.lora.load_in_4bit = true, c.model.model_name_or_path = "m";
               c.model.hidden_size = c.model.intermediate_size = 128;
               c.train.fp8 = Fp8::blockwise;
             }},
            {"`train.fp8 = tensorwise` does not go with lora.use_dora",
             [](Config& c) { c.lora.use_peft = c.lora.use_dora = true, c.train.fp8 = Fp8::tensorwise; }},
            // what TP cuts
            {"8 / tp_size = 8 / 3 is no whole number): set tp_size to one of 1, 2, 4, 8",
             [](Config& c) { set_mesh(c, 1, 1, 1, 3); }, 3},
            {"model.intermediate_size cannot be split over the TP ranks (98 / tp_size = 98 / 4",
             [](Config& c) { c.model.intermediate_size = 98, set_mesh(c, 1, 1, 1, 4); }, 4},
            {"vocab_size = 3 is below tp_size = 4): set tp_size to one of 1, 2",
             [](Config& c) { c.model.vocab_size = 3, set_mesh(c, 1, 1, 1, 4); }, 4},
            {"neither 3 / 2 nor 2 / 3 is a whole number): set tp_size to one of 1, 3, 6",
             [](Config& c) {
               c.model.num_attention_heads = 6, c.model.num_key_value_heads = 3, c.model.head_dim = 8;
               c.model.vocab_size = 288, set_mesh(c, 1, 1, 1, 2);
             },
             2},
            // model
            {"`model.sliding_window = -1`", [](Config& c) { c.model.sliding_window = -1; }},
            {"`model.max_position_embeddings = -1`", [](Config& c) { c.model.max_position_embeddings = -1; }},
            {"`model.hidden_size` is not set", [](Config& c) { c.model.hidden_size = 0; }},
            {"no model is given", [](Config& c) { c.model = {}; }},
            {"`model.num_hidden_layers = -1`", [](Config& c) { c.model.num_hidden_layers = -1; }},
            {"`model.num_attention_heads` is not set", [](Config& c) { c.model.num_attention_heads = 0; }},
            {"`model.num_key_value_heads = -2`", [](Config& c) { c.model.num_key_value_heads = -2; }},
            {"`model.intermediate_size` is not set", [](Config& c) { c.model.intermediate_size = 0; }},
            {"`model.vocab_size` is not set", [](Config& c) { c.model.vocab_size = 0; }},
            {"`model.rope_theta = 0`", [](Config& c) { c.model.rope_theta = 0; }},
            {"`model.rms_norm_eps = 0`", [](Config& c) { c.model.rms_norm_eps = 0; }},
            {"hidden_size / num_attention_heads = 60 / 8 is no whole number",
             [](Config& c) { c.model.hidden_size = 60; }},
            {"num_attention_heads = 8 is no multiple of num_key_value_heads = 3",
             [](Config& c) { c.model.num_key_value_heads = 3; }},
            {"num_attention_heads x head_dim = 4096 x 128 = 524288, above 262144",
             [](Config& c) {
               c.model.num_attention_heads = 4096, c.model.num_key_value_heads = 8, c.model.head_dim = 128;
             }},
            {"[model] has keys of experts and no experts", [](Config& c) { c.model.norm_topk_prob = true; }},
            {"[model] has keys of experts and no experts", [](Config& c) { c.model.router_aux_loss_coef = 0.01; }},
            {"`model.num_experts_per_tok` is not set", [](Config& c) { c.model.num_experts = 4; }},
            {"`model.num_experts_per_tok = 5` is out of range (it must be from 1 to 4)",
             [](Config& c) { set_experts(c, 4, 5); }},
            {"`model.mlp_only_layers` names a layer that is not there (there are 2 layers, counted from 0)",
             [](Config& c) {
               set_experts(c, 4, 2);
               c.model.mlp_only_layers = {2};
             }},
            {"`model.mlp_only_layers` leaves no layer with experts",
             [](Config& c) {
               set_experts(c, 4, 2);
               c.model.mlp_only_layers = {0, 1};
             }},
            {"[model] has keys of routers and no experts", [](Config& c) { c.model.n_shared_experts = 1; }},
            {"`model.n_group = 2` does not go with scoring_func = softmax",
             [](Config& c) { set_experts(c, 4, 2), c.model.n_group = 2; }},
            {"`model.n_group = 4` does not fit the experts",
             [](Config& c) { set_sigmoid_experts(c, 4, 2), c.model.n_group = 4; }},
            {"`model.topk_group = 1` does not fit n_group = 2 (there are 2 groups of 2 experts, and a token goes through 3)",
             [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.n_group = 2; }},
            {"`model.routed_scaling_factor = 0` is out of range (it must be above 0)",
             [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.routed_scaling_factor = 0; }},
            {"`model.n_shared_experts = 100000` is out of range",
             [](Config& c) { set_sigmoid_experts(c, 4, 3), c.model.n_shared_experts = 100000; }},
            {"`model.scoring_func = sigmoid` does not go with an auxiliary loss (router_aux_loss_coef = 0.001",
             [](Config& c) { set_experts(c, 4, 2), c.model.scoring_func = ScoringFunc::sigmoid; }},
            {"`model.mlp_bias` does not go with num_experts",
             [](Config& c) {
               set_experts(c, 4, 2);
               c.model.mlp_bias = true;
             }},
            {"model.moe_intermediate_size cannot be split over the TP ranks",
             [](Config& c) {
               set_experts(c, 4, 2);
               c.model.moe_intermediate_size = 3;
               set_mesh(c, 1, 1, 1, 2);
             },
             2},
            {"`lora.lora_target_modules` names up_proj (this model has it in its experts alone",
             [](Config& c) {
               set_experts(c, 4, 2);
               c.lora.use_peft = true;
               c.lora.lora_target_modules = {"q_proj", "up_proj"};
             }},
            {"`model.no_rope_layers` has 1 item (there are 2 layers): give 1, or 0",
             [](Config& c) { c.model.no_rope_layers = {1}; }},
            {"`model.no_rope_layers` has other items than 0 and 1",
             [](Config& c) {
               c.model.no_rope_layers = {1, 2};
             }},
            {"`model.no_rope_layers` has layers without rotation beside qk_norm",
             [](Config& c) {
               c.model.qk_norm = true, c.model.no_rope_layers = {1, 0};
             }},
            {"`model.layer_types` has 3 items (there are 2 layers)",
             [](Config& c) {
               c.model.layer_types = {"full_attention", "full_attention", "full_attention"};
             }},
            {"`model.layer_types` has linear_attention",
             [](Config& c) {
               c.model.layer_types = {"full_attention", "linear_attention"};
             }},
            {"`model.layer_types` has sliding_attention without a window",
             [](Config& c) {
               c.model.layer_types = {"full_attention", "sliding_attention"};
             }},
            {"`model.partial_rotary_factor = 0.4` rotates 3 of 8 dims",
             [](Config& c) { c.model.partial_rotary_factor = 0.4; }},
            {"`model.partial_rotary_factor = 1.25` rotates 10 of 8 dims",
             [](Config& c) { c.model.partial_rotary_factor = 1.25; }},
            {"`model.rope_scaling` has 3 numbers in short_factor (8 dims of a head are rotated in pairs): give 4",
             [](Config& c) {
               c.model.rope_scaling = {.rope_type = RopeType::longrope, .short_factor = {1, 2, 3}};
             }},
            {"`model.llama_4_scaling_beta` has no length", [](Config& c) { c.model.llama_4_scaling_beta = 0.1; }},
            {"`model.residual_multiplier` does not go with block_norms",
             [](Config& c) { c.model.block_norms = BlockNorms::glm4, c.model.residual_multiplier = 0.5; }},
            {"`model.llama_4_scaling_beta = -1`", [](Config& c) { c.model.llama_4_scaling_beta = -1; }},
            {"`model.embedding_multiplier = 0`", [](Config& c) { c.model.embedding_multiplier = 0; }},
            {"`model.attention_multiplier = -1`", [](Config& c) { c.model.attention_multiplier = -1; }},
            {"`model.attn_logit_softcapping = -1`", [](Config& c) { c.model.attn_logit_softcapping = -1; }},
            {"`model.residual_multiplier = 0`", [](Config& c) { c.model.residual_multiplier = 0; }},
            {"`model.logits_scaling = 0`", [](Config& c) { c.model.logits_scaling = 0; }},
            {"head_dim = 7 is odd", [](Config& c) { c.model.head_dim = 7; }},
            {"`model.head_dim = 512` is out of range", [](Config& c) { c.model.head_dim = 512; }},
            // offloaded state
            {"`train.offload_optimizer = nvme` has no folder (its files lie in train.offload_folder, which is empty)",
             [](Config& c) { c.train.offload_optimizer = Offload::nvme; }},
            {"`train.offload_parameters = nvme` has no folder",
             [](Config& c) { c.train.offload_parameters = Offload::nvme; }},
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
            // the rest
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
             [](Config& c) {
               set_schedule(c, Scheduler::reduce_lr_on_plateau), c.train.eval_strategy = EvalStrategy::no;
             }},
            // best models and early stopping
            {"`train.eval_strategy = epoch` has no data (`data.eval_files` is empty)",
             [](Config& c) { c.train.eval_strategy = EvalStrategy::epoch; }},
            {"`train.load_best_model_at_end = true` has no data",
             [](Config& c) { c.train.load_best_model_at_end = true; }},
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
             [](Config&
                    c) { load_best(c), c.train.load_best_model_at_end = false, c.train.early_stopping_patience = 3; }},
            {"`train.early_stopping_patience = -1`", [](Config& c) { c.train.early_stopping_patience = -1; }},
            {"`train.early_stopping_threshold = -1`", [](Config& c) { c.train.early_stopping_threshold = -1; }},
            {"`train.nan_skip_limit = 0`", [](Config& c) { c.train.nan_skip_limit = 0; }},
            {"`train.loss_watchdog_threshold = -1`", [](Config& c) { c.train.loss_watchdog_threshold = -1; }},
            {"`train.loss_watchdog_patience = 0`", [](Config& c) { c.train.loss_watchdog_patience = 0; }},
            {"`checkpoint.save_steps = -1`", [](Config& c) { c.checkpoint.save_steps = -1; }},
            {"`checkpoint.save_total_limit = -1`", [](Config& c) { c.checkpoint.save_total_limit = -1; }},
            {"`checkpoint.resume_from_checkpoint = `", [](Config& c) { c.checkpoint.resume_from_checkpoint = ""; }},
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
            {"`device.attention = hopper` does not go with backend = cpu",
             [](Config& c) { c.device.attention = AttentionChoice::hopper, c.device.backend = BackendChoice::cpu; }},
            {"`device.attention = hopper` does not go with precision = fp32",
             [](Config& c) { c.device.attention = AttentionChoice::hopper, c.train.precision = Precision::fp32; }},
            {"`device.attention = hopper` does not go with model.head_dim = 256",
             [](Config& c) {
               c.device.attention = AttentionChoice::hopper, c.train.precision = Precision::bf16;
               c.model.head_dim = 256;
             }},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(validation)

BOOST_DATA_TEST_CASE(a_mesh_that_fills_the_world_is_accepted, boost::unit_test::data::make(good_meshes), mesh) {
  Config config = valid_config();
  set_mesh(config, mesh.replicate, mesh.shard, mesh.sp, mesh.tp);
  BOOST_TEST(validate(config, mesh.world_size)->parallel.dp_shard_size == mesh.resolved_shard);
}

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(refused_configs), refused) {
  Config config = valid_config();
  refused.change(config);
  check_says(refusal([&] { (void)validate(config, refused.world_size); }), refused.says);
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
  config.lora.lora_target_modules = {"query"};
  const std::string adapters = refusal([&] { static_cast<void>(validate(config, 1)); });
  for (const char* part : {"3 settings cannot be used", "lora_r = 0", "lora_dropout = 1", "names query"}) {
    check_says(adapters, part);
  }
}

BOOST_AUTO_TEST_SUITE_END()
