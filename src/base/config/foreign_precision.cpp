// SPDX-License-Identifier: Apache-2.0
#include "config/foreign_precision.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <optional>
#include <string>

#include "config/foreign_names.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

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

namespace {

/// bf16.enabled = false of a file of DeepSpeed, which stops beside other settings that say bf16, as there.
void check_deepspeed(const std::vector<Written>& all) {
  const auto off = std::ranges::find(all, "deepspeed_bf16_enabled", &Written::name);
  if (off == all.end()) return;
  for (const Written& written : all) {
    if (written.name != "precision" && !names_precision(written.name)) continue;
    const std::optional<Setting> setting = setting_of(written);
    if (!setting || (setting->text != "bf16" && setting->text != "pure_bf16")) continue;
    throw_config_error(fmt::format("`{} = {}` {} and `bf16.enabled = false` {} differ", written.full_name(),
                                   written.value, written.place, off->place),
                       "both say what computing is in", "correct one of them");
  }
}

}  // namespace

void check_precision(const std::vector<Written>& all, Precision precision) {
  check_deepspeed(all);
  if (precision != Precision::fp32) return;
  for (const Written& written : all) {
    const bool is_tf32 = written.name == "tf32";
    if ((!is_tf32 && written.name != "bf16_full_eval") || truth_of(written.value) != true) continue;
    throw_config_error(fmt::format("sft does not take `{} = {}` {} with train.precision = fp32", written.name,
                                   written.value, written.place),
                       is_tf32 ? "products of float32 numbers keep all their bits, and those of TF32 have 10"
                               : "evaluation is in the precision of training",
                       "leave it out, or set train.precision = bf16");
  }
}

bool ForeignPrecision::overrules(const Written& written) const {
  const bool trains_bf16_weights = has_bf16_weights_ && !is_mixed_;
  return names_precision(written.name) && names_dtype(written.name) != trains_bf16_weights;
}

}  // namespace sft::config
