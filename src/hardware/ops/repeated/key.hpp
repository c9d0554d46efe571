// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <bit>
#include <concepts>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "sft/ops/call.hpp"

namespace sft::ops::repeated {

/// A visitor of ops that tells calls apart: the key of a call is its op, its own length, and every tensor and number.
class Key : public IgnoringVisitor {
 public:
  /// Key of the call, valid until the next one. Empty: no other call is the same one, because its plan of attention is
  /// like no other.
  const std::vector<std::uint64_t>& of(const Call& call) {
    words_.assign(1, 0);
    is_single_ = false;
    std::visit([this](const auto& op) { op.describe(*this); }, call);
    if (is_single_) {
      words_.clear();
    } else {
      words_.front() = (call.index() + 1) << 32U | words_.size();  // 0 is none (Device::fill_zero)
    }
    return words_;
  }

  template <class... Rest>
  void in(const char* /*name*/, const ConstTensor& x, const Rest&... /*rules*/) {
    words_.push_back(reinterpret_cast<std::uintptr_t>(x.data));
    words_.push_back(static_cast<std::uint64_t>(x.dtype) << 32U | static_cast<std::uint64_t>(x.ndim));
    for (int dim = 0; dim < x.ndim; ++dim) words_.push_back(static_cast<std::uint64_t>(x.shape[dim]));
    words_.push_back(static_cast<std::uint64_t>(x.stride0));
  }
  template <class... Rest>
  void out(const char* name, const ConstTensor& x, const Rest&... /*rules*/) {
    in(name, x);
  }
  template <class... Rest>
  void add(const char* name, const ConstTensor& x, const Rest&... /*rules*/) {
    in(name, x);
  }
  template <class... Rest>
  void unread(const char* name, const ConstTensor& x, const Rest&... /*rules*/) {
    in(name, x);
  }
  template <class Scalar>
  void scalar(const char* /*name*/, Scalar value) {
    if constexpr (std::same_as<Scalar, float>) {
      words_.push_back(std::bit_cast<std::uint32_t>(value));
    } else if constexpr (std::same_as<Scalar, double>) {
      words_.push_back(std::bit_cast<std::uint64_t>(value));
    } else {
      static_assert(std::is_integral_v<Scalar> || std::is_enum_v<Scalar>);
      words_.push_back(static_cast<std::uint64_t>(value));
    }
  }
  void plan(const AttentionPlan& plan, char /*queries*/, char /*keys*/) {
    const std::vector<std::uint64_t> words = plan.launch_words();
    is_single_ = words.empty();
    words_.insert(words_.end(), words.begin(), words.end());
  }

 private:
  std::vector<std::uint64_t> words_;
  bool is_single_ = false;
};

}  // namespace sft::ops::repeated
