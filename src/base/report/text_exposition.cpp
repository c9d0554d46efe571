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

/// By Prometheus' rules units have their whole name.
std::string name_of(const std::string& tag) {
  return tag.ends_with("_s") ? tag.substr(0, tag.size() - 1) + "seconds" : tag;
}

}  // namespace

std::string text_exposition(const std::string& run_id, std::span<const Scalar> scalars) {
  std::string text;
  for (const Scalar& scalar : scalars) {
    text += fmt::format(
        "# HELP sft_{0} `{1}` of metrics.jsonl, as last written.\n"
        "# TYPE sft_{0} gauge\n"
        "sft_{0}{{run=\"{2}\"}} {3}\n",
        name_of(scalar.tag), scalar.tag, run_id, text_of(scalar.value));
  }
  return text;
}

}  // namespace sft::report
