#pragma once
// A temporary file without a name: the system removes it when the process ends, however it ends.

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace sft::data {

class UnnamedFile {
 public:
  /// A new empty file on the disk of `folder`, which exists. Here and below a data Error names the folder when the disk
  /// refuses.
  explicit UnnamedFile(const std::string& folder);
  ~UnnamedFile();
  UnnamedFile(UnnamedFile&& other) noexcept;
  UnnamedFile& operator=(UnnamedFile&&) = delete;

  [[nodiscard]] std::int64_t size_bytes() const { return size_bytes_; }
  void append(std::span<const std::byte> bytes);
  /// Fills `bytes` from position begin_byte on; all of them have been appended.
  void read(std::int64_t begin_byte, std::span<std::byte> bytes) const;

 private:
  std::string folder_;
  int descriptor_ = -1;
  std::int64_t size_bytes_ = 0;
};

}  // namespace sft::data
