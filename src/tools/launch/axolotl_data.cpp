// SPDX-License-Identifier: Apache-2.0
// The data sets of Axolotl's files.

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "launch/axolotl.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

constexpr const char* known_of_datasets =
    "ds_type trust_remote_code conversation roles_to_train train_on_eos train_on_eot message_property_mappings "
    "message_field_role message_field_content field_messages roles field_thinking template_thinking_key type path name "
    "split data_files field";

/// Roles of a record by those that sft-prepare makes of them.
const std::set<std::string>& sources_of(const std::string& role) {
  static const std::map<std::string, std::set<std::string>> known{
      {"user", {"user", "human"}},
      {"assistant", {"assistant", "gpt", "chatgpt", "bing", "bard", "model"}},
      {"system", {"system"}},
      {"tool", {"tool", "observation", "function_response"}}};
  static const std::set<std::string> none;
  const auto found = known.find(role);
  return found == known.end() ? none : found->second;
}

/// Reads the entries of `datasets`.
class DataReader {
 public:
  DataReader(const YAML::Node& map, const std::string& path, ForeignFile& file) : path_(path), file_(file) {
    const YAML::Node inputs = map["train_on_inputs"];
    trains_on_inputs_ = inputs && config::truth_of(text_of(inputs)) == true;
    const YAML::Node ends = map["eot_tokens"];
    if (ends && ends.size() > 0) end_of_turn_ = text_of(ends);
  }

  void add_list(const YAML::Node& list, const char* setting) {
    if (!list || !list.IsSequence() || list.size() == 0) return;
    nlohmann::ordered_json datasets = nlohmann::ordered_json::array();
    for (const YAML::Node& entry : list) {
      if (entry.IsMap()) datasets.push_back(dataset_of(entry));
    }
    add(file_, setting, datasets.dump(), place_of(list[0], path_));
  }

  void finish() {
    options_.finish(file_);
    const auto trains = [&](const char* name) {
      return std::ranges::any_of(file_.settings, [&](const auto& setting) { return setting.option.name == name; });
    };
    if (trains_on_inputs_ && is_chat_) {
      file_.notes.push_back(fmt::format(
          "train_on_inputs in {}: every token of a conversation is trained on, what the template writes included",
          path_));
    } else if (trains_on_inputs_ && !trains("completion_only_loss") && trains("datasets")) {
      add(file_, "completion_only_loss", "false", fmt::format("in {}", path_));
    }
  }

 private:
  nlohmann::ordered_json dataset_of(const YAML::Node& entry) {
    nlohmann::ordered_json dataset = nlohmann::ordered_json::object();
    options_.begin(place_of(entry, path_));
    for (const Entry& item : entries_of(entry, path_)) {
      if (item.name == "path" || item.name == "name" || item.name == "split") dataset[item.name] = item.value;
      if (item.name == "data_files") dataset[item.name] = json_of(item.node);
      if (item.name == "field" && !is_off(item)) options_.set("dataset_text_field", item.value);
      add_other(item);
    }
    add_type(entry);
    return dataset;
  }

  void refuse_part(const Entry& item, const std::string& why, const std::string& what_to_do) {
    Entry named = item;
    named.name = fmt::format("datasets[].{}", item.name);
    refuse(named, why, what_to_do, file_);
  }

  void add_type(const YAML::Node& entry) {
    const YAML::Node node = entry["type"];
    const Entry item{"type", node, node ? text_of(node) : "none", place_of(node ? node : entry, path_)};
    if (node && node.IsMap()) {
      std::string output, why;
      const std::string prompt = prompt_template_of_format(node, output, why);
      if (!why.empty()) return refuse_part(item, why, "give sft-prepare a --prompt_template that says the same");
      options_.set("prompt_template", prompt);
      if (output != "output") options_.set("rename", fmt::format("{}=output", output));
    } else if (item.value == "completion") {
      return;
    } else if (item.value == "chat_template" || item.value == "chat_template.default" || item.value == "sharegpt") {
      add_conversations(entry);
    } else if (const std::string prompt = prompt_template_of_type(item.value); !prompt.empty()) {
      options_.set("prompt_template", prompt);
    } else {
      refuse_part(item, "it is a format of records that is not known here",
                  "write records with messages and type: chat_template, or give sft-prepare a --prompt_template");
    }
  }

