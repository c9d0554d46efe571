// SPDX-License-Identifier: Apache-2.0
#pragma once
// One packed shard, opened and checked: the attributes and datasets of the format "sft-packed", version 1.

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "data/shard_set.hpp"
#include "sft/data/packed_dataset.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::data {

/// What all shards of a data set have in common.
struct ShardTraits {
  std::int64_t max_length = 0;
  std::int64_t vocab_size = 0;
  std::int64_t pad_token_id = 0;
  std::int64_t eos_token_id = 0;
  std::string tokenizer;
  std::string tokenizer_fingerprint;  ///< "" when the file does not say it
};

/// Tells whether a file was changed.
struct FileStamp {
  std::uintmax_t num_bytes = 0;
  std::filesystem::file_time_type written;

  bool operator==(const FileStamp&) const = default;
};

class ShardFile {
 public:
  /// Opens and checks the file, its attributes, the shapes, and the ends of the document table, which is then read row
  /// by row. Of a file without a seal it reads the whole document table once. What a file holds is never in memory as a
  /// whole.
  explicit ShardFile(const std::string& path);

  [[nodiscard]] const std::string& path() const { return path_; }
  [[nodiscard]] const ShardTraits& traits() const { return traits_; }
  [[nodiscard]] std::int64_t num_rows() const { return num_rows_; }
  [[nodiscard]] std::int64_t num_documents() const { return num_documents_; }
  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] std::int64_t num_target_tokens() const { return num_target_tokens_; }

  /// Which shard of which set it is, if it says so.
  [[nodiscard]] const std::optional<ShardNumber>& number() const { return number_; }
  /// The content hash of its rows, as the file says it. For a file that does not, "sampled-" and a hash of its counts
  /// and of a few of its rows, which reads them.
  [[nodiscard]] std::string fingerprint() const;

  /// Row `index` of this file, by hyperslab; refuses impossible document tables, ids and weights by file and row.
  [[nodiscard]] Row read_row(std::int64_t index) const;
  /// Row `index` as read_row() has it, but for the tokens, which are not read: what counts follow from.
  [[nodiscard]] Row read_labels(std::int64_t index) const;
  /// Appends the number of tokens of every row, in order: reads the document table.
  void append_row_lengths(std::vector<std::int32_t>& lengths) const;
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

  std::string path_;
  FileStamp stamp_;
  mutable std::optional<io::Hdf5File> file_;
  ShardTraits traits_;
  std::optional<ShardNumber> number_;
  std::string fingerprint_;  // "" when the file has none
  std::int64_t num_rows_ = 0, num_documents_ = 0, num_tokens_ = 0, num_target_tokens_ = 0;
};

}  // namespace sft::data
