// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tokenized training examples, before they are packed.

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace sft::prepare {

class SpillFile;

struct Document {
  std::vector<std::int32_t> tokens;
  std::vector<float> loss_weight;  ///< (tokens.size()), of each token as a target
};

/// So many documents, one after the other, of one of several tables.
struct DocumentRun {
  std::size_t table = 0;
  std::int64_t num_documents = 0;
};

/// Many documents on disk: tokens and weights lie in a temporary file. Memory holds lengths, places and hashes, 28
/// bytes per document.
class DocumentStore {
 public:
  /// The temporary file lies on the disk of `folder`, which exists, and has no name: it is gone when the process ends,
  /// however it ends. Here and below a data Error says when the disk is full or cannot be written.
  explicit DocumentStore(const std::string& folder);
  /// One whose temporary file is `path`, for other processes to read; it goes with the object.
  [[nodiscard]] static DocumentStore make_shared(const std::string& path);
  ~DocumentStore();
  DocumentStore(DocumentStore&&) noexcept;

  /// Takes the first `length` tokens of a document; length <= tokens.size(), and below 2^31.
  void append(const Document& document, std::int64_t length);

  /// Ends a store that other ranks are to read, when all is appended. Gives the table that join() takes there.
  [[nodiscard]] std::string finish();
  /// The documents of the stores that gave these tables, in this order, each store's in its own. Their files must stay.
  [[nodiscard]] static DocumentStore join(const std::vector<std::string>& tables, std::span<const DocumentRun> order);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] const std::vector<std::int32_t>& lengths() const { return lengths_; }
  /// A hash of the tokens and weights of each document.
  [[nodiscard]] const std::vector<std::uint64_t>& hashes() const { return hashes_; }
  /// Copies tokens [begin, begin + tokens.size()) of a document and their weights; both spans have one size.
  void read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
            std::span<float> loss_weight) const;

 private:
  /// Where the tokens of a document are, and behind them its runs of equal weights.
  struct Address {
    std::int64_t begin_byte;
    std::int32_t num_runs;
    std::int32_t file;
  };

  DocumentStore();

  mutable std::vector<SpillFile> files_;
  std::string path_;  ///< of a file that others read
  std::vector<std::int32_t> lengths_;
  std::vector<std::uint64_t> hashes_;
  std::vector<Address> addresses_;
};

}  // namespace sft::prepare
