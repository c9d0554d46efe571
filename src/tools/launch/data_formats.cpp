// SPDX-License-Identifier: Apache-2.0
#include "launch/data_formats.hpp"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <string_view>

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

struct Ending {
  std::string_view text;
  const char* format;
  bool counts;  ///< among the formats of which `datasets` takes one
};

/// The first one is taken among equally common ones.
constexpr std::array endings{Ending{".parquet", "Parquet", true},
                             Ending{".lance", "Lance", true},
                             Ending{".arrow", "Arrow", true},
                             Ending{".jsonl", "JSON", true},
                             Ending{".json", "JSON", true},
                             Ending{".csv", "CSV", true},
                             Ending{".tsv", "CSV", true},
                             Ending{".tar", "tar", true},
                             Ending{".ndjson", "JSON", true},
                             Ending{".h5", "HDF5", false},
                             Ending{".hdf5", "HDF5", false},
                             Ending{".txt", "plain text", false},
                             Ending{".xml", "XML", false},
                             Ending{".mds", "MDS", false},
                             Ending{".idx", "an index of Megatron", false},
                             Ending{".bin", "bytes of a program", false},
                             Ending{".npy", "NumPy", false},
                             Ending{".npz", "NumPy", false},
                             Ending{".pkl", "pickle", false},
                             Ending{".orc", "ORC", false},
                             Ending{".avro", "Avro", false},
                             Ending{".feather", "Feather", false},
                             Ending{".tfrecord", "TFRecord", false},
                             Ending{".xlsx", "Excel", false},
                             Ending{".zip", "ZIP", false},
                             Ending{".tgz", "tar", false}};

constexpr std::array<std::string_view, 7> packed{".gz", ".zst", ".zstd", ".bz2", ".xz", ".lz4", ".zip"};

/// The ending below that of a packer.
const Ending* ending_of(const std::string& file) {
  std::string name = fs::path(file).filename().string();
  for (const std::string_view end : packed) {
    const std::string inner = name.ends_with(end) ? name.substr(0, name.size() - end.size()) : "";
    if (inner.find('.') != std::string::npos) name = inner;
  }
  const auto* const found =
      std::ranges::find_if(endings, [&](const Ending& ending) { return name.ends_with(ending.text); });
  return found == endings.end() ? nullptr : found;
}

}  // namespace

std::string format_of(const std::string& file) {
  const Ending* const ending = ending_of(file);
  return ending == nullptr ? "" : ending->format;
}

bool is_read(const std::string& format) { return format == "JSON" || format == "Parquet" || format == "Arrow"; }

bool may_be_records(const std::string& file) {
  const Ending* const ending = ending_of(file);
  return ending != nullptr && ending->counts && !is_description(file);
}

bool is_description(const std::string& file) {
  const std::string name = fs::path(file).filename().string();
  return name == "dataset_infos.json" || name == "dataset_info.json" || name == "dataset_dict.json" ||
         name == "config.json";
}

std::string most_common_format(const std::vector<std::string>& files) {
  std::map<const Ending*, int> counts;  // in the order of the table
  for (const std::string& file : files) {
    if (may_be_records(file)) ++counts[ending_of(file)];
  }
  const auto most = std::ranges::max_element(counts, {}, [](const auto& entry) { return entry.second; });
  return most == counts.end() ? "" : most->first->format;
}

}  // namespace sft::launch
