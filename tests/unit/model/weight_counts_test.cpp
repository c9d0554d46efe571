// SPDX-License-Identifier: Apache-2.0
// How many parameters a model has, beside what is published of it.
#include <boost/test/unit_test.hpp>

#include "sft/model/flops.hpp"

using sft::config::Model;
using sft::model::weight_counts;

BOOST_AUTO_TEST_SUITE(weight_counts_of_models)

BOOST_AUTO_TEST_CASE(parameters_are_counted) {
  // Qwen3-30B-A3B: 30,532,122,624, as its model card's safetensors say; a token goes through 8 of 128 experts.
  Model moe;
  moe.hidden_size = 2048;
  moe.num_hidden_layers = 48;
  moe.num_attention_heads = 32;
  moe.num_key_value_heads = 4;
  moe.head_dim = 128;
  moe.intermediate_size = 6144;
  moe.vocab_size = 151936;
  moe.qk_norm = true;
  moe.num_experts = 128;
  moe.num_experts_per_tok = 8;
  moe.moe_intermediate_size = 768;
  BOOST_TEST(weight_counts(moe).all == 30532122624);
  BOOST_TEST(weight_counts(moe).of_token ==
             30532122624 - (48 * (2 * 2048 + 2 * 128) + 2048) - 151936 * 2048 - 48 * 120 * 3 * 768 * 2048L);
  // Llama 3.2 1B (tied): 1,235,814,400 parameters, as its model card's safetensors say.
  Model llama;
  llama.hidden_size = 2048;
  llama.num_hidden_layers = 16;
  llama.num_attention_heads = 32;
  llama.num_key_value_heads = 8;
  llama.head_dim = 64;
  llama.intermediate_size = 8192;
  llama.vocab_size = 128256;
  llama.tie_word_embeddings = true;
  BOOST_TEST(weight_counts(llama).all == 1235814400);
  BOOST_TEST(weight_counts(llama).of_token == 1235814400 - (2 * 16 + 1) * 2048);
  // Qwen2.5 0.5B (tied, biases): 494,032,768.
  Model qwen2;
  qwen2.hidden_size = 896;
  qwen2.num_hidden_layers = 24;
  qwen2.num_attention_heads = 14;
  qwen2.num_key_value_heads = 2;
  qwen2.head_dim = 64;
  qwen2.intermediate_size = 4864;
  qwen2.vocab_size = 151936;
  qwen2.tie_word_embeddings = true;
  qwen2.attention_bias = true;
  BOOST_TEST(weight_counts(qwen2).all == 494032768);
  // Qwen3 0.6B (tied, q/k norm): 596,049,920.
  Model qwen3;
  qwen3.hidden_size = 1024;
  qwen3.num_hidden_layers = 28;
  qwen3.num_attention_heads = 16;
  qwen3.num_key_value_heads = 8;
  qwen3.head_dim = 128;
  qwen3.intermediate_size = 3072;
  qwen3.vocab_size = 151936;
  qwen3.tie_word_embeddings = true;
  qwen3.qk_norm = true;
  BOOST_TEST(weight_counts(qwen3).all == 596049920);
  qwen3.tie_word_embeddings = false;
  BOOST_TEST(weight_counts(qwen3).all == 596049920 + 151936 * 1024);
}

BOOST_AUTO_TEST_SUITE_END()
