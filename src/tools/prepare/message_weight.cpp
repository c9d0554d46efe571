// SPDX-License-Identifier: Apache-2.0
#include "prepare/message_weight.hpp"

#include <fmt/core.h>
#include <array>

namespace sft::prepare {

namespace {

constexpr std::array factors = {"weight", "loss_scale"};
constexpr std::array switches = {"train", "loss"};
constexpr std::array details = {"train_detail", "training_detail", "reasoning_train_detail",
                                "reasoning_training_detail"};

double factor_of(const Json& value, const std::string& name) {
  if (!value.is_number()) refuse_record(fmt::format("{} is {}, not a number", name, value.type_name()));
  const auto factor = value.get<double>();
  if (!(factor >= 0.0 && factor <= 1.0)) refuse_record(fmt::format("{} does not lie in 0 to 1", name));
  return factor;
}

bool switch_of(const Json& value, const char* key, const std::string& name) {
  if (value.is_boolean()) return value.get<bool>();
  refuse_unshown(key, fmt::format("{} is {}, not true or false", name, value.type_name()));
}

}  // namespace

float take_weight(Json& message, const std::string& where) {
  const auto name_of = [&](const char* key) { return fmt::format("'{}' of {}", key, where); };
  double weight = 1.0;
  for (const char* key : factors) {
    if (has_value(message, key)) weight *= factor_of(message[key], name_of(key));
    message.erase(key);
  }
  for (const char* key : switches) {
    if (has_value(message, key) && !switch_of(message[key], key, name_of(key))) weight = 0.0;
    message.erase(key);
  }
  for (const char* key : details) {
    if (has_value(message, key) && !is_empty(message[key])) {
      refuse_unshown(key, fmt::format("{} has '{}', and a message is trained on as a whole", where, key));
    }
    message.erase(key);
  }
  return static_cast<float>(weight);
}

}  // namespace sft::prepare
