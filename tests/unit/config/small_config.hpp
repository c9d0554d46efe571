// SPDX-License-Identifier: Apache-2.0
#pragma once
// The configuration that tests of this folder begin with.

#include "sft/config/config.hpp"

namespace sft::config {

/// A small Llama that any mesh up to TP 4 can hold.
inline Config valid_config() {
  Config config;
  config.model.hidden_size = 64;
  config.model.num_hidden_layers = 2;
  config.model.num_attention_heads = 8;
  config.model.num_key_value_heads = 2;
  config.model.intermediate_size = 96;
  config.model.vocab_size = 272;
  config.data.train_files = {"train.h5"};
  return config;
}

inline void set_mesh(Config& config, int replicate, int shard, int sp, int tp) {
  config.parallel.dp_replicate_size = replicate;
  config.parallel.dp_shard_size = shard;
  config.parallel.sp_size = sp;
  config.parallel.tp_size = tp;
}

/// load_best_model_at_end with what it needs.
inline void load_best(Config& config) {
  config.data.eval_files = {"eval.h5"};
  config.train.load_best_model_at_end = true;
  config.train.eval_steps = 20;
  config.checkpoint.save_steps = 40;
}

}  // namespace sft::config
