// SPDX-License-Identifier: Apache-2.0
// The data sets of LLaMA-Factory's files: names that dataset_info.json explains, and lists of the newer engine.

#include <fmt/format.h>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

#include "launch/llama_factory.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::launch {

namespace {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

std::string text_in(const Json& object, const char* key, const std::string& otherwise) {
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? found->get<std::string>() : otherwise;
}

/// One entry of dataset_info.json.
class Explained {
 public:
  Explained(const std::string& name, const Json& entry, const std::string& folder, const Entry& names,
            SharedOptions& options, ForeignFile& file)
      : name_(name), entry_(entry), folder_(folder), names_(names), options_(options), file_(file) {}

  Json read() {
    options_.begin(fmt::format("{} {}", name_, names_.place));
    if (entry_.value("ranking", false)) refuse("ranking", "records of preferences are not trained on");
    for (const char* source : {"script_url", "cloud_file_name", "folder"}) {
      if (entry_.contains(source) && !entry_[source].is_null()) refuse(source, "data are files, or names in the hub");
    }
    for (const char* picture : {"images", "videos", "audios", "kto_tag"}) {
      if (columns().contains(picture)) refuse(picture, "records are of text, and their answers are trained on");
    }
    const std::string formatting = text_in(entry_, "formatting", "alpaca");
    if (formatting == "alpaca") {
      name_columns({{"prompt", "instruction"}, {"query", "input"}, {"response", "output"}, {"history", "history"}});
    } else {
      add_messages(formatting);
    }
    name_columns({{"system", "system"}, {"tools", "tools"}});
    return source();
  }

 private:
  [[nodiscard]] Json columns() const {
    return entry_.contains("columns") && entry_["columns"].is_object() ? entry_["columns"] : Json::object();
  }

  void refuse(const std::string& what, const char* why) {
    file_.refused_data.push_back(
        refusal(fmt::format("sft does not take `{}` of the data set {} {}", what, name_, names_.place), why,
                "name other data with --dataset_name or --data_files"));
  }

  /// Columns that are not called what sft-prepare calls them.
  void name_columns(std::initializer_list<std::pair<const char*, const char*>> ours) {
    for (const auto& [column, name] : ours) {
      const std::string theirs = text_in(columns(), column, name);
      if (theirs != name) options_.set("rename", fmt::format("{}={}", theirs, name));
    }
  }

  /// Lists of messages have the roles of ShareGPT or those of OpenAI.
  void add_messages(const std::string& formatting) {
    const Json tags = entry_.contains("tags") ? entry_["tags"] : Json::object();
    const bool is_openai =
        text_in(tags, "role_tag", "from") == "role" && text_in(tags, "content_tag", "value") == "content";
    const bool is_sharegpt =
        text_in(tags, "role_tag", "from") == "from" && text_in(tags, "content_tag", "value") == "value";
    static const std::set<std::string> users{"user", "human"};
    static const std::set<std::string> assistants{"assistant", "gpt", "chatgpt", "bing", "bard", "model"};
    const bool knows_roles = users.contains(text_in(tags, "user_tag", "human")) &&
                             assistants.contains(text_in(tags, "assistant_tag", "gpt"));
    if ((!is_openai && !is_sharegpt) || !knows_roles || (formatting != "sharegpt" && formatting != "openai")) {
      refuse("tags", "messages have role and content, or from and value, of user and assistant, or human and gpt");
    }
    const std::string ours = is_openai ? "messages" : "conversations";
    const std::string theirs = text_in(columns(), "messages", "conversations");
    if (theirs != ours) options_.set("rename", fmt::format("{}={}", theirs, ours));
  }

  [[nodiscard]] Json source() {
    Json dataset = Json::object();
    if (const std::string hub = text_in(entry_, "hf_hub_url", ""); !hub.empty()) {
      dataset["path"] = hub;
    } else if (const std::string local = text_in(entry_, "file_name", ""); !local.empty()) {
      dataset["path"] = (fs::path(folder_) / local).string();
    } else {
      refuse("ms_hub_url", "data are files, or names in the hub of Hugging Face");
    }
    if (const std::string subset = text_in(entry_, "subset", ""); !subset.empty()) dataset["name"] = subset;
    std::string split = text_in(entry_, "split", "train");
    if (entry_.contains("num_samples") && entry_["num_samples"].is_number_integer()) {
      split += fmt::format("[:{}]", entry_["num_samples"].get<std::int64_t>());
    }
    dataset["split"] = split;
    return dataset;
  }

  const std::string& name_;
  const Json& entry_;
  const std::string& folder_;
  const Entry& names_;
  SharedOptions& options_;
  ForeignFile& file_;
};

}  // namespace

void add_named_datasets(const Entry& names, const std::string& folder, const char* setting, SharedOptions& options,
                        ForeignFile& file) {
  std::vector<std::string> words;
  config::read(names.value, words);
  Json datasets = Json::array();
  const std::string info_path = (fs::path(folder) / "dataset_info.json").string();
  std::error_code ignored;
  const bool is_here = fs::exists(info_path, ignored);
  const Json info = is_here ? Json::parse(io::read_file(info_path), nullptr, false) : Json::object();
  for (const std::string& name : words) {
    if (folder == "ONLINE") {
      options.begin(names.place);
      datasets.push_back({{"path", name}});
    } else if (info.is_object() && info.contains(name) && info[name].is_object()) {
      datasets.push_back(Explained(name, info[name], folder, names, options, file).read());
    } else {
      file.refused_data.push_back(
          refusal(fmt::format("sft does not know the data set `{}` {}", name, names.place),
                  is_here ? fmt::format("{} has no such name", info_path) : fmt::format("there is no {}", info_path),
                  "start it where LLaMA-Factory is started, or name data with --dataset_name or --data_files"));
    }
  }
  add(file, setting, datasets.dump(), names.place);
}

void add_listed_datasets(const Entry& named, const char* setting, SharedOptions& options, ForeignFile& file) {
  Json datasets = Json::array();
  std::error_code ignored;
  const auto refuse_data = [&](const std::string& problem, const char* why) {
    file.refused_data.push_back(refusal(fmt::format("sft does not take {}", problem), why,
                                        "name other data with --dataset_name or --data_files"));
  };
  if (!named.value.ends_with(".yaml")) {
    options.begin(named.place);
    datasets.push_back({{"path", named.value}});
  } else if (!fs::exists(named.value, ignored)) {
    refuse_data(fmt::format("`{}: {}` {}", named.name, named.value, named.place), "there is no such file");
  } else {
    for (const Entry& dataset : entries_of(load_map(named.value), named.value)) {
      options.begin(dataset.place);
      Json& read = datasets.emplace_back(Json::object());
      std::string split = "train";
      for (const Entry& item : entries_of(dataset.node, named.value)) {
        if (item.name == "path") read["path"] = item.value;
        if (item.name == "split") split = item.value;
        if (item.name == "size") split += fmt::format("[:{}]", item.value);
        const bool is_known = has_name("alpaca sharegpt", item.value) || is_off(item);
        if (item.name == "converter" ? !is_known : !has_name("path split size source streaming", item.name)) {
          refuse_data(fmt::format("`{}: {}` {}", item.name, item.value, item.place),
                      "records are of Alpaca or ShareGPT");
        }
      }
      read["split"] = split;
    }
  }
  add(file, setting, datasets.dump(), named.place);
}

}  // namespace sft::launch
