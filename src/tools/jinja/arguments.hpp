// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arguments of a function of the engine, by name or by position.

#include <fmt/core.h>
#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "jinja/value.hpp"

namespace sft::jinja {

class Parameters {
 public:
  /// Assigns the arguments to `names`; fails if there are too many, unknown ones, or fewer than `num_required`.
  Parameters(std::string_view function, const Arguments& arguments, std::initializer_list<std::string_view> names,
             std::size_t num_required = 0)
      : values_(names.size(), nullptr) {
    const std::string called(function);
    if (arguments.positional.size() > names.size()) {
      throw Failure(fmt::format("{}() takes at most {} arguments", called, names.size()));
    }
    for (std::size_t i = 0; i < arguments.positional.size(); ++i) values_[i] = &arguments.positional[i];
    for (const auto& [name, value] : arguments.named) {
      const auto found = std::find(names.begin(), names.end(), name);
      if (found == names.end())
        throw Failure(fmt::format("{}() got an unexpected keyword argument '{}'", called, name));
      const Value*& place = values_[found - names.begin()];
      if (place != nullptr) throw Failure(fmt::format("{}() got multiple values for argument '{}'", called, name));
      place = &value;
    }
    for (std::size_t i = 0; i < num_required; ++i) {
      if (values_[i] == nullptr) throw Failure(fmt::format("{}() misses the argument '{}'", called, names.begin()[i]));
    }
  }

  /// nullptr if it was not given.
  [[nodiscard]] const Value* operator[](std::size_t i) const { return values_[i]; }
  [[nodiscard]] bool truth(std::size_t i, bool otherwise) const {
    return values_[i] == nullptr ? otherwise : is_true(*values_[i]);
  }
  [[nodiscard]] std::int64_t integer(std::size_t i, std::int64_t otherwise) const {
    return values_[i] == nullptr ? otherwise : require_integer(*values_[i], "an argument");
  }
  /// Whether it was given and is not None.
  [[nodiscard]] bool has(std::size_t i) const { return values_[i] != nullptr && !values_[i]->is_none(); }

 private:
  std::vector<const Value*> values_;
};

}  // namespace sft::jinja
