// SPDX-License-Identifier: Apache-2.0
#pragma once
// How the table of foreign names is written down.

#include <vector>

#include "config/foreign_names.hpp"

namespace sft::config {

/// Names that mean the same, separated by spaces, and what they mean. NAME* stands for all names that begin so and have
/// no entry of their own.
struct ForeignRow {
  const char* names;
  std::vector<Accepted> accepted;
  const char* why;
  const char* what_to_do;
};

inline const std::vector<Accepted> anything{{"*", ""}};
inline const std::vector<Accepted> either{{"true", ""}, {"false", ""}, {"none", ""}};  // needs no value as an option
inline const std::vector<Accepted> only_none{{"none", ""}, {"{}", ""}, {"[]", ""}};
inline const std::vector<Accepted> only_false{{"none", ""}, {"false", ""}};
inline const std::vector<Accepted> nothing{};

inline constexpr const char* no_effect = "it has no effect here";
inline constexpr const char* leave_out = "leave it out";

/// Rows for precision, memory, optimizers and kernels, a part of foreign_rows_of_sft().
[[nodiscard]] std::vector<ForeignRow> foreign_rows_of_computing();
/// What sft makes of names that are none of its keys. An assignment in it is "section.key=VALUE".
[[nodiscard]] std::vector<ForeignRow> foreign_rows_of_sft();
/// What sft-prepare makes of names that are none of its options. An assignment in it is "option=VALUE".
[[nodiscard]] std::vector<ForeignRow> foreign_rows_of_prepare();

}  // namespace sft::config
