// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_precision.hpp"

#include <algorithm>
#include <optional>
#include <string>

#include "config/foreign_names.hpp"

namespace sft::config {

namespace {

bool names_dtype(const std::string& name) { return name == "dtype" || name == "torch_dtype"; }

/// Whether the name is one of others that may set train.precision.
bool names_precision(const std::string& name) {
  if (!keys_meant_by(name).empty()) return false;
  const ForeignName* foreign = find_foreign_name(name);
  return foreign != nullptr && std::ranges::any_of(foreign->accepted, [](const Accepted& accepted) {
           return std::string(accepted.assignment).starts_with("train.precision=");
         });
}

}  // namespace

ForeignPrecision::ForeignPrecision(const std::vector<Written>& all) {
  for (const Written& written : all) {
    if (!names_precision(written.name)) continue;
    const std::optional<Setting> setting = setting_of(written);
    if (names_dtype(written.name)) {
      has_bf16_weights_ = setting.has_value();
    } else if (setting) {
      is_mixed_ = setting->text == "bf16";
    }
  }
}

bool ForeignPrecision::overrules(const Written& written) const {
  const bool trains_bf16_weights = has_bf16_weights_ && !is_mixed_;
  return names_precision(written.name) && names_dtype(written.name) != trains_bf16_weights;
}

}  // namespace sft::config
