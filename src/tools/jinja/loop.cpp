// SPDX-License-Identifier: Apache-2.0
#include "jinja/loop.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <utility>

#include "jinja/unicode.hpp"

namespace sft::jinja {

namespace {

class NoItems : public Iterator {
 public:
  std::optional<Value> next() override { return std::nullopt; }
};

class ListIterator : public Iterator {
 public:
  ListIterator(Heap& heap, ListRef list) : heap_(heap), list_(std::move(list)) {}
  std::optional<Value> next() override {
    heap_.step();
    if (index_ >= list_->items.size()) return std::nullopt;
    return list_->items[index_++];
  }

 private:
  Heap& heap_;
  ListRef list_;
  std::size_t index_ = 0;
};

class KeyIterator : public Iterator {
 public:
  KeyIterator(Heap& heap, DictRef dict) : heap_(heap), dict_(std::move(dict)) {}
  std::optional<Value> next() override {
    heap_.step();
    if (index_ >= dict_->entries.size()) return std::nullopt;
    return dict_->entries[index_++].first;
  }

 private:
  Heap& heap_;
  DictRef dict_;
  std::size_t index_ = 0;
};

class CharacterIterator : public Iterator {
 public:
  CharacterIterator(Heap& heap, TextRef text) : heap_(heap), text_(std::move(text)) {}
  std::optional<Value> next() override {
    heap_.step();
    if (position_ >= text_->bytes.size()) return std::nullopt;
    const std::size_t begin = position_;
    (void)next_code_point(text_->bytes, position_);
    return cut_text(&heap_, text_, begin, position_);
  }

 private:
  Heap& heap_;
  TextRef text_;
  std::size_t position_ = 0;
};

class RangeIterator : public Iterator {
 public:
  RangeIterator(Heap& heap, const Range& range) : heap_(heap), range_(range) {}
  std::optional<Value> next() override {
    heap_.step();
    if (index_ >= range_.size()) return std::nullopt;
    return range_.start + range_.step * index_++;
  }

 private:
  Heap& heap_;
  const Range range_;
  std::int64_t index_ = 0;
};

class GeneratorIterator : public Iterator {
 public:
  GeneratorIterator(Heap& heap, GeneratorRef generator) : heap_(heap), generator_(std::move(generator)) {}
  std::optional<Value> next() override {
    heap_.step();
    if (generator_->num_taken >= generator_->items.size()) return std::nullopt;
    return generator_->items[generator_->num_taken++];
  }

 private:
  Heap& heap_;
  GeneratorRef generator_;
};

}  // namespace

std::unique_ptr<Iterator> iterate(Heap& heap, const Value& value) {
  if (const auto* list = value.get<ListRef>()) return std::make_unique<ListIterator>(heap, *list);
  if (const auto* dict = value.get<DictRef>()) return std::make_unique<KeyIterator>(heap, *dict);
  if (const auto* text = value.get<TextRef>()) return std::make_unique<CharacterIterator>(heap, *text);
  if (const auto* range = value.get<RangeRef>()) return std::make_unique<RangeIterator>(heap, **range);
  if (const auto* generator = value.get<GeneratorRef>()) return std::make_unique<GeneratorIterator>(heap, *generator);
  if (value.is_undefined()) return std::make_unique<NoItems>();
  throw Failure(fmt::format("'{}' object is not iterable", type_name(value)));
}

std::vector<Value> items_of(Heap& heap, const Value& value) {
  std::vector<Value> items;
  const std::unique_ptr<Iterator> iterator = iterate(heap, value);
  while (std::optional<Value> item = iterator->next()) {
    heap.require(items.size() * 2 * sizeof(Value));
    items.push_back(*std::move(item));
  }
  return items;
}

Loop::Loop(Heap& heap, std::unique_ptr<Iterator> items, Value iterable, bool has_length)
    : heap_(heap), items_(std::move(items)), iterable_(std::move(iterable)), has_length_(has_length) {}

std::optional<Value> Loop::advance() {
  std::optional<Value> item = after_ ? std::exchange(after_, std::nullopt) : items_->next();
  if (!item) return std::nullopt;
  ++index0_;
  before_ = std::exchange(current_, item);
  return item;
}

bool Loop::peek() {
  if (!after_) after_ = items_->next();
  return after_.has_value();
}

std::int64_t Loop::length() {
  if (length_) return *length_;
  if (has_length_) {
    length_ = length_of(iterable_);
  } else {
    std::vector<Value> rest;
    while (std::optional<Value> item = items_->next()) {
      heap_.require(rest.size() * 2 * sizeof(Value));
      rest.push_back(*std::move(item));
    }
    length_ = static_cast<std::int64_t>(rest.size()) + index0_ + 1 + (after_ ? 1 : 0);
    items_ =
        std::make_unique<ListIterator>(heap_, std::make_shared<const List>(&heap_, List::Kind::list, std::move(rest)));
  }
  return *length_;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index0") return index0_;
  if (name == "index") return index0_ + 1;
  if (name == "first") return index0_ == 0;
  if (name == "last") return !peek();
  if (name == "length") return length();
  if (name == "revindex") return length() - index0_;
  if (name == "revindex0") return length() - index0_ - 1;
  if (name == "previtem") return before_ ? *before_ : make_undefined("there is no previous item");
  if (name == "nextitem") return peek() ? *after_ : make_undefined("there is no next item");
  for (const std::string_view known : {"cycle", "changed", "depth", "depth0"}) {
    if (name == known) fail_unsupported(fmt::format("'loop.{}'", name));
  }
  return std::nullopt;
}

}  // namespace sft::jinja
