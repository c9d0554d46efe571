// SPDX-License-Identifier: Apache-2.0
#include "sft/report/text_exposition.hpp"

#include <fmt/format.h>

#include <cmath>

namespace sft::report {

namespace {

/// NaN, +Inf and -Inf have names of their own.
std::string text_of(double value) {
  if (std::isnan(value)) return "NaN";
  if (std::isinf(value)) return value > 0 ? "+Inf" : "-Inf";
  return fmt::format("{}", value);
}

}  // namespace

std::string text_exposition(const std::string& run_id, std::span<const Scalar> scalars) {
  std::string text;
  for (const Scalar& scalar : scalars) {
    text +=
        fmt::format("# TYPE sft_{0} gauge\nsft_{0}{{run=\"{1}\"}} {2}\n", scalar.tag, run_id, text_of(scalar.value));
  }
  return text;
}

}  // namespace sft::report
