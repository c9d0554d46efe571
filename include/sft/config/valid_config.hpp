// SPDX-License-Identifier: Apache-2.0
#pragma once
// A configuration that can run: what the mesh, plans and engines are made of.

#include <cstdint>
#include <functional>
#include <string>
#include <utility>

#include "sft/config/config.hpp"

namespace sft::config {

/// A further check of a configuration: it refuses keys that name modules which the model does not have. A room that
/// knows the modules of models has such a function (model::check_modules).
using CheckModules = void (*)(const Config& config);

/// A configuration that validate() took for a number of ranks: derived values are filled, and nothing in it contradicts
/// another key. Whatever reads keys reads it as a Config.
class ValidConfig {
 public:
  [[nodiscard]] const Config& operator*() const { return config_; }
  [[nodiscard]] const Config* operator->() const { return &config_; }
  // NOLINTNEXTLINE(google-explicit-constructor): to read it takes nothing
  operator const Config&() const { return config_; }

  /// This configuration with a change, for as many ranks. Throws as validate() does.
  [[nodiscard]] ValidConfig with(const std::function<void(Config&)>& change) const;

 private:
  ValidConfig(Config config, int world_size) : config_(std::move(config)), world_size_(world_size) {}
  friend ValidConfig validate(Config config, int world_size, CheckModules check_modules);

  Config config_;
  int world_size_;
};

/// Fills derived values (head_dim, dp_shard_size ...) and refuses what cannot run on `world_size` >= 1 ranks: throws a
/// configuration Error with the arithmetic and a way out in the message. Pure. Row length is checked later, by
/// validate_data. `check_modules`: called with derived values, whose Error is as one of validate(); null: names of
/// modules were checked before, or are not asked about.
[[nodiscard]] ValidConfig validate(Config config, int world_size, CheckModules check_modules = nullptr);

/// One rank that uses this model without data. Throws as validate() does.
[[nodiscard]] ValidConfig validate(Model model);

/// Throws a configuration Error where train.offload_parameters would move float32 master weights away and precision has
/// none: with nvme, and with host on GPUs below stage 3, which validate() does not know of.
void require_master_weights(const Train& train);

/// Throws a configuration Error where train.fp8 asks for products that a GPU of this compute capability, 10 times the
/// major number and the minor one, does not have.
void require_fp8_of_gpu(const Train& train, int compute_capability);
/// The same where device.attention asks for kernels that it does not run.
void require_attention_of_gpu(const Device& device, int compute_capability);

/// Refuses texts of `max_length` tokens where the model's attention or rotary embedding would have to change beyond a
/// shorter length: throws a configuration Error. `source` names what holds the texts. Pure.
void validate_length(const Model& model, std::int64_t max_length, const std::string& source);

/// Refuses rows that are too long for a rank (max_length) or that the model cannot read (vocab_size): throws a
/// configuration Error. `source` names the data in messages. Pure.
void validate_data(const ValidConfig& config, std::int64_t max_length, std::int64_t vocab_size,
                   const std::string& source);

/// Refuses rows to evaluate on that are longer than `train_max_length`, that of the rows trained on, or that the model
/// cannot read: throws a configuration Error. Arguments as above. Pure.
void validate_eval_data(const ValidConfig& config, std::int64_t max_length, std::int64_t vocab_size,
                        const std::string& source, std::int64_t train_max_length);

}  // namespace sft::config
