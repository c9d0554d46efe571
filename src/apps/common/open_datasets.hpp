// SPDX-License-Identifier: Apache-2.0
#pragma once
// The data of a run: opened, and held against the model.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/comm/group.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/rank/datasets.hpp"

namespace sft::apps {

/// Opens data.train_files and data.eval_files. Refuses data without a target, files that are in both, rows that the
/// mesh cannot cut, and tokens that are not the model's. `damaged`: checkpoints that the run cannot go on from, beside
/// those whose checkpoint.h5 says so. Not collective.
[[nodiscard]] rank::Datasets open_datasets(const config::ValidConfig& config,
                                           const std::vector<std::string>& damaged = {});

/// In data.train_files where a run is planned without data: not the word `none`, which is an empty list.
inline const std::string no_data = "no-data";

/// Stands for data that is not there yet: `num_rows` full rows of `max_length` tokens (0: as many as a step has), and
/// none to evaluate on. Refuses what open_datasets refuses of such rows. Not collective.
[[nodiscard]] rank::Datasets planned_datasets(const config::ValidConfig& config, std::int64_t max_length,
                                              std::int64_t num_rows);

/// The same as open_datasets() on every rank, of which rank 0 alone opens files: the others get what it learned, and
/// open a shard when they read a row of it. Refuses data that require_model_tokenizer refuses. Collective over `world`.
[[nodiscard]] rank::Datasets share_datasets(const config::ValidConfig& config, const mesh::Place& place,
                                            const comm::Group& world, const std::vector<std::string>& damaged);

/// Refuses data that were made with another tokenizer than that of the model folder which the run begins with. Says
/// nothing where the folder has no tokenizer that sft knows, or the data do not say whose tokens they are. One rank.
void require_model_tokenizer(const rank::Datasets& datasets, const config::Model& model);

}  // namespace sft::apps
