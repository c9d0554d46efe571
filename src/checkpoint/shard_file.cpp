// SPDX-License-Identifier: Apache-2.0
#include "shard_file.hpp"

#include <filesystem>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"

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

std::int64_t num_owned_elements(const std::vector<parallel::StoredPart>& parts) {
  std::int64_t num_elements = 0;
  for (const parallel::StoredPart& part : parts) {
    if (part.is_owner) num_elements += part.where.num_rows * part.where.num_columns;
  }
  return num_elements;
}

io::Number number_of(const Entry& entry) {
  return entry.dtype() == DType::uint8 ? io::Number::uint8 : io::Number::float32;
}

ShardFileSink::ShardFileSink(const std::string& folder, const std::string& name, const std::vector<Entry>& entries)
    : name_(name), file_(io::Hdf5File::create(path_in(folder, name))) {
  for (const Entry& entry : entries) {
    const std::int64_t size = num_owned_elements(entry.layout->parts(*entry.shard_map));
    file_.create_dataset("/" + entry.name, number_of(entry), {size});
    datasets_[entry.name] = {.number = number_of(entry), .size = size};
  }
}

void ShardFileSink::write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) {
  const std::string entry = io::entry_of(name);
  Dataset& dataset = datasets_.at(entry);
  const std::int64_t size = where.num_elements();
  const bool is_code = dataset.number == io::Number::uint8;
  SFT_ENSURE(is_code == (dtype == DType::uint8), "an entry's numbers come as its dataset holds them");
  const void* stored = is_code ? values : io::as_float32(values, dtype, size, widened_);
  file_.write("/" + entry, dataset.number, {.row_begin = dataset.num_written, .num_rows = size}, stored);
  dataset.num_written += size;
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
