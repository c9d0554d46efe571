// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "hub/config_fields.hpp"
#include "hub/folder_tensors.hpp"
#include "sft/hub/folder.hpp"

namespace sft::hub {

std::string dtype_of_weights(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  const nlohmann::json object = read_json_object(path);
  for (const nlohmann::json& config : {object, decoder_config(object)}) {
    for (const char* name : {"dtype", "torch_dtype"}) {
      if (const auto found = config.find(name); found != config.end() && found->is_string()) return *found;
    }
  }
  constexpr std::array<std::pair<std::string_view, std::string_view>, 3> names{
      {{"F32", "float32"}, {"BF16", "bfloat16"}, {"F16", "float16"}}};
  for (const FileTensor& tensor : read_folder_tensors(folder).list()) {
    for (const auto& [in_file, name] : names) {
      if (tensor.dtype == in_file) return std::string(name);
    }
  }
  return "float32";
}

}  // namespace sft::hub
