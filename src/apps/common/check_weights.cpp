// SPDX-License-Identifier: Apache-2.0
#include "check_weights.hpp"

#include <fmt/core.h>
#include <deque>
#include <memory>
#include <vector>

#include "model_folder.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/core/format.hpp"
#include "sft/hub/weights.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/architecture.hpp"
#include "start_model.hpp"

namespace sft::apps {

void check_weights(const io::TensorSource& source, const config::Model& model) {
  std::deque<parallel::ShardMap> shard_maps;
  std::vector<checkpoint::Entry> entries;
  for (const parallel::PartUnits& part : model::make_architecture(model).parts) {
    const parallel::ShardMap& shard_map = shard_maps.emplace_back(part.units, mesh::Place(), AxisSet{});
    const Tensor nowhere(nullptr, DType::float32, {shard_map.rank_shard_elements()});
    entries.push_back({"model", &shard_map, nowhere});
  }
  checkpoint::check_entries(source, entries, mismatched_folder);
}

std::string look_at_weights(const config::Model& model) {
  if (model.model_name_or_path.empty()) return "";
  const StartModel start = find_start_model(model);
  const bool is_hub = start.kind == StartModel::Kind::hub;
  const std::unique_ptr<io::TensorSource> source =
      is_hub ? hub::open_weights(start.folder, model.tie_word_embeddings) : checkpoint::open_source(start.folder);
  check_weights(*source, model);
  std::size_t num_tensors = 0, num_bytes = 0;
  for (const io::TensorInfo& tensor : source->tensors()) {
    if (io::entry_of(tensor.name) != "model") continue;
    ++num_tensors;
    num_bytes += static_cast<std::size_t>(tensor.num_elements()) * size_of(tensor.dtype);
  }
  return fmt::format("{}: all {} tensors of the model are there, {}", start.folder, num_tensors,
                     format_bytes(num_bytes));
}

}  // namespace sft::apps
