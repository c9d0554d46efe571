// SPDX-License-Identifier: Apache-2.0
#pragma once
// A list of packed HDF5 shard files, read as one data set of rows.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/core/markup.hpp"

namespace sft::rows {

/// One packed row, whole: never cut for sequence parallelism.
struct Row {
  std::vector<std::int32_t> tokens;            ///< (max_length), tail padded
  std::vector<float> loss_weight;              ///< (max_length), of each token as a target
  std::vector<std::int32_t> document_lengths;  ///< in order; their sum is <= max_length, the rest is padding
};

/// Sums over whole rows: of one, or of those that a data rank holds in a micro-batch or in a step.
struct BatchCounts {
  std::int64_t num_tokens = 0;         ///< tokens of documents, padding excluded
  std::int64_t num_target_tokens = 0;  ///< tokens with weight > 0 that can be predicted
  double weight_sum = 0.0;             ///< sum of their weights
  double length_squares = 0.0;         ///< sum of squared document lengths, for model FLOPs

  BatchCounts& operator+=(const BatchCounts& other);
  bool operator==(const BatchCounts& other) const = default;
};

/// What is held of every row, in file order, so that no row has to be read for it; empty: not held.
struct RowTable {
  std::vector<std::int32_t> lengths;  ///< tokens, padding left out
  std::vector<BatchCounts> counts;
};

/// What of the row table is read while the shards are opened.
struct RowColumns {
  bool lengths = false;  ///< of at most max_rows_dealt rows
  bool counts = false;   ///< of at most max_rows_counted rows, where every shard holds them
};

/// Most rows of a data set whose lengths are held to deal rows by them: beyond, rows keep their order.
inline constexpr std::int64_t max_rows_dealt = std::int64_t{1} << 24;
/// Most rows of a data set whose counts are held: beyond, the labels of the rows of a step are read.
inline constexpr std::int64_t max_rows_counted = std::int64_t{1} << 22;

class PackedDataset {
 public:
  /// Opens every file that the paths and globs name, once, in the order given, globs sorted. Refuses by name: no match,
  /// damaged, truncated, other formats or versions, disagreeing shards, a missing shard of a set, no rows.
  explicit PackedDataset(const std::vector<std::string>& patterns, RowColumns held = {});
  ~PackedDataset();
  PackedDataset(PackedDataset&&) noexcept;

  /// What another process needs to have this data set without opening a file: the facts of its shards, not its row
  /// table. Such a data set opens a shard when a row of it is read first, and refuses one that is another than that
  /// which was opened here.
  [[nodiscard]] std::string facts() const;
  [[nodiscard]] static PackedDataset from_facts(const std::string& facts);

  [[nodiscard]] std::int64_t num_rows() const;
  [[nodiscard]] std::int64_t max_length() const;
  [[nodiscard]] std::int64_t vocab_size() const;
  [[nodiscard]] std::int64_t pad_token_id() const;
  [[nodiscard]] std::int64_t eos_token_id() const;
  /// "byte", or the folder of the model whose tokenizer made the tokens.
  [[nodiscard]] const std::string& tokenizer() const;
  /// text::Tokenizer::fingerprint() of that tokenizer; "" of data that were written before shards had it.
  [[nodiscard]] const std::string& tokenizer_fingerprint() const;
  /// The markup that rows were written with, as the first file says. Empty for planned rows and for data that were
  /// written before shards had it. One thread at a time.
  [[nodiscard]] Markup markup() const;
  [[nodiscard]] std::int64_t num_documents() const;
  [[nodiscard]] std::int64_t num_tokens() const;
  [[nodiscard]] std::int64_t num_target_tokens() const;
  /// The files, in order.
  [[nodiscard]] const std::vector<std::string>& files() const;

  /// What tells this data set from others: a hash of the content of its shards, in order. "xxh128:..." or, when a shard
  /// does not carry its own hash, "sampled-xxh128:...": then a few rows of that shard stand for the rest, and are read.
  /// One thread at a time, like all that reads rows.
  [[nodiscard]] std::string fingerprint() const;

  /// The fingerprint of each file on its own, in the order of files().
  [[nodiscard]] std::vector<std::string> fingerprints() const;

  /// Row `index` in file order. Checks document lengths, token ids and weights (finite, >= 0) and refuses by file and
  /// row. Padding is as in the file. One thread at a time.
  [[nodiscard]] Row read_row(std::int64_t index) const;
  /// Row `index` as read_row has it, but for the tokens, which are not read: what counts follow from. One thread at a
  /// time.
  [[nodiscard]] Row read_labels(std::int64_t index) const;
  /// The tokens of every row, padding left out, in file order: those of the row table where it holds them, else read,
  /// from shards without a table of rows by their document tables. One thread at a time.
  [[nodiscard]] std::vector<std::int32_t> row_lengths() const;
  /// Whether every shard holds the counts of its rows, as sft-prepare writes them, and they are few enough to be held.
  [[nodiscard]] bool has_row_counts() const;
  /// The counts of every row, in file order, of a data set that has_row_counts(): those of the row table where it holds
  /// them, else read. One thread at a time.
  [[nodiscard]] std::vector<BatchCounts> row_counts() const;
  /// What is held of the rows.
  [[nodiscard]] const RowTable& row_table() const;
  void hold(RowTable table);

  /// Reads everything and refuses what opening cannot see: rows that read_row refuses, and rows that do not have the
  /// counts and the content hash that their file says. One thread at a time.
  void verify() const;

 private:
  struct Impl;
  enum class From : std::uint8_t { facts };
  PackedDataset(const std::string& facts, From from);
  std::unique_ptr<Impl> impl_;
};

/// A data Error unless the tokens of the data set are those of the tokenizer with this fingerprint, or the data set
/// does not say whose they are. `model` names what is to be trained, such as a folder.
void require_tokenizer(const PackedDataset& dataset, const std::string& fingerprint, const std::string& model);

}  // namespace sft::rows
