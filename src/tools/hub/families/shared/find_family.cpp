// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"

namespace sft::hub {

const Family* find_family(const std::string& model_type) {
  const auto found = std::ranges::find_if(all_families(), [&](const Family& f) { return model_type == f.model_type; });
  return found == all_families().end() ? nullptr : &*found;
}

const Family& family_of(ConfigFields& fields) {
  const std::vector<std::string> architectures = fields.texts("architectures");
  const std::string model_type = fields.text("model_type", "");
  std::string known;
  for (const Family& family : all_families()) {
    if (std::ranges::find(architectures, family.architecture) != architectures.end()) return family;
    if (architectures.empty() && model_type == family.model_type) return family;
    known += (known.empty() ? "" : ", ") + std::string(family.architecture);
  }
  fields.refuse(architectures.empty() ? "model_type" : "architectures", "sft trains " + known, other_model);
}

}  // namespace sft::hub
