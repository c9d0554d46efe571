#pragma once
// Tokenized training examples, before they are packed.

#include <cstdint>
#include <span>
#include <vector>

namespace sft::data {

struct Document {
  std::vector<std::int32_t> tokens;
  std::vector<float> loss_weight;  ///< (tokens.size()), of each token as a target
};

/// Many documents in little memory: tokens back to back, weights as runs of equal values.
class DocumentStore {
 public:
  /// Takes the first `length` tokens of a document; length <= tokens.size().
  void append(const Document& document, std::int64_t length);

  [[nodiscard]] std::int64_t size() const { return static_cast<std::int64_t>(lengths_.size()); }
  [[nodiscard]] const std::vector<std::int64_t>& lengths() const { return lengths_; }
  /// Copies tokens [begin, begin + tokens.size()) of a document and their weights; both spans have one size.
  void read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
            std::span<float> loss_weight) const;

 private:
  struct WeightRun {
    std::int64_t end;  ///< position in the document past the run
    float weight;
  };

  std::vector<std::int32_t> tokens_;
  std::vector<WeightRun> runs_;
  std::vector<std::int64_t> lengths_;
  std::vector<std::int64_t> token_begins_;
  std::vector<std::size_t> run_begins_;
};

}  // namespace sft::data
