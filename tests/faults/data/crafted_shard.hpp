// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed shards with anything wrong in them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace sft::test {

/// A sound shard of two rows; change any part of it before it is written. What is erased is not written.
struct CraftedShard {
  std::map<std::string, std::string> texts = {
      {"format", "sft-packed"}, {"tokenizer", "byte"}, {"packing_strategy", "bfd"}, {"source", "test"}};
  std::map<std::string, std::int64_t> integers = {
      {"format_version", 1}, {"max_length", 4},    {"vocab_size", 272}, {"pad_token_id", 256},   {"eos_token_id", 258},
      {"num_rows", 2},       {"num_documents", 3}, {"num_tokens", 7},   {"num_target_tokens", 4}};
  std::vector<std::int64_t> shape = {2, 4};  ///< of tokens and loss_weight
  std::vector<std::int32_t> tokens = {1, 2, 3, 4, 5, 6, 7, 256};
  std::vector<float> loss_weight = {0, 1, 1, 1, 0, 0, 1, 0};
  std::vector<std::int32_t> document_lengths = {4, 1, 2};
  std::vector<std::int64_t> document_offsets = {0, 1, 3};
  std::string without_dataset;  ///< the one that is left out

  void write(const std::string& path) const;
};

}  // namespace sft::test
