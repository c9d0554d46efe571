// SPDX-License-Identifier: Apache-2.0
// What attention that a run has chosen (device.attention) does not go with.
#include <fmt/core.h>

#include "config/checks.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

constexpr const char* remedy = "leave device.attention out";

std::string setting_of(AttentionChoice choice) { return fmt::format("`device.attention = {}`", write(choice)); }

}  // namespace

void require_attention_of_gpu(const Device& device, int compute_capability) {
  const AttentionOfGpu* const kernels = attention_of_gpu(device.attention);
  if (kernels == nullptr || compute_capability == kernels->compute_capability) return;
  const auto text_of = [](int capability) { return fmt::format("{}.{}", capability / 10, capability % 10); };
  throw_config_error(setting_of(device.attention) + " cannot be computed on this GPU",
                     fmt::format("its compute capability is {}, and these kernels are for {}: {}",
                                 text_of(compute_capability), text_of(kernels->compute_capability), kernels->gpus),
                     remedy);
}

void check_attention(const Config& config) {
  const AttentionChoice choice = config.device.attention;
  if (choice == AttentionChoice::automatic || choice == AttentionChoice::own) return;
  const AttentionOfGpu* const of_gpu = attention_of_gpu(choice);
  const std::string key = setting_of(choice);
  if (config.device.backend == BackendChoice::cpu) {
    throw_config_error(key + " does not go with backend = cpu",
                       of_gpu != nullptr ? "its kernels are for GPUs" : "cuDNN computes on GPUs",
                       fmt::format("set backend = cuda, or {}", remedy));
  }
  if (config.train.precision == Precision::fp32) {
    throw_config_error(key + " does not go with precision = fp32",
                       of_gpu != nullptr ? "its kernels are for bf16 numbers" : "cuDNN's attention is of bf16 numbers",
                       fmt::format("set train.precision = bf16, or {}", remedy));
  }
  if (config.model.attn_logit_softcapping != 0.0) {
    throw_config_error(key + " does not go with attn_logit_softcapping",
                       "this program leaves attention whose scores are capped to its kernels for all GPUs", remedy);
  }
  constexpr int elements_of_16_bytes = 8;
  if (of_gpu == nullptr && config.model.head_dim % elements_of_16_bytes != 0) {
    throw_config_error(fmt::format("{} does not go with model.head_dim = {}", key, config.model.head_dim),
                       "cuDNN takes heads of a multiple of 8 numbers", remedy);
  }
  if (of_gpu != nullptr && config.model.head_dim > of_gpu->max_head_dim) {
    throw_config_error(fmt::format("{} does not go with model.head_dim = {}", key, config.model.head_dim),
                       fmt::format("its kernels are for heads of up to {} numbers", of_gpu->max_head_dim), remedy);
  }
}

}  // namespace sft::config
