// SPDX-License-Identifier: Apache-2.0
#pragma once
// All that is special to a model family of transformers. A family is one source of this folder: FAMILY.cpp defines
// `Family FAMILY()` in namespace sft::hub::families, and the build lists the functions by the names of the files.
// Fields and layouts that several families have are functions of shared/.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "hub/config_fields.hpp"
#include "hub/families/shared/part.hpp"
#include "hub/family_rules.hpp"
#include "sft/config/config.hpp"

namespace sft::hub {

struct Family;

/// A config.json on its way into a model.
struct Reading {
  ConfigFields& fields;
  const Family& family;
  bool is_tower;  ///< the text tower of a model with others
  config::Model& model;
  std::vector<std::string>& warnings;
};

/// A model on its way into a config.json.
struct Writing {
  nlohmann::ordered_json& object;
  const config::Model& model;
  const Family& family;
};

/// Adds rope_theta and rope_scaling where config.json has rope_parameters alone.
void add_older_rope(const Writing& w);

struct Family {
  const char* architecture;
  const char* model_type;

  const char* width_field = "intermediate_size";  ///< of the MLP

  // Values that transformers (4.57 and 5) takes where config.json has no field.
  std::int64_t num_attention_heads = 0, vocab_size = 0;  ///< 0: there is none, config.json says it
  std::int64_t num_key_value_heads = 0;                  ///< 0: as many as query heads
  std::int64_t head_dim = 0;                             ///< 0: hidden_size / num_attention_heads
  std::int64_t max_position_embeddings = 2048;
  double rope_theta = 10000.0;
  double partial_rotary_factor = 1.0;
  double rms_norm_eps = 1e-6;
  bool tie_word_embeddings = false;
  std::int64_t pad_token_id = -1;  ///< -1: there is none

  /// The modules that its files call or cut otherwise than the model. Source: conversion_mapping.py and the modules of
  /// transformers 5.23, and what its save_pretrained writes.
  std::vector<Rule> rules = {};
  /// Files have layers after those of the decoder, which predict further tokens; transformers leaves them unread.
  bool has_later_layers = false;
  /// Published folders have dropout, which `read` takes care of.
  bool has_dropout = false;
  /// Experts are read in MXFP4.
  bool has_mxfp4 = false;
  /// PEFT's own table has the family: where weights of experts alone are named, q_proj and v_proj are adapted, too.
  bool adapts_attention_beside_experts = false;

  /// Reads the fields that not all families have alike. The sizes of the model are set.
  void (*read)(const Reading& r);
  /// The models whose config.json is made as one of this family: those with the parts of one of these choices, which
  /// no other family has. None: no model without a config.json of its own is of this family.
  std::vector<Choice> choices = {};
  /// Adds the fields of such a model to those that all families have.
  void (*write)(const Writing& w) = nullptr;
  /// Adds fields that transformers 4 reads to a config.json that transformers 5 wrote.
  void (*add_older_fields)(const Writing& w) = add_older_rope;
};

/// All families, in the order of their files' names.
[[nodiscard]] const std::vector<Family>& all_families();
/// The family with this model_type; null: there is none.
[[nodiscard]] const Family* find_family(const std::string& model_type);
/// The family of a config.json; a data Error where sft does not train it.
[[nodiscard]] const Family& family_of(ConfigFields& fields);

}  // namespace sft::hub
