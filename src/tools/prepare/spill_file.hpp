// SPDX-License-Identifier: Apache-2.0
#pragma once
// A temporary file that takes much in small pieces and gives it back in small pieces: it buffers both.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "sft/io/raw_file.hpp"
#include "sft/io/unnamed_file.hpp"

namespace sft::prepare {

class SpillFile {
 public:
  /// A new empty file without a name on the disk of `folder`, which exists. Here and below a data Error names the
  /// folder, or the file, when the disk refuses.
  explicit SpillFile(const std::string& folder);
  /// A new empty file `path`, which other processes are to read; it goes with the object.
  [[nodiscard]] static SpillFile make_shared(const std::string& path);
  /// What another process wrote to `path` and finished.
  [[nodiscard]] static SpillFile open_shared(const std::string& path);
  ~SpillFile();
  SpillFile(SpillFile&&) noexcept = default;
  SpillFile& operator=(SpillFile&&) = delete;

  [[nodiscard]] std::int64_t size_bytes() const {
    return written_bytes_ + static_cast<std::int64_t>(unwritten_.size());
  }
  void append(std::span<const std::byte> bytes);
  /// Everything that was appended is in the file, for other processes to read.
  void finish();
  /// Fills `bytes` from position begin_byte on; all of them have been appended. One thread at a time, as all calls.
  void read(std::int64_t begin_byte, std::span<std::byte> bytes);

 private:
  SpillFile(std::string path, io::RawFile file, std::int64_t size_bytes)
      : place_(std::move(path)), shared_(std::move(file)), written_bytes_(size_bytes) {}
  void write_out();
  void write_directly(std::span<const std::byte> bytes);
  void read_directly(std::int64_t begin_byte, std::span<std::byte> bytes) const;

  std::string place_;                                ///< the folder, or the file
  std::unique_ptr<io::UnnamedFile> unnamed_;         ///< this
  std::optional<io::RawFile> shared_;                ///< or this
  std::unique_ptr<const std::string> removed_path_;  ///< of the file that goes with the object
  std::int64_t written_bytes_ = 0;
  std::vector<std::byte> unwritten_;  ///< what was appended last
  std::vector<std::byte> window_;     ///< what was read last, for small reads close to each other
  std::int64_t window_begin_byte_ = 0;
};

}  // namespace sft::prepare
