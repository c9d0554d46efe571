// SPDX-License-Identifier: Apache-2.0
#pragma once
// One packed shard, opened and checked: the attributes and datasets of the format "sft-packed", version 1.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/byte_pack.hpp"
#include "sft/core/markup.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/rows/shard_set.hpp"

namespace sft::rows {

/// The datasets that hold what BatchCounts has of each row. Shards of earlier versions, and of other tools, lack them.
inline constexpr const char* tokens_column = "/row_tokens";
inline constexpr const char* target_tokens_column = "/row_target_tokens";
inline constexpr const char* weight_sum_column = "/row_weight_sum";
inline constexpr const char* length_squares_column = "/row_length_squares";

/// Rows in a chunk of tokens: a random row costs one chunk, which is 64 KiB where rows are not longer.
[[nodiscard]] constexpr std::int64_t chunk_rows_of(std::int64_t max_length) {
  constexpr std::int64_t chunk_tokens = 16384;
  return max_length < chunk_tokens ? chunk_tokens / max_length : 1;
}

/// What all shards of a data set have in common.
struct ShardTraits {
  std::int64_t max_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::string tokenizer;
  std::string tokenizer_fingerprint;  ///< "" when the file does not say it
};

/// What a shard says of itself, known once it was opened by any process.
struct ShardFacts {
  std::string path;
  std::uintmax_t num_bytes = 0;
  ShardTraits traits;
  std::optional<ShardNumber> number;  ///< which shard of which set it is, if it says so
  std::string fingerprint;            ///< "" when the file has none
  std::string seal;                   ///< the line of its seal, "" when it has none
  std::int64_t num_rows = 0, num_documents = 0, num_tokens = 0, num_target_tokens = 0;
  bool has_row_table = false;  ///< whether it holds the counts of each row

  void pack(BytePacker& packer) const;
  [[nodiscard]] static ShardFacts unpack(ByteUnpacker& unpacker);
};

class ShardFile {
 public:
  /// Opens and checks the file, its attributes, the shapes, and the ends of the document table, which is then read row
  /// by row. Of a file without a seal it reads the whole document table once. What a file holds is never in memory as a
  /// whole.
  explicit ShardFile(const std::string& path);
  /// A file that another process opened and checked, which may be another copy of it on another machine. It is opened
  /// when a row of it is read, and refused then unless it has the seal (without one the size), the counts and the
  /// content hash of `facts`.
  explicit ShardFile(ShardFacts facts) : facts_(std::move(facts)) {}

  [[nodiscard]] const ShardFacts& facts() const { return facts_; }
  [[nodiscard]] const std::string& path() const { return facts_.path; }
  /// Whether every byte of it is checked when it is read.
  [[nodiscard]] bool is_sealed() const { return !facts_.seal.empty(); }
  /// The warning of io::Hdf5File::warning() about another program's change to the file.
  [[nodiscard]] const std::string& warning() const { return file().warning(); }
  /// Why reading single rows of it is slow: chunks of which each row unpacks many; "" where it is not.
  [[nodiscard]] std::string chunk_warning() const;
  /// The content hash of its rows, as the file says it. For a file that does not, "sampled-" and a hash of its counts
  /// and of a few of its rows, which reads them.
  [[nodiscard]] std::string fingerprint() const;
  /// The markup that its rows were written with, as far as the file says. Reads the file.
  [[nodiscard]] Markup markup() const;

  /// Row `index` of this file, by hyperslab; refuses impossible document tables, ids and weights by file and row.
  [[nodiscard]] Row read_row(std::int64_t index) const;
  /// Row `index` as read_row() has it, but for the tokens, which are not read: what counts follow from.
  [[nodiscard]] Row read_labels(std::int64_t index) const;
  /// Appends the number of tokens of every row, in order: reads it, or of a file without it the document table.
  void append_row_lengths(std::vector<std::int32_t>& lengths) const;
  /// Appends the counts of every row, in order. Only of a file that has_row_table.
  void append_row_counts(std::vector<BatchCounts>& counts) const;
  /// Reads every row; refuses a file whose rows do not have the counts and the content hash that it says.
  void verify() const;
  /// Gives back the memory that reading rows keeps for the next one.
  void release() const {
    if (file_) file_->release();
  }
  /// Closes the file, for which HDF5 takes half a megabyte; the next read opens it again and refuses it if it changed.
  void close() const { file_.reset(); }

 private:
  void read_attributes();
  void read_number();
  void check_shapes() const;
  void check_table_ends() const;
  void check_row_table() const;
  /// Refuses a file that is not the one that was opened first.
  void check_same() const;
  void check_whole_table() const;
  /// Calls visit(tokens of the row) for every row in order, checked.
  template <class Visit>
  void for_each_row_length(const Visit& visit) const;
  [[nodiscard]] io::Rectangle whole_row(std::int64_t index) const;
  /// Document offsets [offsets[row], offsets[row + 1]] of rows [first, first + count), checked.
  [[nodiscard]] std::vector<std::int64_t> read_offsets(std::int64_t first, std::int64_t count) const;
  /// Lengths of the documents [begin, end).
  [[nodiscard]] std::vector<std::int32_t> read_lengths(std::int64_t begin, std::int64_t end) const;
  /// The number of tokens of a row whose documents, from number `first_document` on, have these lengths; checked.
  std::int64_t count_tokens(std::int64_t row, std::int64_t first_document, std::span<const std::int32_t> lengths) const;
  [[noreturn]] void refuse(const std::string& why) const;
  /// The file, open.
  [[nodiscard]] const io::Hdf5File& file() const;

  ShardFacts facts_;
  mutable std::optional<std::filesystem::file_time_type> written_;  // when it was opened first by this process
  mutable std::optional<io::Hdf5File> file_;
};

}  // namespace sft::rows
