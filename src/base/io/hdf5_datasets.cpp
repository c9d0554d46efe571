// SPDX-License-Identifier: Apache-2.0
// Datasets: 1-D and 2-D arrays of numbers, read and written by rectangles, stored here or assembled from other files.

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <limits>

#include "hdf5_impl.hpp"
#include "sft/core/ensure.hpp"

namespace sft::io {

namespace {

constexpr std::size_t max_open_datasets = 4;  // those of packed data are read in turn
constexpr unsigned deflate_level = 3;         // of packed tokens nearly as small as 4 in half the time

std::vector<hsize_t> dims_of(const std::vector<std::int64_t>& shape) { return {shape.begin(), shape.end()}; }

Handle make_space(const std::vector<std::int64_t>& shape) {
  const std::vector<hsize_t> dims = dims_of(shape);
  return {H5Screate_simple(static_cast<int>(dims.size()), dims.data(), nullptr), H5Sclose};
}

std::vector<std::int64_t> shape_of(hid_t space) {
  std::vector<hsize_t> dims(std::max(H5Sget_simple_extent_ndims(space), 0));
  if (!dims.empty()) H5Sget_simple_extent_dims(space, dims.data(), nullptr);
  return {dims.begin(), dims.end()};
}

/// Whether `where` lies inside `shape`.
bool contains(const std::vector<std::int64_t>& shape, const Rectangle& where) {
  const std::int64_t columns = shape.size() == 2 ? shape[1] : 1;
  return (shape.size() == 1 || shape.size() == 2) && where.row_begin >= 0 && where.num_rows >= 0 &&
         where.row_begin + where.num_rows <= shape[0] && where.column_begin >= 0 && where.num_columns >= 0 &&
         where.column_begin + where.num_columns <= columns;
}

bool is_empty(const Rectangle& where) { return where.num_rows == 0 || where.num_columns == 0; }

/// Selects the rectangle in a space of `ndim` dims, in place of what is selected or beside it.
void select(hid_t space, std::size_t ndim, const Rectangle& where, H5S_seloper_t how = H5S_SELECT_SET) {
  const std::array<hsize_t, 2> start = {static_cast<hsize_t>(where.row_begin),
                                        static_cast<hsize_t>(where.column_begin)};
  const std::array<hsize_t, 2> count = {static_cast<hsize_t>(where.num_rows), static_cast<hsize_t>(where.num_columns)};
  SFT_ENSURE(ndim <= count.size(), "rectangles have at most two dims");
  H5Sselect_hyperslab(space, how, start.data(), nullptr, count.data(), nullptr);
}

/// The rectangle alone. It has the dims of the dataset: the library copies equal shapes run by run, others element by
/// element.
Handle memory_space(const std::vector<std::int64_t>& shape, const Rectangle& where) {
  if (shape.size() == 2) return make_space({where.num_rows, where.num_columns});
  return make_space({where.num_rows});
}

std::string describe(const Rectangle& where, const std::vector<std::int64_t>& shape) {
  std::string text =
      fmt::format("rows [{}, {}) and columns [{}, {}) were asked of shape (", where.row_begin,
                  where.row_begin + where.num_rows, where.column_begin, where.column_begin + where.num_columns);
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

/// Properties that make the missing groups of a new dataset's path.
Handle link_properties() {
  Handle properties(H5Pcreate(H5P_LINK_CREATE), H5Pclose);
  H5Pset_create_intermediate_group(properties.id(), 1);
  return properties;
}

/// What a value that was never written reads as, for programs that do not notice: no token, length or number.
void set_impossible_fill_value(hid_t properties, Number type) {
  if (type == Number::int32 || type == Number::int64) {
    const std::int64_t none = -1;
    H5Pset_fill_value(properties, H5T_NATIVE_INT64, &none);
  } else if (type == Number::uint8) {
    const std::uint8_t none = 255;
    H5Pset_fill_value(properties, H5T_NATIVE_UINT8, &none);
  } else {
    const double none = std::numeric_limits<double>::quiet_NaN();
    H5Pset_fill_value(properties, H5T_NATIVE_DOUBLE, &none);
  }
}

Handle storage_properties(Number type, const std::vector<std::int64_t>& shape, std::int64_t chunk_rows) {
  Handle properties(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_obj_track_times(properties.id(), false);  // the same values make the same file
  set_impossible_fill_value(properties.id(), type);
  const bool is_empty_dataset = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (chunk_rows > 0 && !is_empty_dataset) {
    std::vector<hsize_t> chunk = dims_of(shape);
    chunk[0] = std::min(chunk[0], static_cast<hsize_t>(chunk_rows));
    H5Pset_chunk(properties.id(), static_cast<int>(chunk.size()), chunk.data());
    H5Pset_shuffle(properties.id());
    H5Pset_deflate(properties.id(), deflate_level);
    H5Pset_fletcher32(properties.id());
  } else {
    H5Pset_fill_time(properties.id(), H5D_FILL_TIME_NEVER);
  }
  return properties;
}

/// The dims of the chunks of a dataset that was made with these properties; empty when it is not stored in chunks.
std::vector<hsize_t> chunk_dims(hid_t properties) {
  if (H5Pget_layout(properties) != H5D_CHUNKED) return {};
  std::array<hsize_t, H5S_MAX_RANK> dims{};
  const int ndim = std::max(H5Pget_chunk(properties, static_cast<int>(dims.size()), dims.data()), 0);
  return {dims.begin(), dims.begin() + ndim};
}

herr_t collect_name(hid_t, const char* name, const H5L_info_t*, void* names) {
  static_cast<std::vector<std::string>*>(names)->emplace_back(name);
  return 0;
}

}  // namespace

hid_t memory_type(Number type) {
  switch (type) {
    case Number::uint8:
      return H5T_NATIVE_UINT8;
    case Number::int32:
      return H5T_NATIVE_INT32;
    case Number::int64:
      return H5T_NATIVE_INT64;
    case Number::float32:
      return H5T_NATIVE_FLOAT;
    case Number::float64:
      return H5T_NATIVE_DOUBLE;
    case Number::bfloat16:
      break;  // no memory has it
  }
  return H5I_INVALID_HID;
}

Handle file_type(Number type) {
  switch (type) {
    case Number::uint8:
      return {H5Tcopy(H5T_STD_U8LE), H5Tclose};
    case Number::int32:
      return {H5Tcopy(H5T_STD_I32LE), H5Tclose};
    case Number::int64:
      return {H5Tcopy(H5T_STD_I64LE), H5Tclose};
    case Number::float32:
      return {H5Tcopy(H5T_IEEE_F32LE), H5Tclose};
    case Number::float64:
      return {H5Tcopy(H5T_IEEE_F64LE), H5Tclose};
    case Number::bfloat16: {
      Handle copy(H5Tcopy(H5T_IEEE_F32LE), H5Tclose);
      H5Tset_fields(copy.id(), /*sign=*/15, /*exponent=*/7, /*exponent_bits=*/8, /*mantissa=*/0, /*mantissa_bits=*/7);
      H5Tset_precision(copy.id(), 16);
      H5Tset_size(copy.id(), 2);
      return copy;
    }
  }
  return {};
}

const OpenDataset& Hdf5File::Impl::dataset(const std::string& name) const {
  const auto found = open_datasets.find(name);
  if (found != open_datasets.end()) return found->second;
  if (!is_object(name, H5I_DATASET)) {
    fail_because("cannot find the dataset " + name, "it is not there", "check that the file is what it should be");
  }
  Handle opened(H5Dopen2(file.id(), name.c_str(), H5P_DEFAULT), H5Dclose);
  if (!opened.is_valid()) fail("cannot open the dataset " + name, "check that the file is whole");
  // Before anything else is asked of it: the size of a virtual dataset may be a question to its sources.
  const Handle properties(H5Dget_create_plist(opened.id()), H5Pclose);
  check_storage(name, properties.id());
  if (open_datasets.size() >= max_open_datasets) open_datasets.clear();
  OpenDataset dataset{std::move(opened), H5Pget_layout(properties.id()), chunk_dims(properties.id())};
  return open_datasets.emplace(name, std::move(dataset)).first->second;
}

std::vector<std::string> Hdf5File::Impl::list_objects(const std::string& group, H5I_type_t type) const {
  std::vector<std::string> names;
  const Handle opened(H5Gopen2(file.id(), group.c_str(), H5P_DEFAULT), H5Gclose);
  if (!opened.is_valid() || H5Literate(opened.id(), H5_INDEX_NAME, H5_ITER_NATIVE, nullptr, collect_name, &names) < 0) {
    fail("cannot list the group " + group, "check that the file is what it should be");
  }
  const std::string prefix = group.ends_with('/') ? group : group + "/";
  std::erase_if(names, [&](const std::string& name) { return !is_object(prefix + name, type); });
  std::sort(names.begin(), names.end());
  return names;
}

bool Hdf5File::has_dataset(const std::string& name) const {
  const Hdf5Lock lock;
  return impl_->is_object(name, H5I_DATASET);
}

std::vector<std::int64_t> Hdf5File::dataset_shape(const std::string& name) const {
  const Hdf5Lock lock;
  const Handle space(H5Dget_space(impl_->dataset(name).handle.id()), H5Sclose);
  return shape_of(space.id());
}

void Hdf5File::check_filters(const std::string& name) const {
  const Hdf5Lock lock;
  impl_->check_filters(name, impl_->dataset(name));
}

std::int64_t Hdf5File::bytes_unpacked(const std::string& name, const Rectangle& where) const {
  const Hdf5Lock lock;
  const OpenDataset& dataset = impl_->dataset(name);
  const Handle type(H5Dget_type(dataset.handle.id()), H5Tclose);
  const auto element_bytes = static_cast<std::int64_t>(H5Tget_size(type.id()));
  const std::int64_t wanted_bytes = where.num_elements() * element_bytes;
  if (dataset.chunk.empty() || is_empty(where)) return wanted_bytes;
  const auto chunk_rows = static_cast<std::int64_t>(dataset.chunk[0]);
  const auto chunk_columns = dataset.chunk.size() == 2 ? static_cast<std::int64_t>(dataset.chunk[1]) : 1;
  const std::int64_t chunk_bytes = chunk_rows * chunk_columns * element_bytes;
  const Handle properties(H5Dget_create_plist(dataset.handle.id()), H5Pclose);
  const bool is_read_in_part =
      H5Pget_nfilters(properties.id()) == 0 && chunk_bytes > static_cast<std::int64_t>(chunk_cache_bytes);
  if (is_read_in_part) return wanted_bytes;
  const auto num_touched = [](std::int64_t begin, std::int64_t count, std::int64_t of_chunk) {
    return (begin + count - 1) / of_chunk - begin / of_chunk + 1;
  };
  return num_touched(where.row_begin, where.num_rows, chunk_rows) *
         num_touched(where.column_begin, where.num_columns, chunk_columns) * chunk_bytes;
}

bool Hdf5File::is_dataset_uint8(const std::string& name) const {
  const Hdf5Lock lock;
  const Handle type(H5Dget_type(impl_->dataset(name).handle.id()), H5Tclose);
  return H5Tget_class(type.id()) == H5T_INTEGER && H5Tget_size(type.id()) == 1 &&
         H5Tget_sign(type.id()) == H5T_SGN_NONE;
}

std::vector<std::string> Hdf5File::list_datasets(const std::string& group) const {
  const Hdf5Lock lock;
  return impl_->list_objects(group, H5I_DATASET);
}

std::vector<std::string> Hdf5File::list_groups(const std::string& group) const {
  const Hdf5Lock lock;
  return impl_->list_objects(group, H5I_GROUP);
}

void Hdf5File::create_dataset(const std::string& name, Number type, const std::vector<std::int64_t>& shape,
                              std::int64_t chunk_rows) {
  const Hdf5Lock lock;
  const Handle space = make_space(shape);
  const Handle links = link_properties();
  const Handle storage = storage_properties(type, shape, chunk_rows);
  const Handle created(H5Dcreate2(impl_->file.id(), name.c_str(), file_type(type).id(), space.id(), links.id(),
                                  storage.id(), H5P_DEFAULT),
                       H5Dclose);
  if (!created.is_valid()) impl_->fail("cannot create the dataset " + name, "free space on the disk");
}

std::uint64_t Hdf5File::create_flat_dataset(const std::string& name, Number type, std::int64_t size) {
  const Hdf5Lock lock;
  const Handle space = make_space({size});
  const Handle links = link_properties();
  const Handle storage = storage_properties(type, {size}, 0);
  H5Pset_alloc_time(storage.id(), H5D_ALLOC_TIME_EARLY);
  const Handle created(H5Dcreate2(impl_->file.id(), name.c_str(), file_type(type).id(), space.id(), links.id(),
                                  storage.id(), H5P_DEFAULT),
                       H5Dclose);
  if (!created.is_valid()) impl_->fail("cannot create the dataset " + name, "free space on the disk");
  if (size == 0) return 0;
  const haddr_t begin = H5Dget_offset(created.id());
  if (begin == HADDR_UNDEF) impl_->fail("cannot lay out the dataset " + name, "this is a bug: please report it");
  return begin;
}

void Hdf5File::write(const std::string& name, Number type, const Rectangle& where, const void* values) {
  const Hdf5Lock lock;
  const hid_t dataset = impl_->dataset(name).handle.id();
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const std::vector<std::int64_t> shape = shape_of(space.id());
  if (!contains(shape, where)) {
    impl_->fail_because("cannot write the dataset " + name, describe(where, shape), "this is a bug: please report it");
  }
  if (is_empty(where)) return;
  select(space.id(), shape.size(), where);
  const Handle memory = memory_space(shape, where);
  if (H5Dwrite(dataset, memory_type(type), memory.id(), space.id(), H5P_DEFAULT, values) < 0 ||
      impl_->status->first_errno != 0) {
    impl_->fail("cannot write the dataset " + name, "free space on the disk");
  }
}

void Hdf5File::read(const std::string& name, Number type, const Rectangle& where, void* values) const {
  const Hdf5Lock lock;
  const OpenDataset& opened = impl_->dataset(name);
  const hid_t dataset = opened.handle.id();
  const Handle stored(H5Dget_type(dataset), H5Tclose);
  const H5T_class_t stored_class = H5Tget_class(stored.id());
  const bool wants_integers = type != Number::float32 && type != Number::float64;
  if (stored_class != H5T_INTEGER && (stored_class != H5T_FLOAT || wants_integers)) {
    impl_->fail_because("cannot use the dataset " + name,
                        wants_integers ? "it does not hold whole numbers" : "it does not hold numbers",
                        "check that the file is what it should be");
  }
  const Handle space(H5Dget_space(dataset), H5Sclose);
  const std::vector<std::int64_t> shape = shape_of(space.id());
  if (!contains(shape, where)) {
    impl_->fail_because("cannot read the dataset " + name, describe(where, shape),
                        "check that the file is what it should be");
  }
  if (is_empty(where)) return;
  impl_->check_presence(name, opened, where);
  select(space.id(), shape.size(), where);
  const Handle memory = memory_space(shape, where);
  std::map<std::string, std::string>& bad_sources = impl_->status->bad_sources;
  bad_sources.clear();
  const bool is_read = H5Dread(dataset, memory_type(type), memory.id(), space.id(), H5P_DEFAULT, values) >= 0;
  if (!bad_sources.empty()) {  // HDF5 1.10 fills their parts, 1.14 reads nothing
    impl_->fail_because("cannot read the dataset " + name, bad_sources.begin()->second,
                        "restore the file, check that this machine sees it, or raise `ulimit -n`");
  }
  if (is_read) return;
  const std::string why = impl_->reason();
  impl_->check_filters(name, opened);
  impl_->fail_because("cannot read the dataset " + name, why, "the file is damaged: restore it");
}

void Hdf5File::release() const {
  const Hdf5Lock lock;
  impl_->open_datasets.clear();
}

void Hdf5File::link_group(const std::string& group, const std::string& file) {
  const Hdf5Lock lock;
  if (H5Lcreate_external(file.c_str(), group.c_str(), impl_->file.id(), group.c_str(), H5P_DEFAULT, H5P_DEFAULT) < 0) {
    impl_->fail("cannot link " + group, "this is a bug: please report it");
  }
}

void Hdf5File::create_virtual_dataset(const std::string& name, Number type, const std::vector<std::int64_t>& shape,
                                      const std::vector<VirtualPiece>& pieces) {
  const Hdf5Lock lock;
  const std::string problem = "cannot create the virtual dataset " + name;
  const Handle storage(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  set_impossible_fill_value(storage.id(), type);  // no tool shall take a missing file for zeros
  const Handle space = make_space(shape);
  for (const VirtualPiece& piece : pieces) {
    std::int64_t num_elements = 0;
    for (const Rectangle& target : piece.targets) {
      if (is_empty(target)) continue;
      if (!contains(shape, target)) {
        impl_->fail_because(problem, describe(target, shape), "this is a bug: please report it");
      }
      select(space.id(), shape.size(), target, num_elements == 0 ? H5S_SELECT_SET : H5S_SELECT_OR);
      num_elements += target.num_elements();
    }
    if (num_elements == 0) continue;
    const Handle source = make_space({piece.source_size});
    select(source.id(), 1, {.row_begin = piece.source_begin, .num_rows = num_elements});
    if (H5Pset_virtual(storage.id(), space.id(), piece.source_file.c_str(), piece.source_dataset.c_str(), source.id()) <
        0) {
      impl_->fail(problem, "this is a bug: please report it");
    }
  }
  H5Sselect_all(space.id());
  const Handle links = link_properties();
  const Handle created(H5Dcreate2(impl_->file.id(), name.c_str(), file_type(type).id(), space.id(), links.id(),
                                  storage.id(), H5P_DEFAULT),
                       H5Dclose);
  if (!created.is_valid()) impl_->fail(problem, "free space on the disk");
}

}  // namespace sft::io
