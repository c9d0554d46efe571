#include "data/unnamed_file.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::data {

UnnamedFile::UnnamedFile(const std::string& folder) : folder_(folder) {
  std::string path = folder + "/.sft-prepare-XXXXXX";
  descriptor_ = ::mkostemp(path.data(), O_CLOEXEC);
  if (descriptor_ < 0) {
    throw_data_error("cannot make a temporary file in '" + folder + "'", std::strerror(errno),
                     "choose an output folder on a disk that you may write");
  }
  ::unlink(path.c_str());
}

UnnamedFile::~UnnamedFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

UnnamedFile::UnnamedFile(UnnamedFile&& other) noexcept
    : folder_(std::move(other.folder_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_bytes_(other.size_bytes_) {}

void UnnamedFile::append(std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t count = ::pwrite(descriptor_, bytes.data(), bytes.size(), size_bytes_);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) {
      throw_data_error("cannot write a temporary file in '" + folder_ + "'", std::strerror(errno),
                       "free space there: tokenized text takes 4 bytes a token");
    }
    size_bytes_ += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

void UnnamedFile::read(std::int64_t begin_byte, std::span<std::byte> bytes) const {
  ensure(begin_byte >= 0 && begin_byte + static_cast<std::int64_t>(bytes.size()) <= size_bytes_,
         "what is read was appended");
  while (!bytes.empty()) {
    const ssize_t count = ::pread(descriptor_, bytes.data(), bytes.size(), begin_byte);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) {
      throw_data_error("cannot read a temporary file in '" + folder_ + "'",
                       count < 0 ? std::strerror(errno) : "it became shorter", "check the disk");
    }
    begin_byte += count;
    bytes = bytes.subspan(static_cast<std::size_t>(count));
  }
}

}  // namespace sft::data
