// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/planned_rows.hpp"

#include "sft/rows/shard_file.hpp"

namespace sft::rows {

PackedDataset planned_rows(std::int64_t num_rows, std::int64_t max_length, std::int64_t vocab_size) {
  const std::int64_t num_targets = max_length - 1;
  ShardFacts facts;
  facts.traits.max_length = max_length;
  facts.traits.vocab_size = vocab_size;
  facts.num_rows = facts.num_documents = num_rows;
  facts.num_tokens = num_rows * max_length;
  facts.num_target_tokens = num_rows * num_targets;
  facts.has_row_table = true;
  BytePacker packer;
  facts.pack(packer);
  PackedDataset dataset = PackedDataset::from_facts(packer.take());
  RowTable table;
  if (num_rows <= max_rows_dealt) table.lengths.assign(num_rows, static_cast<std::int32_t>(max_length));
  if (num_rows <= max_rows_counted) {
    const auto length = static_cast<double>(max_length);
    table.counts.assign(num_rows, {.num_tokens = max_length,
                                   .num_target_tokens = num_targets,
                                   .weight_sum = static_cast<double>(num_targets),
                                   .length_squares = length * length});
  }
  dataset.hold(std::move(table));
  return dataset;
}

bool is_planned(const PackedDataset& dataset) { return dataset.files().size() == 1 && dataset.files().front().empty(); }

}  // namespace sft::rows
