// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the sources of Hdf5File share: the lock, owning handles, and errors with the library's own reason.

#include <hdf5.h>

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "hdf5_driver.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::io {

/// Held during every call of the HDF5 library; the first one silences the library's own messages.
class Hdf5Lock {
 public:
  Hdf5Lock();

 private:
  std::lock_guard<std::mutex> guard_;
};

/// Owns one HDF5 identifier. Destroyed under the lock.
class Handle {
 public:
  using Close = herr_t (*)(hid_t);
  Handle() = default;
  Handle(hid_t id, Close close) : id_(id), close_(close) {}
  Handle(Handle&& other) noexcept : id_(std::exchange(other.id_, H5I_INVALID_HID)), close_(other.close_) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(id_, other.id_);
    std::swap(close_, other.close_);
    return *this;
  }
  ~Handle() {
    if (is_valid()) close_(id_);
  }

  [[nodiscard]] bool is_valid() const { return id_ >= 0; }
  [[nodiscard]] hid_t id() const { return id_; }
  /// Closes now and says how that went.
  herr_t close_now() { return close_(std::exchange(id_, H5I_INVALID_HID)); }

 private:
  hid_t id_ = H5I_INVALID_HID;
  Close close_ = nullptr;
};

/// A dataset that is left open.
struct OpenDataset {
  Handle handle;
  H5D_layout_t layout = H5D_CONTIGUOUS;
  std::vector<hsize_t> chunk;  ///< dims of its chunks; empty when it has none
};

/// All members are called under the lock.
struct Hdf5File::Impl {
  std::string path;
  std::shared_ptr<IoStatus> status = std::make_shared<IoStatus>();
  Handle file;
  std::string seal_line;  ///< "" without a seal
  std::string warning;
  /// Datasets left open, so that neighbouring reads share one chunk cache: max_open_datasets at most.
  mutable std::map<std::string, OpenDataset> open_datasets;

  /// Why the call that failed last did: what the system said, else the library.
  [[nodiscard]] std::string reason() const;
  /// Throws the data Error "PROBLEM in FILE (reason()): WHAT_TO_DO"; of a file that a newer HDF5 wrote it says so.
  [[noreturn]] void fail(const std::string& problem, const std::string& what_to_do) const;
  /// Throws the data Error "PROBLEM in FILE (WHY): WHAT_TO_DO".
  [[noreturn]] void fail_because(const std::string& problem, const std::string& why,
                                 const std::string& what_to_do) const;
  /// The attribute `name` of `object` ("" = root), holding one text or one number.
  [[nodiscard]] Handle attribute(const std::string& name, const std::string& object, bool is_string) const;
  /// Writes one value, over a former one.
  void write_attribute(const std::string& name, const std::string& object, hid_t stored_type, hid_t type,
                       const void* value);
  /// The open dataset `name`. Refuses one whose values lie where the file may not lead.
  [[nodiscard]] const OpenDataset& dataset(const std::string& name) const;
  /// Refuses a dataset, made with these properties, that takes values from other files than status->sources allows.
  void check_storage(const std::string& name, hid_t properties) const;
  /// Refuses a rectangle of which some values were never written: the library would give the fill value.
  void check_presence(const std::string& name, const OpenDataset& dataset, const Rectangle& where) const;
  /// Refuses a dataset whose values are compressed with a filter that the library does not have.
  void check_filters(const std::string& name, const OpenDataset& dataset) const;
  /// Whether `name` is there, and an object of that type (H5I_DATASET, H5I_GROUP). Refuses a link to another file.
  [[nodiscard]] bool is_object(const std::string& name, H5I_type_t type) const;
  /// Names in `group` of the objects of that type, sorted.
  [[nodiscard]] std::vector<std::string> list_objects(const std::string& group, H5I_type_t type) const;
};

/// Types of numbers in memory, and (little-endian) in files.
[[nodiscard]] hid_t memory_type(Number type);
[[nodiscard]] Handle file_type(Number type);

}  // namespace sft::io
