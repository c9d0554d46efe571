// SPDX-License-Identifier: Apache-2.0
#include "prepare/record.hpp"

#include <fmt/core.h>
#include <string>
#include <vector>

namespace sft::prepare {

namespace {

constexpr std::int64_t ignored_label = -100;

/// The integers under `key`; as many as there are ids, unless `num_ids` is -1.
std::vector<std::int64_t> integers_of(const Json& record, const char* key, std::int64_t num_ids) {
  const Json& list = record[key];
  const std::string name = fmt::format("'{}' of the record", key);
  if (!list.is_array()) refuse_record(fmt::format("{} is {}, not a list of integers", name, list.type_name()));
  std::vector<std::int64_t> values;
  values.reserve(list.size());
  for (const Json& value : list) {
    if (value.is_boolean()) {
      values.push_back(value.get<bool>() ? 1 : 0);
      continue;
    }
    if (value.is_binary()) refuse_record(fmt::format("{} holds a number beyond 64 bits, which is no token", name));
    if (!value.is_number_integer()) refuse_record(fmt::format("{} holds {}, not an integer", name, value.type_name()));
    values.push_back(value.get<std::int64_t>());
  }
  if (num_ids >= 0 && std::ssize(values) != num_ids) {
    refuse_record(fmt::format("{} has {} numbers, and there are {} tokens", name, values.size(), num_ids));
  }
  return values;
}

void apply_mask(Document& document, const Json& record, const char* key) {
  const std::vector<std::int64_t> mask = integers_of(record, key, std::ssize(document.tokens));
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if (mask[i] != 0 && mask[i] != 1)
      refuse_record(fmt::format("'{}' of the record holds other numbers than 0 and 1", key));
    if (mask[i] == 0) document.loss_weight[i] = 0.0f;
  }
}

void apply_labels(Document& document, const Json& record) {
  const std::vector<std::int64_t> labels = integers_of(record, "labels", std::ssize(document.tokens));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    if (labels[i] == ignored_label) {
      document.loss_weight[i] = 0.0f;
    } else if (labels[i] != document.tokens[i]) {
      refuse_record(fmt::format("label {} of the record is {}, neither its token nor -100", i + 1, labels[i]));
    }
  }
}

}  // namespace

Document document_of_ids(const Json& record, std::int64_t vocab_size, const ExampleOptions& options,
                         RecordCensus& census) {
  Document document;
  for (const std::int64_t id : integers_of(record, "input_ids", -1)) {
    if (id < 0 || id >= vocab_size) {
      refuse_record(fmt::format("token {} lies outside the vocabulary of {}", id, vocab_size));
    }
    document.tokens.push_back(static_cast<std::int32_t>(id));
  }
  document.loss_weight.assign(document.tokens.size(), 1.0f);
  if (has_value(record, "labels")) {
    apply_labels(document, record);
    return document;
  }
  if (has_value(record, "assistant_masks")) apply_mask(document, record, "assistant_masks");
  if (has_value(record, "completion_mask")) {
    if (options.completion_only_loss.value_or(false)) {
      apply_mask(document, record, "completion_mask");
    } else if (!options.completion_only_loss) {
      ++census.num_ignored_masks;
    }
  }
  return document;
}

}  // namespace sft::prepare
