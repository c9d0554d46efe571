// SPDX-License-Identifier: Apache-2.0
// Refusals of what a file holds: values that lie elsewhere, that were never written, or that this HDF5 cannot read.

#include <fmt/core.h>
#include <array>
#include <map>
#include <string>

#include "hdf5_impl.hpp"

namespace sft::io {

namespace {

/// Whether every group on the way to `name`, and the link itself, is there.
bool link_exists(hid_t file, const std::string& name) {
  for (std::size_t slash = name.find('/', 1); slash != std::string::npos; slash = name.find('/', slash + 1)) {
    if (H5Lexists(file, name.substr(0, slash).c_str(), H5P_DEFAULT) <= 0) return false;
  }
  return H5Lexists(file, name.c_str(), H5P_DEFAULT) > 0;
}

/// The name that H5Pget_virtual_filename or H5Pget_virtual_dsetname gives for mapping `index`.
std::string name_in_mapping(ssize_t (*get)(hid_t, std::size_t, char*, std::size_t), hid_t properties,
                            std::size_t index) {
  const ssize_t size = get(properties, index, nullptr, 0);
  std::string name(size > 0 ? static_cast<std::size_t>(size) : 0, '\0');
  get(properties, index, name.data(), name.size() + 1);
  return name;
}

/// Whether a mapping names one dataset at the root of another file in the same folder. (`.` is the file itself, and `%`
/// stands for numbers.)
bool is_plain_source(const std::string& file, const std::string& dataset) {
  const bool is_plain_file = !file.empty() && file != "." && file != ".." && file.find_first_of("/%") == file.npos;
  return is_plain_file && dataset.find('%') == dataset.npos && dataset.find('/', 1) == dataset.npos;
}

/// A short name of a filter, by its number in HDF5's registry, else the first word of what its writer called it.
std::string name_of_filter(H5Z_filter_t filter, const std::string& stored_name) {
  static const std::map<H5Z_filter_t, const char*> known = {
      {4, "szip"},       {305, "lzo"},      {307, "bzip2"},      {32000, "lzf"},        {32001, "blosc"},
      {32002, "mafisc"}, {32003, "snappy"}, {32004, "lz4"},      {32008, "bitshuffle"}, {32013, "zfp"},
      {32015, "zstd"},   {32017, "sz"},     {32022, "bitgroom"}, {32024, "sz3"},        {32026, "blosc2"}};
  const auto found = known.find(filter);
  if (found != known.end()) return found->second;
  const std::string word = stored_name.substr(0, stored_name.find_first_of(" ;:,"));
  return word.empty() ? "of number" : word;
}

}  // namespace

void Hdf5File::Impl::check_storage(const std::string& name, hid_t properties) const {
  const auto refuse = [&](const std::string& why) {
    fail_because("cannot use the dataset " + name, why, "get the file from whoever wrote it, with its values inside");
  };
  if (H5Pget_external_count(properties) > 0) {
    std::array<char, 256> source{};
    H5Pget_external(properties, 0, source.size() - 1, source.data(), nullptr, nullptr);
    refuse(std::string("its values lie in another file, ") + source.data());
  }
  if (H5Pget_layout(properties) != H5D_VIRTUAL) return;
  if (status->sources == Sources::none) refuse("it takes its values from other datasets");
  std::size_t num_mappings = 0;
  H5Pget_virtual_count(properties, &num_mappings);
  for (std::size_t i = 0; i < num_mappings; ++i) {
    const std::string source_file = name_in_mapping(H5Pget_virtual_filename, properties, i);
    const std::string source = name_in_mapping(H5Pget_virtual_dsetname, properties, i);
    if (is_plain_source(source_file, source)) continue;
    refuse(fmt::format("it takes values from {} of {}, and may take them from files beside it alone", source,
                       (source_file == "." ? "the same file" : source_file)));
  }
}

void Hdf5File::Impl::check_presence(const std::string& name, const OpenDataset& dataset, const Rectangle& where) const {
  const auto refuse = [&](const std::string& what) {
    fail_because("cannot read the dataset " + name, what + " not in the file", "the file is damaged: restore it");
  };
  const hid_t id = dataset.handle.id();
  if (dataset.chunk.empty()) {
    if (dataset.layout == H5D_CONTIGUOUS && H5Dget_storage_size(id) == 0) refuse("its values are");
    return;
  }
  const auto chunk_rows = static_cast<std::int64_t>(dataset.chunk[0]);
  const auto chunk_columns = dataset.chunk.size() == 2 ? static_cast<std::int64_t>(dataset.chunk[1]) : 1;
  const std::int64_t first_column = where.column_begin / chunk_columns * chunk_columns;
  for (std::int64_t row = where.row_begin / chunk_rows * chunk_rows; row < where.row_begin + where.num_rows;
       row += chunk_rows) {
    for (std::int64_t column = first_column; column < where.column_begin + where.num_columns; column += chunk_columns) {
      const std::array<hsize_t, 2> offset = {static_cast<hsize_t>(row), static_cast<hsize_t>(column)};
      hsize_t num_bytes = 0;
      if (H5Dget_chunk_storage_size(id, offset.data(), &num_bytes) < 0) {
        fail("cannot read the dataset " + name, "the file is damaged: restore it");
      }
      if (num_bytes == 0) refuse(fmt::format("the chunk of row {} is", row));
    }
  }
}

void Hdf5File::Impl::check_filters(const std::string& name, const OpenDataset& dataset) const {
  const Handle properties(H5Dget_create_plist(dataset.handle.id()), H5Pclose);
  for (int i = 0; i < H5Pget_nfilters(properties.id()); ++i) {
    unsigned flags = 0, config = 0;
    std::size_t num_values = 0;
    std::array<char, 64> stored_name{};
    const H5Z_filter_t filter = H5Pget_filter2(properties.id(), static_cast<unsigned>(i), &flags, &num_values, nullptr,
                                               stored_name.size(), stored_name.data(), &config);
    if (filter < 0 || H5Zfilter_avail(filter) > 0) continue;
    fail_because(fmt::format("cannot read the dataset {}", name),
                 fmt::format("it is compressed with the filter {} ({}), which the HDF5 of this program does not have",
                             name_of_filter(filter, stored_name.data()), filter),
                 "set HDF5_PLUGIN_PATH to a folder that has it, or write the data with gzip");
  }
}

bool Hdf5File::Impl::is_object(const std::string& name, H5I_type_t type) const {
  status->bad_sources.clear();
  Handle object;
  const bool is_linked = link_exists(file.id(), name);
  if (is_linked) object = Handle(H5Oopen(file.id(), name.c_str(), H5P_DEFAULT), H5Oclose);
  if (!status->bad_sources.empty()) {
    fail_because("cannot use " + name, status->bad_sources.begin()->second,
                 "get the file from whoever wrote it, with its values inside");
  }
  if (object.is_valid()) return H5Iget_type(object.id()) == type;
  if (is_linked && H5Oexists_by_name(file.id(), name.c_str(), H5P_DEFAULT) != 0) {  // no soft link to nowhere
    object = Handle(H5Oopen(file.id(), name.c_str(), H5P_DEFAULT), H5Oclose);       // for the reason
    fail("cannot open " + name, "the file is damaged: restore it");
  }
  return false;
}

}  // namespace sft::io
