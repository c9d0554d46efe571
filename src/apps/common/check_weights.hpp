// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a folder holds the weights of a model, without reading one of them.

#include <string>

#include "sft/config/config.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::apps {

/// Refuses a source that lacks a tensor of the model, has one more, or one of another shape: a data Error that names
/// it. `model`: complete. Reads no number. Not collective.
void check_weights(const io::TensorSource& source, const config::Model& model);

/// Looks at what a run of this model begins with and says what it is: "models/x: all 290 tensors of the model are
/// there, 2.3 GiB"; empty where the model begins with random numbers. Throws what a run would at its start: a data
/// Error for files that are missing, cut or another model's. Not collective.
[[nodiscard]] std::string look_at_weights(const config::Model& model);

}  // namespace sft::apps
