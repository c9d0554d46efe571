// SPDX-License-Identifier: Apache-2.0
#pragma once
// What reads files and texts that may come from anywhere, each as a function of bytes. A reader takes them, or refuses
// them with an Error for the user, a std::invalid_argument where its contract says so. Anything else is a finding.

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "sft/io/tensor_source.hpp"
#include "support/temporary_folder.hpp"

namespace sft::fuzz {

struct Reader {
  std::string name;  ///< and that of its folder of seeds
  void (*read)(const std::string& bytes);
};

[[nodiscard]] std::vector<Reader> config_readers();
[[nodiscard]] std::vector<Reader> hub_readers();
[[nodiscard]] std::vector<Reader> data_readers();
[[nodiscard]] std::vector<Reader> checkpoint_readers();
[[nodiscard]] std::vector<Reader> run_readers();

/// Those of what strangers give: of config, hub and data.
[[nodiscard]] std::vector<Reader> input_readers();

/// Those that this program has.
[[nodiscard]] std::vector<Reader> all_readers();

/// Gives the bytes to the reader of this name; what it refuses is no finding. Throws what it must not.
void read(const Reader& reader, const std::string& bytes);

/// A folder for the files that readers want, one for the whole process.
[[nodiscard]] inline const test::TemporaryFolder& scratch() {
  static const test::TemporaryFolder folder;
  return folder;
}
/// Makes or replaces FOLDER/NAME of the scratch folder, and its folder. Returns the path of the folder.
inline std::string put_file(const std::string& folder, const std::string& name, const std::string& bytes) {
  const std::string path = scratch().file(folder);
  std::filesystem::create_directories(path);
  std::ofstream(path + "/" + name, std::ios::binary) << bytes;
  return path;
}

/// Reads every tensor of up to a million elements.
inline void read_tensors(const io::TensorSource& source) {
  for (const io::TensorInfo& tensor : source.tensors()) {
    const bool has_few_dims = !tensor.shape.empty() && tensor.shape.size() <= 2;
    if (!has_few_dims || tensor.num_elements() < 1 || tensor.num_elements() > 1'000'000) continue;
    std::vector<float> values(static_cast<std::size_t>(tensor.num_elements()));
    const std::int64_t num_columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
    source.read(tensor.name, {.num_rows = tensor.shape[0], .num_columns = num_columns}, DType::float32, values.data());
  }
}

}  // namespace sft::fuzz
