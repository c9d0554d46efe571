// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model and an adapter as one model.

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sft/hub/adapter_config.hpp"
#include "sft/hub/file_layout.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::hub {

/// The weights of a model with those of an adapter added: W + scale B A (Hu et al. 2021), of which rows with a
/// magnitude get that norm (DoRA, Liu et al. 2024), computed in float32, or in their place, of modules that were
/// trained whole. The matrices A and B and magnitudes are in memory, all others are read part by part.
class MergedWeights final : public io::TensorSource {
 public:
  /// `base`: tensors "model/NAME". `adapter`: those of a PEFT folder, which `config` describes, by the model's modules;
  /// `layout` says how PEFT calls these. Refuses an adapter that does not fit the model or its own description, by
  /// tensor, as a data Error. `is_head_tied`: the head of the base is its embedding table, which has no tensor of its
  /// own there.
  MergedWeights(std::unique_ptr<io::TensorSource> base, bool is_head_tied, std::unique_ptr<io::TensorSource> adapter,
                const AdapterConfig& config, const FileLayout& layout = {});

  [[nodiscard]] std::size_t num_adapted() const { return products_.size(); }
  /// Whether head and embeddings are one table in the base and two here, as one of them was trained whole: then there
  /// is a tensor lm_head.weight. PEFT's merge_and_unload does so.
  [[nodiscard]] bool unties_head() const { return unties_head_; }

  /// From here on read() takes the fingerprint of the base, which is that of checkpoint::LoadedWeights when each of its
  /// elements was read once.
  void take_fingerprint() { fingerprint_.emplace(); }
  [[nodiscard]] std::string fingerprint() const { return fingerprint_->text(); }

  [[nodiscard]] const std::string& path() const override { return base_->path(); }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override;
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override;

 private:
  struct Product {
    std::int64_t rank = 0, rows = 0, columns = 0;
    float scale = 1.0F;
    std::vector<float> a, b;          ///< (rank, columns), (rows, rank)
    std::vector<float> magnitudes{};  ///< (rows); empty: none

    /// Adds scale B A to whole rows of the weight, from row_begin on, and gives them their magnitudes.
    void add_to(std::int64_t row_begin, std::span<float> weight) const;
  };

  std::unique_ptr<io::TensorSource> base_, adapter_;
  mutable std::optional<io::ElementSum> fingerprint_;
  std::map<std::string, std::int64_t> widths_;  ///< of the base's tensors: elements of a row
  bool unties_head_ = false;
  std::map<std::string, Product> products_;          ///< by the name of the matrix, "model/...weight"
  std::map<std::string, std::string> replacements_;  ///< by that of the weight, the adapter's tensor in its place
};

}  // namespace sft::hub
