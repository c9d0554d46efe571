// SPDX-License-Identifier: Apache-2.0
#include "sft/model/activation_policy.hpp"

namespace sft::model {

ActivationPolicy activation_policy(const config::Train& train, device::Kind kind) {
  using Location = ActivationPolicy::Location;
  const bool goes_to_files = train.activation_offload_to == config::ActivationPlace::nvme;
  const Location of_gpu = goes_to_files ? Location::file_behind_host : Location::host;
  const Location elsewhere = kind == device::Kind::cpu ? Location::file : of_gpu;
  return {.checkpointing = train.activation_checkpointing,
          .mlp_tile_tokens = train.mlp_tile_tokens.value_or(0) > 0 ? *train.mlp_tile_tokens : INT64_MAX,
          .location = train.activation_offload ? elsewhere : Location::device,
          .head_groups = train.attention_head_groups.value_or(1)};
}

}  // namespace sft::model
