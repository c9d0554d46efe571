// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of things by their kind, so that one kind is not taken for another.

#include <cstddef>
#include <initializer_list>
#include <type_traits>
#include <utility>
#include <vector>

namespace sft {

/// The number of one thing among all of its kind, from 0. It converts to a plain number. A constant converts to it; a
/// number that is known at run time only does with from(), and a number of another kind does not: it is neither
/// compared with it nor does it index an IndexedVector.
template <class Kind>
class Index {
 public:
  constexpr Index() = default;
  consteval Index(int value) : value_(value) {}  // NOLINT(google-explicit-constructor): as above
  /// Number `value` of the kind, for whoever counts things that no IndexRange goes through.
  [[nodiscard]] static constexpr Index from(int value) {
    Index index;
    index.value_ = value;
    return index;
  }
  constexpr operator int() const { return value_; }  // NOLINT(google-explicit-constructor): as above
  constexpr Index& operator++() {
    ++value_;
    return *this;
  }

 private:
  int value_ = 0;
};

template <class Kind, class Other>
requires(!std::is_same_v<Kind, Other>) bool operator==(Index<Kind>, Index<Other>) = delete;

/// The indices from 0 to `size` - 1, or reversed, for loops over them.
template <class Number>
class IndexRange {
 public:
  class Iterator {
   public:
    constexpr Iterator(int value, int step) : value_(value), step_(step) {}
    constexpr Number operator*() const { return Number::from(value_); }
    constexpr Iterator& operator++() {
      value_ += step_;
      return *this;
    }
    [[nodiscard]] constexpr bool operator==(const Iterator&) const = default;

   private:
    int value_, step_;
  };

  constexpr explicit IndexRange(int size) : begin_(0, 1), end_(size, 1) {}
  /// The range of `size` indices from the last one to 0.
  [[nodiscard]] static constexpr IndexRange reversed(int size) {
    IndexRange range(size);
    range.begin_ = Iterator(size - 1, -1);
    range.end_ = Iterator(-1, -1);
    return range;
  }
  [[nodiscard]] constexpr Iterator begin() const { return begin_; }
  [[nodiscard]] constexpr Iterator end() const { return end_; }

 private:
  Iterator begin_, end_;
};

/// A vector of one T for each thing of a kind, which `Number`, an Index, counts.
template <class Number, class T>
class IndexedVector {
 public:
  using value_type = T;
  using const_iterator = typename std::vector<T>::const_iterator;

  IndexedVector() = default;
  IndexedVector(std::initializer_list<T> values) : values_(values) {}
  /// `size` of them, each T().
  explicit IndexedVector(int size) : values_(static_cast<std::size_t>(size)) {}
  explicit IndexedVector(std::vector<T> values) : values_(std::move(values)) {}

  [[nodiscard]] typename std::vector<T>::reference operator[](Number number) { return values_[at(number)]; }
  [[nodiscard]] typename std::vector<T>::const_reference operator[](Number number) const { return values_[at(number)]; }
  [[nodiscard]] int size() const { return static_cast<int>(values_.size()); }
  [[nodiscard]] bool empty() const { return values_.empty(); }
  [[nodiscard]] IndexRange<Number> indices() const { return IndexRange<Number>(size()); }
  [[nodiscard]] IndexRange<Number> reversed_indices() const { return IndexRange<Number>::reversed(size()); }
  [[nodiscard]] bool operator==(const IndexedVector&) const = default;

  void push_back(T value) { values_.push_back(std::move(value)); }
  void clear() { values_.clear(); }
  /// The number of the last one, which there is.
  [[nodiscard]] Number last() const { return Number::from(size() - 1); }
  [[nodiscard]] T& front() { return values_.front(); }
  [[nodiscard]] const T& front() const { return values_.front(); }
  [[nodiscard]] const T& back() const { return values_.back(); }
  [[nodiscard]] auto begin() { return values_.begin(); }
  [[nodiscard]] auto end() { return values_.end(); }
  [[nodiscard]] auto begin() const { return values_.begin(); }
  [[nodiscard]] auto end() const { return values_.end(); }

 private:
  static std::size_t at(Number number) { return static_cast<std::size_t>(static_cast<int>(number)); }

  std::vector<T> values_;
};

}  // namespace sft
