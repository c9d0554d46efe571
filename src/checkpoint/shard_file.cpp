// SPDX-License-Identifier: Apache-2.0
#include "shard_file.hpp"

#include <filesystem>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/checksum.hpp"
#include "sft/io/files.hpp"

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

void check_size(const std::string& path, const ShardFile& file) {
  if (!fs::exists(path)) throw_data_error("cannot find " + path, "checkpoint.h5 needs it", what_to_do);
  const auto size_bytes = static_cast<std::int64_t>(fs::file_size(path));
  if (size_bytes != file.size_bytes) {
    throw_data_error(
        path + " is damaged",
        "it has " + std::to_string(size_bytes) + " bytes, checkpoint.h5 says " + std::to_string(file.size_bytes),
        what_to_do);
  }
}

}  // namespace

std::int64_t num_owned_elements(const parallel::ShardMap& shard_map) {
  std::int64_t num_elements = 0;
  for (const parallel::Piece& piece : shard_map.pieces()) {
    if (piece.parameter->is_owner) num_elements += piece.count;
  }
  return num_elements;
}

ShardFileSink::ShardFileSink(const std::string& folder, const std::string& name, const std::vector<Entry>& entries)
    : name_(name), file_(io::Hdf5File::create(path_in(folder, name))) {
  for (const Entry& entry : entries) {
    const std::int64_t size = num_owned_elements(*entry.shard_map);
    file_.create_dataset("/" + entry.name, io::Number::float32, {size});
    datasets_[entry.name] = {.size = size};
  }
}

void ShardFileSink::write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) {
  const std::string entry = io::entry_of(name);
  std::int64_t& begin = datasets_.at(entry).num_written;
  file_.write("/" + entry, io::Number::float32, {.row_begin = begin, .num_rows = where.num_elements()},
              io::as_float32(values, dtype, static_cast<std::size_t>(where.num_elements()), widened_));
  begin += where.num_elements();
}

void ShardFileSink::leave_zero(const std::string& entry) {
  Dataset& dataset = datasets_.at(entry);
  SFT_ENSURE(dataset.num_written == 0, "an entry is written or left zero");
  dataset.num_written = dataset.size;
}

ShardFile ShardFileSink::finish() {
  for (const auto& [entry, dataset] : datasets_)
    SFT_ENSURE(dataset.num_written == dataset.size, "a shard file is whole");
  const std::string path = file_.path();
  file_.close();
  io::sync_path(path);
  return {name_, static_cast<std::int64_t>(fs::file_size(path)), io::checksum_of_file(path)};
}

void check_presence(const std::string& folder, const ShardFile& file) {
  const std::string path = path_in(folder, file.name);
  check_size(path, file);
  check_storage(path);
}

void check_contents(const std::string& folder, const ShardFile& file) {
  const std::string path = path_in(folder, file.name);
  check_size(path, file);
  const std::string checksum = io::checksum_of_file(path);
  if (checksum != file.checksum) {
    throw_data_error(path + " is damaged", "its checksum is " + checksum + ", checkpoint.h5 says " + file.checksum,
                     what_to_do);
  }
  check_storage(path);
}

}  // namespace sft::checkpoint
