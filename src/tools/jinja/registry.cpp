// SPDX-License-Identifier: Apache-2.0
#include "jinja/registry.hpp"

#include <map>

#include "jinja/filters.hpp"

namespace sft::jinja {

namespace {

const std::map<std::string_view, FilterFunction>& filters() {
  static const std::map<std::string_view, FilterFunction> all = {
      {"capitalize", filter_capitalize},
      {"count", filter_length},
      {"d", filter_default},
      {"default", filter_default},
      {"dictsort", filter_dictsort},
      {"first", filter_first},
      {"indent", filter_indent},
      {"int", filter_int},
      {"items", filter_items},
      {"join", filter_join},
      {"last", filter_last},
      {"length", filter_length},
      {"list", filter_list},
      {"lower", filter_lower},
      {"map", filter_map},
      {"max", filter_max},
      {"min", filter_min},
      {"reject", filter_reject},
      {"rejectattr", filter_rejectattr},
      {"replace", filter_replace},
      {"reverse", filter_reverse},
      {"safe", filter_safe},
      {"select", filter_select},
      {"selectattr", filter_selectattr},
      {"sort", filter_sort},
      {"string", filter_string},
      {"title", filter_title},
      {"tojson", filter_tojson},
      {"trim", filter_trim},
      {"unique", filter_unique},
      {"upper", filter_upper},
  };
  return all;
}

}  // namespace

FilterFunction find_filter(std::string_view name) {
  const auto found = filters().find(name);
  return found == filters().end() ? nullptr : found->second;
}

}  // namespace sft::jinja
