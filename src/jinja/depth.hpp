// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bounds the recursion of a rendering.

#include "jinja/evaluator.hpp"

namespace sft::jinja {

/// One level of evaluation, as long as it lives.
class Evaluator::Depth {
 public:
  explicit Depth(Evaluator& evaluator) : evaluator_(evaluator) {
    if (evaluator_.depth_ >= evaluator_.heap_.max_depth()) {
      throw Failure("it is evaluated more than " + std::to_string(evaluator_.heap_.max_depth()) + " levels deep");
    }
    ++evaluator_.depth_;
  }
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() { --evaluator_.depth_; }

 private:
  Evaluator& evaluator_;
};

}  // namespace sft::jinja
