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

void require_fp8_of_gpu(const Train& train, int compute_capability) {
  constexpr int least = 89, of_blocks = 90;
  const std::string found = fmt::format("{}.{}", compute_capability / 10, compute_capability % 10);
  if (train.fp8 != Fp8::none && compute_capability < least) {
    throw_config_error(setting_of(train) + " cannot be computed on this GPU",
                       fmt::format("its compute capability is {}, and products of 8-bit floats begin with 8.9", found),
                       "leave fp8 out");
  }
  if (train.fp8 == Fp8::blockwise && compute_capability != of_blocks) {
    throw_config_error(setting_of(train) + " cannot be computed on this GPU",
                       fmt::format("its compute capability is {}, and cuBLAS multiplies with scales of 128 numbers on "
                                   "9.0 alone",
                                   found),
                       "set train.fp8 = tensorwise, or leave it out");
  }
}

void check_fp8(const Config& config) {
  const Train& train = config.train;
  if (train.fp8 == Fp8::none) return;
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
