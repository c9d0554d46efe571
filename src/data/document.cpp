// SPDX-License-Identifier: Apache-2.0
#include "sft/data/document.hpp"

#include "data/spill_file.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::data {

namespace {

/// Tokens of one weight, up to `end`.
struct WeightRun {
  std::int32_t end;  ///< position in the document past the run
  float weight;
};

std::vector<WeightRun> runs_of(std::span<const float> weights) {
  std::vector<WeightRun> runs;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (i == 0 || weights[i] != runs.back().weight) runs.push_back({0, weights[i]});
    runs.back().end = static_cast<std::int32_t>(i + 1);
  }
  return runs;
}

}  // namespace

DocumentStore::DocumentStore(const std::string& folder) : file_(std::make_unique<SpillFile>(folder)) {}
DocumentStore::~DocumentStore() = default;
DocumentStore::DocumentStore(DocumentStore&&) noexcept = default;

void DocumentStore::append(const Document& document, std::int64_t length) {
  SFT_ENSURE(document.tokens.size() == document.loss_weight.size(), "every token of a document has a weight");
  SFT_ENSURE(length >= 0, "a document is cut within itself");
  SFT_ENSURE(length <= document.tokens.size(), "a document is cut within itself");
  lengths_.push_back(checked_cast<std::int32_t>(length));
  const std::size_t size = length;
  file_->append(std::as_bytes(std::span(document.tokens).first(size)));
  const std::vector<WeightRun> runs = runs_of(std::span(document.loss_weight).first(size));
  file_->append(std::as_bytes(std::span(runs)));
  begin_bytes_.push_back(file_->size_bytes());
}

void DocumentStore::read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
                         std::span<float> loss_weight) const {
  const std::size_t d = document;
  const auto end = begin + static_cast<std::int64_t>(tokens.size());
  SFT_ENSURE(begin >= 0, "a piece lies in its document");
  SFT_ENSURE(end <= lengths_.at(d), "a piece lies in its document");
  SFT_ENSURE(loss_weight.size() == tokens.size(), "every token of a piece has a weight");
  constexpr std::int64_t token_bytes = sizeof(std::int32_t);
  file_->read(begin_bytes_[d] + begin * token_bytes, std::as_writable_bytes(tokens));

  const std::int64_t runs_begin_byte = begin_bytes_[d] + lengths_[d] * token_bytes;
  std::vector<WeightRun> runs((begin_bytes_[d + 1] - runs_begin_byte) / sizeof(WeightRun));
  file_->read(runs_begin_byte, std::as_writable_bytes(std::span(runs)));
  std::size_t run = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    while (runs[run].end <= i) ++run;
    loss_weight[i - begin] = runs[run].weight;
  }
}

}  // namespace sft::data
