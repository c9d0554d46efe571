// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokenized training examples, before they are packed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sft::data {

class SpillFile;

struct Document {
  std::vector<std::int32_t> tokens;
  std::vector<float> loss_weight;  ///< (tokens.size()), of each token as a target
};

/// Many documents on disk: tokens and weights lie in a temporary file without a name, which is gone when the process
/// ends, however it ends. Memory holds the lengths and places alone, 12 bytes per document.
class DocumentStore {
 public:
  /// The temporary file lies on the disk of `folder`, which exists. Here and below a data Error says when the disk is
  /// full or cannot be written.
  explicit DocumentStore(const std::string& folder);
  ~DocumentStore();
  DocumentStore(DocumentStore&&) noexcept;

  /// Takes the first `length` tokens of a document; length <= tokens.size(), and below 2^31.
  void append(const Document& document, std::int64_t length);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] const std::vector<std::int32_t>& lengths() const { return lengths_; }
  /// Copies tokens [begin, begin + tokens.size()) of a document and their weights; both spans have one size.
  void read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
            std::span<float> loss_weight) const;

 private:
  std::unique_ptr<SpillFile> file_;  ///< of each document its tokens, then runs of equal weights
  std::vector<std::int32_t> lengths_;
  std::vector<std::int64_t> begin_bytes_ = {
      0};  ///< (size() + 1): document d takes [begin_bytes_[d], begin_bytes_[d+1])
};

}  // namespace sft::data
