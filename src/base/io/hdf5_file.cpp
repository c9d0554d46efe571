// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>

#include "descriptor.hpp"
#include "hdf5_impl.hpp"
#include "sealed_bytes.hpp"
#include "sft/core/error.hpp"
#include "sft/io/superblock.hpp"

namespace sft::io {

namespace {

constexpr hsize_t smallest_aligned_bytes = 64U << 10U;
constexpr std::size_t metadata_cache_bytes = 4U << 10U;
constexpr std::size_t chunk_cache_slots = 101;   // a prime, as the library asks
constexpr double chunk_cache_preemption = 0.75;  // the library's default

std::mutex& library_mutex() {
  static std::mutex mutex;
  return mutex;
}

/// For reading: keeps few objects' metadata. The library counts the bytes that they have in the file; the mappings of a
/// virtual dataset, which lie elsewhere in the file, are 7 KiB each in memory.
void limit_metadata_cache(hid_t properties) {
  H5AC_cache_config_t config{};
  config.version = H5AC__CURR_CACHE_CONFIG_VERSION;
  H5Pget_mdc_config(properties, &config);
  config.set_initial_size = 1;
  config.initial_size = config.max_size = metadata_cache_bytes;
  config.min_size = metadata_cache_bytes / 4;
  config.incr_mode = H5C_incr__off;
  config.flash_incr_mode = H5C_flash_incr__off;
  config.decr_mode = H5C_decr__off;
  H5Pset_mdc_config(properties, &config);
}

/// Access properties of every file: our driver, small chunk caches, and for new objects the formats of HDF5 1.10 on,
/// of which all metadata carries checksums but the texts of variable length.
Handle access_properties(const std::shared_ptr<IoStatus>& status, const std::shared_ptr<SealedBytes>& seal = nullptr) {
  Handle properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_libver_bounds(properties.id(), H5F_LIBVER_V110, H5F_LIBVER_LATEST);
  set_noting_driver(properties.id(), status, seal);
  H5Pset_cache(properties.id(), 0, chunk_cache_slots, chunk_cache_bytes, chunk_cache_preemption);
  return properties;
}

/// What checks the bytes of an open file; null for one without a seal of its blocks.
std::shared_ptr<SealedBytes> open_seal(const std::string& path, const Descriptor& file) {
  switch (kind_of(read_user_block(file.value()), file.value())) {
    case SealKind::none:
    case SealKind::whole_crc:
      return nullptr;
    case SealKind::block_hashes:
      return std::make_shared<SealedBytes>(path, file.value());
    case SealKind::unknown:
      break;
  }
  throw_data_error(
      ends_as_hdf5(file.value()) ? describe_change(path, file.value()) : fmt::format("cannot open {} as HDF5", path),
      "it begins neither as HDF5 does nor with a seal of sft", "check that it is a whole HDF5 file");
}

/// Describes a sealed file that another program opened for writing and left as it was; "" where none did.
std::string describe_writer(const std::string& path, const SealedBytes& seal) {
  if (seal.is_marked()) return describe_writer_marks(path, compared_with_hashes);
  if (!seal.is_cut()) return "";
  const std::string failure = restore_hashes(path, seal);
  return fmt::format(
      "{} was opened for writing by another program, which cut off its hashes (all other bytes are as "
      "they were written{}): {}",
      path,
      failure.empty() ? "; it has its hashes again"
                      : ", but it stays cut, so that all of it is hashed whenever it is opened: " + failure,
      read_only_advice);
}

/// Advice for a file of which the library does not know a version of something: a newer library wrote it.
std::optional<std::string> advice_for_newer_file(const std::string& reason) {
  if (reason.find("version number") == std::string::npos) return std::nullopt;
  unsigned major = 0, minor = 0, release = 0;
  H5get_libversion(&major, &minor, &release);
  return fmt::format(
      "a newer HDF5 than {}.{}.{}, which this program has, seems to have written it: write it in an older format, as "
      "in "
      "h5py.File(name, \"w\", libver=(\"earliest\", \"v{}{:02}\"))",
      major, minor, release, major, minor);
}

herr_t keep_innermost(unsigned, const H5E_error2_t* entry, void* text) {
  *static_cast<std::string*>(text) = entry->desc != nullptr ? entry->desc : "";
  return 1;  // stops the walk
}

}  // namespace

Hdf5Lock::Hdf5Lock() : guard_(library_mutex()) {
  // Each start of the library (it ends with MPI) restores the printing of its error stack.
  H5Eset_auto2(H5E_DEFAULT, nullptr, nullptr);
}

std::string Hdf5File::Impl::reason() const {
  if (status->first_errno != 0) return std::strerror(status->first_errno);
  if (!status->damage.empty()) return status->damage;
  if (status->has_shortened) return "the file has become shorter since it was opened";
  std::string text;
  H5Ewalk2(H5E_DEFAULT, H5E_WALK_UPWARD, keep_innermost, &text);
  return text.empty() ? "no reason known" : text;
}

void Hdf5File::Impl::fail(const std::string& problem, const std::string& what_to_do) const {
  const std::string why = reason();
  fail_because(problem, why, advice_for_newer_file(why).value_or(what_to_do));
}

void Hdf5File::Impl::fail_because(const std::string& problem, const std::string& why,
                                  const std::string& what_to_do) const {
  throw_data_error(fmt::format("{} in {}", problem, path), why, what_to_do);
}

Hdf5File::Hdf5File(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Hdf5File::Hdf5File(Hdf5File&&) noexcept = default;

Hdf5File& Hdf5File::operator=(Hdf5File&& other) noexcept {
  std::swap(impl_, other.impl_);
  return *this;
}

Hdf5File::~Hdf5File() {
  if (!impl_) return;
  const Hdf5Lock lock;
  impl_.reset();
}

Hdf5File Hdf5File::open(const std::string& path, Sources sources) {
  std::error_code error;
  const std::filesystem::file_status facts = std::filesystem::status(path, error);
  if (facts.type() == std::filesystem::file_type::not_found) {
    throw_data_error("cannot open " + path, "no such file", "check the path");
  }
  if (error) throw_data_error("cannot open " + path, error.message(), "check the path and its permissions");
  if (!std::filesystem::is_regular_file(facts)) throw_data_error("cannot open " + path, "it is no file", "name a file");
  auto opened = std::make_shared<Descriptor>(path, O_RDONLY | O_NONBLOCK);
  if (!opened->is_open()) throw_data_error("cannot open " + path, std::strerror(errno), "check its permissions");
  const std::shared_ptr<SealedBytes> seal = open_seal(path, *opened);
  const bool is_marked = has_writer_marks(opened->value());
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  impl->status->sources = sources;
  impl->status->path = path;
  impl->status->opened = std::move(opened);
  const Handle properties = access_properties(impl->status, seal);
  limit_metadata_cache(properties.id());
  impl->file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDONLY, properties.id()), H5Fclose);
  if (!impl->file.is_valid()) {
    const std::string why = impl->reason();
    throw_data_error(fmt::format("cannot open {} as HDF5", path), why,
                     advice_for_newer_file(why).value_or("check that it is a whole HDF5 file"));
  }
  if (is_marked) impl->warning = describe_writer_marks(path, "it carries no hashes that prove it unchanged");
  if (seal) {
    impl->seal_line = seal->line();
    impl->warning = describe_writer(path, *seal);
  }
  return Hdf5File(std::move(impl));
}

