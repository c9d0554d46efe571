// SPDX-License-Identifier: Apache-2.0
#pragma once
// Variables of a scope, and macros, which remember the scope they were written in.

#include <memory>
#include <vector>

#include "jinja/value.hpp"

namespace sft::jinja {

struct MacroSyntax;

/// The variables of one scope while it is executed; symbols.hpp says which there are.
struct Frame {
  Frame(Heap* heap, std::shared_ptr<Frame> outer, std::size_t num_slots)
      : parent(std::move(outer)), slots(num_slots), charge(heap, sizeof(Frame) + num_slots * sizeof(Value)) {}

  std::shared_ptr<Frame> parent;
  std::vector<Value> slots;
  Charge charge;
};

using FrameRef = std::shared_ptr<Frame>;

struct Macro {
  const MacroSyntax* syntax;
  FrameRef frame;  ///< the scope around it
};

}  // namespace sft::jinja
