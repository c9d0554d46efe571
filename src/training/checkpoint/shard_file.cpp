// SPDX-License-Identifier: Apache-2.0
#include "shard_file.hpp"

#include <fmt/core.h>
#include <filesystem>

#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/superblock.hpp"

namespace sft::checkpoint {

namespace fs = std::filesystem;

namespace {

constexpr const char* what_to_do = "restore the file, or use another checkpoint";

std::string path_in(const std::string& folder, const std::string& name) { return (fs::path(folder) / name).string(); }

/// The index leads the HDF5 library to datasets of this file, which must hold their values themselves.
void check_storage(const std::string& path) {
  const io::Hdf5File file = io::Hdf5File::open(path);
  for (const std::string& name : file.list_datasets("/")) static_cast<void>(file.dataset_shape("/" + name));
}

}  // namespace

void check_size(const std::string& folder, const ShardFile& file) {
  const std::string path = path_in(folder, file.name);
  std::error_code error;
  const std::uintmax_t found = fs::file_size(path, error);
  if (error) {
    throw_data_error(fmt::format("cannot find {}", path), fmt::format("checkpoint.h5 needs it; {}", error.message()),
                     what_to_do);
  }
  if (static_cast<std::int64_t>(found) != file.size_bytes) {
    throw_data_error(io::describe_change(path),
                     fmt::format("it has {} bytes, checkpoint.h5 says {}", found, file.size_bytes), what_to_do);
  }
}

void check_presence(const std::string& folder, const ShardFile& file) {
  check_size(folder, file);
  check_storage(path_in(folder, file.name));
}

void check_contents(const std::string& folder, const ShardFile& file) {
  check_size(folder, file);
  const std::string path = path_in(folder, file.name);
  const std::string checksum = io::checksum_of_file(path);
  if (checksum != file.checksum) fail_checksum(path, checksum, file.checksum);
  check_storage(path);
}

void fail_checksum(const std::string& what, const std::string& found, const std::string& expected) {
  throw_data_error(fmt::format("{} is damaged", what),
                   fmt::format("its checksum is {}, checkpoint.h5 says {}", found, expected), what_to_do);
}

}  // namespace sft::checkpoint
