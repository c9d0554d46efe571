#include "sft/data/document.hpp"

#include <algorithm>

#include "sft/core/error.hpp"

namespace sft::data {

void DocumentStore::append(const Document& document, std::int64_t length) {
  ensure(document.tokens.size() == document.loss_weight.size() && length >= 0 &&
             length <= static_cast<std::int64_t>(document.tokens.size()),
         "every token of a document has a weight");
  lengths_.push_back(length);
  token_begins_.push_back(static_cast<std::int64_t>(tokens_.size()));
  run_begins_.push_back(runs_.size());
  tokens_.insert(tokens_.end(), document.tokens.begin(), document.tokens.begin() + length);
  for (std::int64_t i = 0; i < length; ++i) {
    const float weight = document.loss_weight[static_cast<std::size_t>(i)];
    if (i == 0 || weight != runs_.back().weight) {
      runs_.push_back({i + 1, weight});
    } else {
      runs_.back().end = i + 1;
    }
  }
}

void DocumentStore::read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
                         std::span<float> loss_weight) const {
  const auto d = static_cast<std::size_t>(document);
  const auto end = begin + static_cast<std::int64_t>(tokens.size());
  ensure(begin >= 0 && end <= lengths_.at(d) && loss_weight.size() == tokens.size(), "a piece lies in its document");
  std::copy_n(tokens_.begin() + token_begins_[d] + begin, tokens.size(), tokens.begin());
  std::size_t run = run_begins_[d];
  for (std::int64_t i = begin; i < end; ++i) {
    while (runs_[run].end <= i) ++run;
    loss_weight[static_cast<std::size_t>(i - begin)] = runs_[run].weight;
  }
}

}  // namespace sft::data
