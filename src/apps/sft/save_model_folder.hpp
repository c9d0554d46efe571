// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a run leaves for other programs, written by all its ranks together: a model in hub format, or an adapter in
// PEFT's.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "apps/common/model_folder.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/core/markup.hpp"
#include "sft/device/device.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/shared_regions.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/node_memory.hpp"
#include "sft/machine/node.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/train/engine.hpp"
#include "sft/train/run.hpp"

namespace sft::apps {

/// OUTPUT_DIR/model: config.json, the weights that are trained, float32 or what the run keeps, and what the model that
/// the run began with has beside them (tokenizer ...). With LoRA OUTPUT_DIR/adapter: adapter_config.json and
/// adapter_model.safetensors. Complete or not at all, each time in place of what is there.
class ModelFolder final : public train::SavedModel {
 public:
  /// `rows`: those trained on, whose markup rank 0 reads; `node`: the ranks of this node. References but `rows` outlive
  /// it. Collective over `world`.
  ModelFolder(const config::Config& config, const rows::PackedDataset& rows, const train::Engine& engine,
              const comm::Group& world, const comm::Group& node);
  ~ModelFolder() override;

  [[nodiscard]] static std::string folder_of(const config::Config& config);
  /// What the ranks of a node share of its memory, at most, while they write the folder together.
  [[nodiscard]] static std::size_t shared_bytes(const config::Config& config);

  void begin() override;
  void write(const std::function<void(io::TensorSink& sink)>& give) override;
  void abandon() override;
  void finish() override;
  /// All three from the engine's memory. Collective over the world.
  void save(device::Device& device, device::Stream& stream);
  /// Whether finish() was called.
  [[nodiscard]] bool is_written() const { return is_written_; }

 private:
  void share_regions();

  std::string folder_;
  const config::Config& config_;
  std::int64_t max_length_;
  Markup markup_;  ///< what the rows were written with, on rank 0
  checkpoint::State state_;
  FolderContents contents_;               ///< but for the layout on rank 0 alone
  std::optional<hub::WeightsPlan> plan_;  ///< of the folder that was begun
  const comm::Group& world_;
  const comm::Group& node_;
  std::unique_ptr<io::NodeMemory> memory_;       ///< of regions_, while they are written
  std::optional<machine::SharedBytes> account_;  ///< of memory_, which is the first rank's of the node
  std::unique_ptr<hub::SharedRegions> regions_;  ///< none: each rank writes what it has
  std::unique_ptr<hub::NewFolder> unfinished_;   ///< on rank 0
  std::string temporary_;                        ///< its path
  bool is_written_ = false;
};

}  // namespace sft::apps
