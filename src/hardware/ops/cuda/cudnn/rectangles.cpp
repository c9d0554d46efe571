// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/rectangles.hpp"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <tuple>
#include <utility>

#include "ops/cuda/attention_plan.hpp"
#include "ops/cuda/kernels/kernels.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

/// A rectangle and the spans that it consists of.
struct Joined {
  Rectangle rectangle;
  std::vector<sequence::AttentionSpan> spans;

  [[nodiscard]] std::int64_t area() const { return rectangle.q_len * rectangle.k_len; }
  [[nodiscard]] bool is_worth_a_call() const {
    return rectangle.q_len >= least_longest && rectangle.k_len >= least_longest;
  }
};

using Side = std::pair<std::int64_t Rectangle::*, std::int64_t Rectangle::*>;  ///< begin and length
constexpr Side queries{&Rectangle::q_begin, &Rectangle::q_len}, keys{&Rectangle::k_begin, &Rectangle::k_len};

/// Puts those together that are alike on one side, and neighbours on the other.
void join(std::vector<Joined>& parts, const Side& alike, const Side& other) {
  const auto order = [&](const Joined& part) {
    const Rectangle& r = part.rectangle;
    return std::tuple(r.*alike.first, r.*alike.second, r.*other.first);
  };
  std::ranges::sort(parts, {}, order);
  std::vector<Joined> joined;
  for (Joined& part : parts) {
    const Rectangle& r = part.rectangle;
    Joined* const last = joined.empty() ? nullptr : &joined.back();
    const bool goes_on = last != nullptr && last->rectangle.*alike.first == r.*alike.first &&
                         last->rectangle.*alike.second == r.*alike.second &&
                         last->rectangle.*other.first + last->rectangle.*other.second == r.*other.first;
    if (!goes_on) {
      joined.push_back(std::move(part));
      continue;
    }
    last->rectangle.*other.second += r.*other.second;
    std::ranges::move(part.spans, std::back_inserter(last->spans));
  }
  parts = std::move(joined);
}

}  // namespace

SplitSpans split_rectangles(const std::vector<sequence::AttentionSpan>& spans) {
  SplitSpans split;
  std::vector<Joined> parts;
  for (const sequence::AttentionSpan& span : spans) {
    if (span.q_len <= 0 || span.k_len <= 0) continue;
    const bool is_full = span.diagonal >= span.k_len - 1 && !span.is_windowed();
    if (is_full) {
      parts.push_back({{span.q_begin, span.q_len, span.k_begin, span.k_len}, {span}});
    } else {
      split.rest.push_back(span);
    }
  }
  join(parts, keys, queries);
  join(parts, queries, keys);
  std::ranges::stable_sort(parts, std::greater{}, &Joined::area);
  for (Joined& part : parts) {
    if (part.is_worth_a_call() && split.rectangles.size() < max_rectangles) {
      split.rectangles.push_back(part.rectangle);
    } else {
      std::ranges::move(part.spans, std::back_inserter(split.rest));
    }
  }
  return split;
}

Rectangles::~Rectangles() {
  for (const auto& [rows, memory] : lengths_) pool_.give_back(memory);
  for (const auto& [elements, memory] : offsets_) pool_.give_back(memory);
}

const std::int32_t* Rectangles::length(std::int64_t rows) {
  std::int32_t*& memory = lengths_[rows];
  if (memory != nullptr) return memory;
  const std::array<std::int32_t, 4> values = {static_cast<std::int32_t>(rows)};  // 16 bytes, as uploads come
  memory = static_cast<std::int32_t*>(pool_.take(sizeof(values)));
  upload(memory, values.data(), sizeof(values), stream_);
  return memory;
}

const std::int64_t* Rectangles::offsets(std::int64_t elements) {
  std::int64_t*& memory = offsets_[elements];
  if (memory != nullptr) return memory;
  const std::array<std::int64_t, 2> values = {0, elements};
  memory = static_cast<std::int64_t*>(pool_.take(sizeof(values)));
  upload(memory, values.data(), sizeof(values), stream_);
  return memory;
}

}  // namespace sft::ops::cuda::cudnn
