#pragma once
// One packed shard, opened and checked: the attributes and datasets of the format "sft-packed", version 1.

#include <cstdint>
#include <string>
#include <vector>

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
};

class ShardFile {
 public:
  /// Opens and checks everything but the rows themselves. The document table stays in memory.
  explicit ShardFile(const std::string& path);

  [[nodiscard]] const std::string& path() const { return file_.path(); }
  [[nodiscard]] const ShardTraits& traits() const { return traits_; }
  [[nodiscard]] std::int64_t num_rows() const { return num_rows_; }
  [[nodiscard]] std::int64_t num_documents() const { return static_cast<std::int64_t>(document_lengths_.size()); }
  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  [[nodiscard]] std::int64_t num_target_tokens() const { return num_target_tokens_; }

  /// Row `index` of this file, by hyperslab; refuses impossible ids and weights by file and row.
  [[nodiscard]] Row read_row(std::int64_t index) const;
  /// Gives back the memory that reading rows keeps for the next one.
  void release() const { file_.release(); }

 private:
  void read_attributes();
  void check_shapes() const;
  void read_document_table();
  [[noreturn]] void refuse(const std::string& why) const;

  io::Hdf5File file_;
  ShardTraits traits_;
  std::int64_t num_rows_ = 0, num_tokens_ = 0, num_target_tokens_ = 0;
  std::vector<std::int32_t> document_lengths_;
  std::vector<std::int64_t> document_offsets_;
};

}  // namespace sft::data
