// SPDX-License-Identifier: Apache-2.0
#include "hdf5_driver.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <memory>
#include <utility>

#include "hdf5_versions.hpp"

namespace sft::io {

namespace {

/// What the access properties carry.
struct DriverInfo {
  std::shared_ptr<IoStatus> status;
  std::shared_ptr<SealedBytes> seal;  // null: none, or not to be checked
  int depth = 0;                      // 0: the file itself, 1: its sources, 2: what those lead to
};

using Identity = std::pair<dev_t, ino_t>;

/// How often each file is open now.
std::map<Identity, int>& openings() {
  static std::map<Identity, int> counts;
  return counts;
}

/// An open file. The library wants its own part first.
struct DriverFile {
  H5FD_t library{};
  std::string path;
  DriverInfo info;
  int descriptor = -1;
  haddr_t end_of_addresses = 0;
  haddr_t end_of_file = 0;
  haddr_t known_bytes = 0;  ///< of a file that is only read: its size when it was opened
  Identity identity;

  DriverFile(const char* name, DriverInfo properties) : path(name), info(std::move(properties)) {}
  [[nodiscard]] bool is_source() const { return info.depth > 0; }
  DriverFile(const DriverFile&) = delete;
  DriverFile& operator=(const DriverFile&) = delete;
  ~DriverFile() {
    if (descriptor >= 0 && ::close(descriptor) != 0) note();
  }