  /// Adds the field that holds conversations, and the roles that are trained on.
  void add_conversations(const YAML::Node& entry) {
    is_chat_ = true;
    if (!trains_on_inputs_) {
      options_.set("assistant_only_loss", "true");
      options_.set("end_of_turn", end_of_turn_);
    }
    const auto text = [&](const char* name, const char* otherwise) {
      const YAML::Node node = entry[name];
      return node && !node.IsNull() ? text_of(node) : std::string(otherwise);
    };
    std::string role = text("message_field_role", "role"), content = text("message_field_content", "content");
    const YAML::Node mappings = entry["message_property_mappings"];
    if (mappings && mappings.IsMap()) {
      if (mappings["role"]) role = mappings["role"].Scalar();
      if (mappings["content"]) content = mappings["content"].Scalar();
      for (const Entry& item : entries_of(mappings, path_)) {
        if (item.name != "role" && item.name != "content" && item.name != item.value) {
          refuse_part(item, "other fields of messages keep their names", "rename it in the records");
        }
      }
    }
    const bool is_sharegpt = text("type", "") == "sharegpt" || (role == "from" && content == "value");
    if (!is_sharegpt && (role != "role" || content != "content")) {
      refuse_part({"message_property_mappings", mappings, fmt::format("{}, {}", role, content), place_of(entry, path_)},
                  "messages have role and content, or from and value", "rename them in the records");
    }
    const std::string ours = is_sharegpt ? "conversations" : "messages";
    const std::string theirs = text("field_messages", text("type", "") == "sharegpt" ? "conversations" : "messages");
    if (theirs != ours) options_.set("rename", fmt::format("{}={}", theirs, ours));
  }

  /// Takes keys that matter only where they differ from the defaults.
  void add_other(const Entry& item) {
    if (item.name == "roles_to_train") {
      std::istringstream words(item.value);
      const bool is_assistant = std::all_of(std::istream_iterator<std::string>(words), {}, [](const std::string& role) {
        return sources_of("assistant").contains(role);
      });
      if (!is_assistant) refuse_part(item, "trained on are the assistant's turns", "leave it out");
    } else if (item.name == "train_on_eos" || item.name == "train_on_eot") {
      if (item.value != "turn" && !config::is_none(item.value)) {
        refuse_part(item, "the end of each of the assistant's turns is trained on", "write turn, or leave it out");
      }
    } else if (item.name == "roles" && item.node.IsMap()) {
      add_roles(item);
    } else if (item.name == "field_thinking" || item.name == "template_thinking_key") {
      const std::set<std::string> known{"reasoning_content", "thinking", "reasoning"};
      if (!known.contains(item.value)) {
        refuse_part(item, "reasoning is reasoning_content, thinking or reasoning", "rename it in the records");
      }
    } else if (item.name == "message_field_training") {
      if (item.value != "train" && !is_off(item)) {
        refuse_part(item, "the field is called train", "rename it in the records");
      }
    } else if (item.name == "field_tools" || item.name == "field_system") {
      const std::string ours = item.name.substr(std::string("field_").size());
      if (item.value != ours && !is_off(item)) options_.set("rename", fmt::format("{}={}", item.value, ours));
    } else if (item.name == "chat_template" && !is_off(item)) {
      file_.notes.push_back(note_on_template(item));
    } else if (item.name == "revision" && item.value == "main") {  // is the one that is taken
    } else if (!has_name(known_of_datasets, item.name) && !is_off(item)) {
      refuse_part(item, "nothing here does what Axolotl does with it", "leave it out");
    }
  }

  void add_roles(const Entry& item) {
    for (const auto& role : item.node) {
      for (const YAML::Node& source : role.second) {
        if (sources_of(role.first.as<std::string>()).contains(source.Scalar())) continue;
        return refuse_part(item, fmt::format("`{}` is no name of that role here", source.Scalar()),
                           "rename it in the records");
      }
    }
  }

  const std::string& path_;
  ForeignFile& file_;
  SharedOptions options_;
  std::string end_of_turn_ = "eos";
  bool trains_on_inputs_ = false, is_chat_ = false;
};

}  // namespace

void add_axolotl_data(const YAML::Node& map, const std::string& path, ForeignFile& file) {
  DataReader reader(map, path, file);
  reader.add_list(map["datasets"], "datasets");
  reader.add_list(map["test_datasets"], "test_datasets");
  reader.finish();
}

}  // namespace sft::launch
