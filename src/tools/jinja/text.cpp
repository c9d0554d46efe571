// SPDX-License-Identifier: Apache-2.0
#include "jinja/text.hpp"

#include <algorithm>
#include <utility>

namespace sft::jinja {

namespace {

std::size_t size_of_text(const std::string& bytes, const std::vector<Run>& runs) {
  return sizeof(Text) + bytes.size() + runs.size() * sizeof(Run);
}

/// The run that holds the byte at `position`.
std::size_t find_run(const std::vector<Run>& runs, std::size_t position) {
  const auto found = std::upper_bound(runs.begin(), runs.end(), position,
                                      [](std::size_t place, const Run& run) { return place < run.end; });
  return static_cast<std::size_t>(found - runs.begin());
}

}  // namespace

Text::Text(Heap* heap, std::string text, std::vector<Run> tagged_runs, bool markup)
    : charge(heap, size_of_text(text, tagged_runs)),
      bytes(std::move(text)),
      runs(std::move(tagged_runs)),
      is_markup(markup) {}

void TextBuilder::grow(std::size_t bytes) {
  if (heap_ == nullptr) return;
  heap_->move_bytes(bytes);
  heap_->hold(bytes);
  charged_bytes_ += bytes;
}

void TextBuilder::push_run(std::size_t end, const Tag& tag) {
  if (!runs_.empty() && runs_.back().tag == tag) {
    runs_.back().end = end;
  } else if (end > (runs_.empty() ? 0 : runs_.back().end)) {
    if (heap_ != nullptr) {
      heap_->hold(sizeof(Run));
      charged_bytes_ += sizeof(Run);
    }
    runs_.push_back({end, tag});
  }
}

void TextBuilder::append(std::string_view bytes, const Tag& tag) {
  grow(bytes.size());
  bytes_ += bytes;
  push_run(bytes_.size(), tag);
}

void TextBuilder::append(const Text& text, std::size_t begin, std::size_t end) {
  if (begin >= end) return;
  grow(end - begin);
  const std::size_t shift = bytes_.size();
  bytes_.append(text.bytes, begin, end - begin);
  for (std::size_t i = find_run(text.runs, begin); i < text.runs.size(); ++i) {
    push_run(shift + std::min(text.runs[i].end, end) - begin, text.runs[i].tag);
    if (text.runs[i].end >= end) break;
  }
}

void TextBuilder::append_in_turn(const Text& text, std::int32_t turn, bool is_written) {
  if (turn < 0) return append(text);
  grow(text.bytes.size());
  const std::size_t shift = bytes_.size();
  bytes_ += text.bytes;
  for (const Run& run : text.runs) {
    Tag tag = run.tag;
    if (is_written || tag.turn < 0) tag.turn = turn;
    push_run(shift + run.end, tag);
  }
}

void TextBuilder::mark_generation(std::size_t begin, std::int32_t generation) {
  const std::size_t size = bytes_.size();
  if (begin >= size) return;
  std::vector<Run> tail(runs_.begin() + static_cast<std::ptrdiff_t>(find_run(runs_, begin)), runs_.end());
  runs_.resize(runs_.size() - tail.size());
  if (begin > (runs_.empty() ? 0 : runs_.back().end)) push_run(begin, tail.front().tag);
  for (Run& run : tail) {
    run.tag.generation = generation;
    push_run(run.end, run.tag);
  }
}

TextRef TextBuilder::take(bool is_markup) {
  std::string bytes = std::exchange(bytes_, {});
  std::vector<Run> runs = std::exchange(runs_, {});
  if (heap_ != nullptr) heap_->release(std::exchange(charged_bytes_, 0));
  bytes.shrink_to_fit();
  runs.shrink_to_fit();
  return std::make_shared<const Text>(heap_, std::move(bytes), std::move(runs), is_markup);
}

TextRef make_text(Heap* heap, std::string_view bytes, const Tag& tag, bool is_markup) {
  if (heap != nullptr) {
    heap->move_bytes(bytes.size());
    heap->require(bytes.size());
  }
  std::vector<Run> runs;
  if (!bytes.empty()) runs.push_back({bytes.size(), tag});
  return std::make_shared<const Text>(heap, std::string(bytes), std::move(runs), is_markup);
}

TextRef cut_text(Heap* heap, const TextRef& text, std::size_t begin, std::size_t end) {
  if (begin == 0 && end == text->bytes.size()) return text;
  TextBuilder builder(heap);
  builder.append(*text, begin, end);
  return builder.take(text->is_markup);
}

Tag tag_at(const Text& text, std::size_t position) {
  const std::size_t run = find_run(text.runs, position);
  return run < text.runs.size() ? text.runs[run].tag : Tag{};
}

}  // namespace sft::jinja
