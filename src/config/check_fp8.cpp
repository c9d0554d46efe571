// SPDX-License-Identifier: Apache-2.0
// What products in 8-bit floats do not go with.
#include <fmt/core.h>

#include "config/checks.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

std::string setting_of(const Train& train) { return fmt::format("`train.fp8 = {}`", write(train.fp8)); }

}  // namespace

void require_fp8_on_cpu(const Train& train) {
  if (train.fp8 == Fp8::none) return;
  throw_config_error(setting_of(train) + " cannot be computed on GPUs",
                     "its products are those of the CPU alone so far, which show what becomes of a run",
                     "set device.backend = cpu, or leave fp8 out");
}

void check_fp8(const Config& config) {
  const Train& train = config.train;
  if (train.fp8 == Fp8::none) return;
  if (config.device.backend == BackendChoice::cuda) require_fp8_on_cpu(train);
  if (config.lora.load_in_4bit) {
    throw_config_error(setting_of(train) + " does not go with lora.load_in_4bit",
                       "weights in 4 bits would be rounded a second time, to other numbers than those that were chosen",
                       "leave one of the two out");
  }
  if (config.lora.use_peft && config.lora.use_dora) {
    throw_config_error(setting_of(train) + " does not go with lora.use_dora",
                       "the norms that magnitudes belong to are those of weights that are not rounded",
                       "leave one of the two out");
  }
}

}  // namespace sft::config