  void note() const {
    if (info.status && !is_source()) info.status->note(errno);
  }
  [[nodiscard]] std::string name() const { return std::filesystem::path(path).filename(); }
};

DriverFile* cast(H5FD_t* file) { return reinterpret_cast<DriverFile*>(file); }
const DriverFile* cast(const H5FD_t* file) { return reinterpret_cast<const DriverFile*>(file); }

/// The library looks for a source in several places: the first reason stays until one of them has it.
void note_opened(const DriverFile& file) {
  ++openings()[file.identity];
  if (!file.info.status) return;
  if (file.is_source()) {
    file.info.status->bad_sources.erase(file.name());
  } else {
    file.info.status->first_errno = 0;  // the library first tries a file that it creates for being there
  }
}

void note_unopened(const DriverFile& file) {
  if (!file.info.status) return;
  if (file.is_source()) {
    file.info.status->bad_sources.try_emplace(file.name(),
                                              fmt::format("cannot open {}: {}", file.path, std::strerror(errno)));
  } else {
    file.info.status->first_errno = errno;  // of several tries the last counts, for the same reason
  }
}

/// The library keeps a source open with the dataset over it: one that it closes in a read was of no use.
void note_closing(const DriverFile& file) {
  const auto count = openings().find(file.identity);
  if (--count->second > 0) return;
  openings().erase(count);
  if (file.info.status && file.is_source()) {
    file.info.status->bad_sources.try_emplace(file.name(), file.path + " is not what was written there");
  }
}

/// Why the library may not go on from the file that was opened to this one; "" where it may.
std::string refusal_of(const DriverFile& file) {
  namespace fs = std::filesystem;
  if (!file.is_source() || !file.info.status) return {};
  if (file.info.status->sources == Sources::none) return "it leads to another file, " + file.path;
  if (file.info.depth > 1) return "a file that it takes values from leads to another one, " + file.path;
  const fs::path owner = file.info.status->path;
  std::error_code error;
  const auto folder_of = [](const fs::path& path) { return path.parent_path() / "."; };
  const bool is_in_folder = fs::equivalent(folder_of(file.path), folder_of(owner), error) && !error;
  if (!is_in_folder) return "it leads to a file outside of its folder, " + file.path;
  return fs::equivalent(file.path, owner, error) ? "it takes values from itself" : "";
}

H5FD_t* open_file(const char* name, unsigned flags, hid_t access_properties, haddr_t) {
  const auto* info = static_cast<const DriverInfo*>(H5Pget_driver_info(access_properties));
  auto file = std::make_unique<DriverFile>(name, info != nullptr ? *info : DriverInfo{});
  if (const std::string refusal = refusal_of(*file); !refusal.empty()) {
    file->info.status->bad_sources.try_emplace(file->name(), refusal);
    return nullptr;
  }
  const int mode = ((flags & H5F_ACC_RDWR) != 0U ? O_RDWR : O_RDONLY) | ((flags & H5F_ACC_CREAT) != 0U ? O_CREAT : 0) |
                   ((flags & H5F_ACC_TRUNC) != 0U ? O_TRUNC : 0) | ((flags & H5F_ACC_EXCL) != 0U ? O_EXCL : 0);
  const bool is_opened = file->info.status && !file->is_source() && file->info.status->opened;
  file->descriptor = is_opened ? std::exchange(file->info.status->opened, nullptr)->release()
                               : ::open(name, mode | O_CLOEXEC | O_NONBLOCK, 0666);  // a pipe would wait for its writer
  struct stat facts {};
  if (file->descriptor < 0 || ::fstat(file->descriptor, &facts) != 0) {
    note_unopened(*file);
    return nullptr;
  }
  file->end_of_file = static_cast<haddr_t>(facts.st_size);
  if (file->info.seal) file->end_of_file = file->info.seal->sizes().end;
  if ((flags & H5F_ACC_RDWR) == 0U) file->known_bytes = file->end_of_file;
  file->identity = {facts.st_dev, facts.st_ino};
  note_opened(*file);
  return &file.release()->library;
}

herr_t close_file(H5FD_t* file) {
  note_closing(*cast(file));
  delete cast(file);
  return 0;
}

/// What the access properties of the file's sources carry.
void* get_source_info(H5FD_t* file) {
  return new DriverInfo{cast(file)->info.status, nullptr, cast(file)->info.depth + 1};
}
void* copy_info(const void* info) { return new DriverInfo(*static_cast<const DriverInfo*>(info)); }
herr_t free_info(void* info) {
  delete static_cast<DriverInfo*>(info);
  return 0;
}

/// Orders files; 0 for two openings of the same one.
int compare(const H5FD_t* left, const H5FD_t* right) {
  if (cast(left)->identity == cast(right)->identity) return 0;
  return cast(left)->identity < cast(right)->identity ? -1 : 1;
}

herr_t query(const H5FD_t*, unsigned long* flags) {
  *flags = H5FD_FEAT_AGGREGATE_METADATA | H5FD_FEAT_ACCUMULATE_METADATA | H5FD_FEAT_DATA_SIEVE |
           H5FD_FEAT_AGGREGATE_SMALLDATA | H5FD_FEAT_DEFAULT_VFD_COMPATIBLE;
  return 0;
}

haddr_t get_end_of_addresses(const H5FD_t* file, H5FD_mem_t) { return cast(file)->end_of_addresses; }
haddr_t get_end_of_file(const H5FD_t* file, H5FD_mem_t) { return cast(file)->end_of_file; }
herr_t set_end_of_addresses(H5FD_t* file, H5FD_mem_t, haddr_t address) {
  cast(file)->end_of_addresses = address;
  return 0;
}

/// The file ends before bytes that it had when it was opened.
void note_shortened(const DriverFile& file) {
  if (!file.info.status) return;
  if (file.is_source()) {
    file.info.status->bad_sources.try_emplace(file.name(), file.path + " has become shorter");
  } else {
    file.info.status->has_shortened = true;
  }
}

void note_damage(const DriverFile& file, const std::string& damage) {
  if (file.info.status && !file.is_source()) file.info.status->damage = damage;
}

/// Bytes beyond the end are zeros, but not in a file that is only read and had them.
herr_t read_plain(const DriverFile& file, haddr_t address, std::size_t size, char* bytes) {
  const ssize_t count = read_at(file.descriptor, address, size, bytes);
  if (count < 0) {
    file.note();
    return -1;
  }
  const std::size_t found = count;
  if (found < size && address + found < file.known_bytes) {
    note_shortened(file);
    return -1;
  }
  std::memset(bytes + found, 0, size - found);
  return 0;
}

/// Reads what the seal covers, and the user block before it.
herr_t read_sealed(const DriverFile& file, haddr_t address, std::size_t size, char* bytes) {
  const haddr_t end = file.info.seal->sizes().end;
  const std::size_t before = address < seal_bytes ? std::min<std::size_t>(size, seal_bytes - address) : 0;
  const std::size_t within = address < end ? std::min<std::size_t>(size, end - address) : 0;
  std::memset(bytes + within, 0, size - within);
  if (before > 0 && read_plain(file, address, before, bytes) < 0) return -1;
  if (within <= before) return 0;
  switch (file.info.seal->read(file.descriptor, address + before, within - before, bytes + before)) {
    case SealedBytes::Result::good:
      return 0;
    case SealedBytes::Result::damaged:
      note_damage(file, file.info.seal->damage());
      break;
    case SealedBytes::Result::shortened:
      note_shortened(file);
      break;
    case SealedBytes::Result::failed:
      file.note();
      break;
  }
  return -1;
}

/// The library asks for a global heap as if it were data. One that is larger than it first thought it reads in two
/// goes, of which the second begins within the heap.
herr_t read_unsealed(const DriverFile& file, H5FD_mem_t kind, haddr_t address, std::size_t size, char* bytes) {
  if (read_plain(file, address, size, bytes) < 0) return -1;
  if ((kind != H5FD_MEM_DRAW && kind != H5FD_MEM_GHEAP) || !begins_global_heap(bytes, size)) return 0;
  const std::string damage = damage_of_global_heap(file.descriptor, address);
  if (damage.empty()) return 0;
  note_damage(file, damage);
  return -1;
}

herr_t read_bytes(H5FD_t* library_file, H5FD_mem_t kind, hid_t, haddr_t address, std::size_t size, void* buffer) {
  const DriverFile& file = *cast(library_file);
  auto* bytes = static_cast<char*>(buffer);
  return file.info.seal ? read_sealed(file, address, size, bytes) : read_unsealed(file, kind, address, size, bytes);
}

/// A failure is noted and not told.
herr_t write_bytes(H5FD_t* file, H5FD_mem_t, hid_t, haddr_t address, std::size_t size, const void* buffer) {
  cast(file)->end_of_file = std::max(cast(file)->end_of_file, address + size);
  if (!write_at(cast(file)->descriptor, address, size, static_cast<const char*>(buffer))) cast(file)->note();
  return 0;
}

/// A failure is noted and not told.
herr_t truncate_file(H5FD_t* file, hid_t, hbool_t) {
  DriverFile* self = cast(file);
  if (self->end_of_addresses == self->end_of_file) return 0;
  if (::ftruncate(self->descriptor, static_cast<off_t>(self->end_of_addresses)) != 0) self->note();
  self->end_of_file = self->end_of_addresses;
  return 0;
}

H5FD_class_t make_driver_class() {
  H5FD_class_t driver = make_empty_driver_class();
  driver.name = "sft_noting";
  driver.maxaddr = static_cast<haddr_t>(std::numeric_limits<off_t>::max());
  driver.fc_degree = H5F_CLOSE_WEAK;
  driver.fapl_size = sizeof(DriverInfo);
  driver.fapl_get = get_source_info;
  driver.fapl_copy = copy_info;
  driver.fapl_free = free_info;
  driver.open = open_file;
  driver.close = close_file;
  driver.cmp = compare;
  driver.query = query;
  driver.get_eoa = get_end_of_addresses;
  driver.set_eoa = set_end_of_addresses;
  driver.get_eof = get_end_of_file;
  driver.read = read_bytes;
  driver.write = write_bytes;
  driver.truncate = truncate_file;
  const H5FD_mem_t free_lists[] = H5FD_FLMAP_DICHOTOMY;
  std::copy(std::begin(free_lists), std::end(free_lists), std::begin(driver.fl_map));
  return driver;
}

}  // namespace

void set_noting_driver(hid_t access_properties, const std::shared_ptr<IoStatus>& status,
                       const std::shared_ptr<SealedBytes>& seal) {
  static const H5FD_class_t driver_class = make_driver_class();
  static hid_t driver = H5I_INVALID_HID;
  // The library forgets its drivers when it ends, which it does together with MPI.
  if (H5Iget_type(driver) != H5I_VFL) driver = H5FDregister(&driver_class);
  const DriverInfo info = {status, seal};
  H5Pset_driver(access_properties, driver, &info);
}

}  // namespace sft::io
