// SPDX-License-Identifier: Apache-2.0
// How much a random row of a shard unpacks: whole chunks, of whatever size the program that wrote the file chose.

#include <fmt/core.h>

#include "sft/rows/shard_file.hpp"

namespace sft::rows {

namespace {

constexpr std::int64_t token_bytes = 4, offset_bytes = 8;  // of a token, weight or length; of an offset

}  // namespace

std::string ShardFile::chunk_warning() const {
  constexpr std::int64_t most_rows = 256, most_bytes = std::int64_t{1} << 18;  // that a row may cost
  const std::int64_t middle = facts_.num_rows / 2, row_bytes = facts_.traits.max_length * token_bytes;
  const struct {
    const char* name;
    io::Rectangle of_row;
    std::int64_t num_bytes;
  } datasets[] = {
      {"/tokens", whole_row(middle), facts_.num_rows * row_bytes},
      {"/loss_weight", whole_row(middle), facts_.num_rows * row_bytes},
      {"/document_offsets", {.row_begin = middle, .num_rows = 2}, facts_.num_rows * offset_bytes},
      {"/document_lengths", {.row_begin = facts_.num_documents / 2, .num_rows = 1}, facts_.num_documents * token_bytes},
  };
  for (const auto& dataset : datasets) {
    if (dataset.num_bytes <= static_cast<std::int64_t>(io::chunk_cache_bytes)) continue;  // it stays unpacked
    const std::int64_t cost = file().bytes_unpacked(dataset.name, dataset.of_row);
    if (cost <= most_bytes || cost / row_bytes <= most_rows) continue;
    return fmt::format(
        "reading {} is slow (for each row, chunks of {} with {} KiB are unpacked, as much as {} rows hold): write it "
        "with "
        "sft-prepare, or in h5py with chunks=({}, {}) for tokens and loss_weight, chunks=(2048,) for the document "
        "table",
        path(), dataset.name, cost / 1024, cost / row_bytes, chunk_rows_of(facts_.traits.max_length),
        facts_.traits.max_length);
  }
  return "";
}

}  // namespace sft::rows
