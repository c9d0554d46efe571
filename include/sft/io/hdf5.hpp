// SPDX-License-Identifier: Apache-2.0
#pragma once
// HDF5 files without the HDF5 headers. The library is not thread-safe in Debian's build: every call below holds one
// process-wide lock, so a prefetch thread may read while the main thread writes. Errors are data Errors that name the
// file, and the attribute, group or dataset in it that was asked for; the library's own error stack is never printed.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::io {

/// Rectangles of a virtual dataset, mapped to a contiguous range of a 1-D dataset in another file: their elements in
/// row-major order of the virtual dataset, whatever the order of the rectangles.
struct VirtualPiece {
  std::vector<Rectangle> targets;
  std::string source_file;                         ///< relative to the virtual file's folder
  std::string source_dataset;                      ///< 1-D
  std::int64_t source_begin = 0, source_size = 0;  ///< range start; total length of the source dataset
};

/// Which other files an HDF5 file that is read may take values from, through virtual datasets: none, or those that lie
/// in its own folder and hold their values themselves.
enum class Sources : std::uint8_t { none, same_folder };

/// bfloat16 is the upper half of a float32: a type of its own in files, which HDF5 and its tools read as numbers. Here
/// it is neither read nor written, only laid out (create_flat_dataset).
enum class Number : std::uint8_t { uint8, int32, int64, float32, float64, bfloat16 };

/// What the beginnings of large flat datasets are multiples of.
inline constexpr std::size_t flat_alignment_bytes = 4096;

/// Chunks that each open dataset keeps in memory, unpacked, at most.
inline constexpr std::size_t chunk_cache_bytes = std::size_t{1} << 20;

/// Loads the library, by a file that is in memory alone: for processes that measure what they take before they open
/// one.
void load_hdf5();

class Hdf5File {
 public:
  /// Opens for reading; refuses what is missing or not HDF5. Every byte of a sealed file (sft/io/seal.hpp) is checked
  /// when it is read: damage is a data Error of the call that meets it. So is a way to other files than `sources`
  /// allows: HDF5 itself would follow links, virtual datasets and raw data in files without a format to any file of the
  /// machine.
  [[nodiscard]] static Hdf5File open(const std::string& path, Sources sources = Sources::none);
  /// Creates (truncates), behind a user block of 0 or, for seal(), of seal_bytes.
  [[nodiscard]] static Hdf5File create(const std::string& path, std::size_t user_block_bytes = 0);
  /// Creates (truncates) a file without a user block, for flat datasets: large ones begin at multiples of
  /// flat_alignment_bytes.
  [[nodiscard]] static Hdf5File create_aligned(const std::string& path);
  /// Opens what create() made and close() closed, to write more into it. Only closing gives back the memory that the
  /// library needs for each virtual dataset.
  [[nodiscard]] static Hdf5File extend(const std::string& path);
  ~Hdf5File();
  Hdf5File(Hdf5File&&) noexcept;
  Hdf5File& operator=(Hdf5File&&) noexcept;

  [[nodiscard]] const std::string& path() const;
  /// Whether it was opened by open() and carries a seal of all its bytes.
  [[nodiscard]] bool is_sealed() const;
  /// The line of a sealed file's seal, which tells its content from any other; else "".
  [[nodiscard]] const std::string& seal_line() const;
  /// Change that another program made to a sealed file by opening it for writing, and whether open() undid it; ""
  /// where there is nothing to say.
  [[nodiscard]] const std::string& warning() const;
  /// Flushes and closes; throws when the last bytes could not be written (full disk).
  void close();

  // Attributes of the root group or of `object` ("" = root).
  [[nodiscard]] bool has_attribute(const std::string& name, const std::string& object = "") const;
  [[nodiscard]] std::string read_string(const std::string& name, const std::string& object = "") const;
  [[nodiscard]] std::int64_t read_int(const std::string& name, const std::string& object = "") const;
  [[nodiscard]] double read_float(const std::string& name, const std::string& object = "") const;
  void write_string(const std::string& name, const std::string& value, const std::string& object = "");
  void write_int(const std::string& name, std::int64_t value, const std::string& object = "");
  void write_float(const std::string& name, double value, const std::string& object = "");

  // Datasets, by absolute path ("/model/model.norm.weight"); missing groups are made.
  [[nodiscard]] bool has_dataset(const std::string& name) const;
  [[nodiscard]] std::vector<std::int64_t> dataset_shape(const std::string& name) const;
  /// Refuses a dataset whose values are compressed with a filter that the HDF5 of this program does not have.
  void check_filters(const std::string& name) const;
  /// How many bytes of a dataset a read of `where` takes from the file and unpacks: those of the chunks that it
  /// touches.
  [[nodiscard]] std::int64_t bytes_unpacked(const std::string& name, const Rectangle& where) const;
  /// Whether it holds whole numbers of one byte without a sign.
  [[nodiscard]] bool is_dataset_uint8(const std::string& name) const;
  /// Names (without the group) of the datasets of a group, sorted.
  [[nodiscard]] std::vector<std::string> list_datasets(const std::string& group) const;
  /// Names (without the group) of the groups in a group, sorted.
  [[nodiscard]] std::vector<std::string> list_groups(const std::string& group) const;
  /// A name under which HDF5's tools find the group `group` of the file `file` beside this one, once it is there.
  void link_group(const std::string& group, const std::string& file);
  /// chunk_rows = 0: contiguous; else chunked by rows with shuffle + deflate, and a checksum (Fletcher-32) of each
  /// chunk. To other programs a value that is never written is -1 (of uint8: 255) or NaN.
  void create_dataset(const std::string& name, Number type, const std::vector<std::int64_t>& shape,
                      std::int64_t chunk_rows = 0);
  /// A contiguous dataset of one dim, to which somebody else writes its bytes in place, little-endian and without gaps:
  /// returns the byte of the file where they begin. The file has its full length when it is closed, and zeros there. 0
  /// for `size` = 0.
  std::uint64_t create_flat_dataset(const std::string& name, Number type, std::int64_t size);
  /// Writes values (num_rows, num_columns), row-major and contiguous, into an existing dataset, with conversion from
  /// `type`. Here and in read a rectangle that is not within the dataset, or a dataset that has not one or two dims, is
  /// a data Error.
  void write(const std::string& name, Number type, const Rectangle& where, const void* values);
  /// Reads into values (num_rows, num_columns), row-major and contiguous, with conversion to `type`; floats are not
  /// read as integers. A value that was never written is a data Error. Of a virtual dataset it refuses a source that
  /// cannot be opened or used, where the library would give the fill value.
  void read(const std::string& name, Number type, const Rectangle& where, void* values) const;
  /// Gives back what earlier calls keep for the next one: up to four open datasets with chunk_cache_bytes each.
  void release() const;
  /// A dataset of `shape` assembled from pieces of other files, each of them one mapping. What no piece covers, and for
  /// other tools what a missing file should hold, is as in create_dataset. A piece with a target that is not within
  /// `shape` is a data Error.
  void create_virtual_dataset(const std::string& name, Number type, const std::vector<std::int64_t>& shape,
                              const std::vector<VirtualPiece>& pieces);

 private:
  struct Impl;
  explicit Hdf5File(std::unique_ptr<Impl> impl);
  static Hdf5File create(const std::string& path, std::size_t user_block_bytes, bool is_aligned);
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::io