void load_hdf5() {
  const Hdf5Lock lock;
  constexpr std::size_t increment = 4096;
  const Handle properties(H5Pcreate(H5P_FILE_ACCESS), H5Pclose);
  H5Pset_fapl_core(properties.id(), increment, /*backing_store=*/false);
  const Handle file(H5Fcreate("nowhere", H5F_ACC_TRUNC, H5P_DEFAULT, properties.id()), H5Fclose);
  const std::array<hsize_t, 1> dims{1024};
  std::array<std::int32_t, 1024> values{};
  constexpr unsigned deflate_level = 3;
  const Handle space(H5Screate_simple(1, dims.data(), nullptr), H5Sclose),
      creation(H5Pcreate(H5P_DATASET_CREATE), H5Pclose);
  H5Pset_chunk(creation.id(), 1, dims.data());
  H5Pset_deflate(creation.id(), deflate_level);
  const Handle dataset(
      H5Dcreate2(file.id(), "values", H5T_STD_I32LE, space.id(), H5P_DEFAULT, creation.id(), H5P_DEFAULT), H5Dclose);
  H5Dwrite(dataset.id(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
  H5Fflush(file.id(), H5F_SCOPE_LOCAL);
  H5Dread(dataset.id(), H5T_NATIVE_INT32, H5S_ALL, H5S_ALL, H5P_DEFAULT, values.data());
}

Hdf5File Hdf5File::create(const std::string& path, std::size_t user_block_bytes) {
  return create(path, user_block_bytes, /*is_aligned=*/false);
}

Hdf5File Hdf5File::create_aligned(const std::string& path) { return create(path, 0, /*is_aligned=*/true); }

Hdf5File Hdf5File::create(const std::string& path, std::size_t user_block_bytes, bool is_aligned) {
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  const Handle properties = access_properties(impl->status);
  if (is_aligned) H5Pset_alignment(properties.id(), smallest_aligned_bytes, flat_alignment_bytes);
  const Handle creation(H5Pcreate(H5P_FILE_CREATE), H5Pclose);
  H5Pset_userblock(creation.id(), user_block_bytes);
  H5Pset_obj_track_times(creation.id(), false);  // of the root group: the same values make the same file
  impl->file = Handle(H5Fcreate(path.c_str(), H5F_ACC_TRUNC, creation.id(), properties.id()), H5Fclose);
  if (!impl->file.is_valid()) {
    throw_data_error("cannot create " + path, impl->reason(), "check that its folder exists and is writable");
  }
  return Hdf5File(std::move(impl));
}

Hdf5File Hdf5File::extend(const std::string& path) {
  const Hdf5Lock lock;
  auto impl = std::make_unique<Impl>();
  impl->path = path;
  const Handle properties = access_properties(impl->status);
  impl->file = Handle(H5Fopen(path.c_str(), H5F_ACC_RDWR, properties.id()), H5Fclose);
  if (!impl->file.is_valid()) {
    throw_data_error("cannot go on writing " + path, impl->reason(), "check the disk and its free space");
  }
  return Hdf5File(std::move(impl));
}

const std::string& Hdf5File::path() const { return impl_->path; }
bool Hdf5File::is_sealed() const { return !impl_->seal_line.empty(); }
const std::string& Hdf5File::seal_line() const { return impl_->seal_line; }
const std::string& Hdf5File::warning() const { return impl_->warning; }

void Hdf5File::close() {
  const Hdf5Lock lock;
  const std::unique_ptr<Impl> impl = std::move(impl_);
  impl->open_datasets.clear();
  if (impl->file.close_now() < 0 || impl->status->first_errno != 0) {
    throw_data_error("cannot finish " + impl->path, impl->reason(), "free space on the disk");
  }
}

}  // namespace sft::io
