// SPDX-License-Identifier: Apache-2.0
#pragma once
// Adapters of experts as products that are added to the matrices of a model, whichever way they are kept: an expert's
// own matrices, as checkpoints have them, or PEFT's of all experts (hub/expert_factors.hpp).

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "sft/config/lora.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::hub {

/// scale b a is added to the matrix `weight`, "model/NAME".
struct ExpertProduct {
  std::string weight;
  std::int64_t rank = 0, rows = 0, columns = 0;
  float scale = 1.0F;
  std::vector<float> a, b;  ///< (rank, columns), (rows, rank)
};

/// Whether a tensor of an adapter, "model/" and PEFT's name, belongs to experts. Where `lora` names no weights of
/// theirs, an expert's own matrices are plain adapters of modules, as experts were in transformers 4.
[[nodiscard]] bool is_of_experts(const std::string& tensor, const config::Lora& lora);

/// Throws with the reason why an adapter does not fit its model.
using Refuse = std::function<void(const std::string& why)>;

/// The products of all such tensors of `adapter`, one for each matrix of the model that they change. `shapes`: of the
/// model's tensors, "model/NAME". `lora` and `layout`: of the adapter's description. Calls `refuse` where they do not
/// fit one another.
[[nodiscard]] std::vector<ExpertProduct> expert_products_of(
    const io::TensorSource& adapter, const std::map<std::string, std::vector<std::int64_t>>& shapes,
    const config::Lora& lora, const FileLayout& layout, const Refuse& refuse);

}  // namespace sft::hub
