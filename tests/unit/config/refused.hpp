// SPDX-License-Identifier: Apache-2.0
#pragma once
// Configurations that cannot run, and what is said of them.

#include <functional>
#include <ostream>

#include "sft/config/valid_config.hpp"
#include "support/config_error.hpp"
#include "unit/config/small_config.hpp"

namespace sft::config {

struct Refused {
  const char* says;
  std::function<void(Config&)> change;  ///< of valid_config()
  int world_size = 1;
};

inline std::ostream& operator<<(std::ostream& out, const Refused& refused) { return out << refused.says; }

inline void check_refused(const Refused& refused, CheckModules check_modules = nullptr) {
  Config config = valid_config();
  refused.change(config);
  test::check_says(test::refusal([&] { (void)validate(config, refused.world_size, check_modules); }), refused.says);
}

inline void set_experts(Config& config, std::int64_t num_experts, std::int64_t choices) {
  config.model.num_experts = num_experts;
  config.model.num_experts_per_tok = choices;
  config.model.moe_intermediate_size = 16;
}

}  // namespace sft::config
