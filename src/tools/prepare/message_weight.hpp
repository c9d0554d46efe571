// SPDX-License-Identifier: Apache-2.0
#pragma once
// How much the tokens of a message count, by the fields that data set formats have for it.

#include <string>

#include "prepare/record.hpp"

namespace sft::prepare {

/// The weight of a message, 0 to 1, whose fields are taken out of it: "weight" and ms-swift's "loss_scale" are factors,
/// "train" and ms-swift's "loss" are 0 where they are false. Refuses other values, and Axolotl's "train_detail", which
/// weighs single characters. `where` names the message.
[[nodiscard]] float take_weight(Json& message, const std::string& where);

}  // namespace sft::prepare
