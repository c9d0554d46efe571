// SPDX-License-Identifier: Apache-2.0
#pragma once
// A disk that is full after so many bytes of a file, for this process and this scope.

#include <sys/resource.h>

#include <csignal>

namespace sft::test {

class FileSizeLimit {
 public:
  explicit FileSizeLimit(rlim_t max_bytes) {
    former_handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &former_);
    const rlimit limit = {max_bytes, former_.rlim_max};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  ~FileSizeLimit() {
    ::setrlimit(RLIMIT_FSIZE, &former_);
    std::signal(SIGXFSZ, former_handler_);
  }
  FileSizeLimit(const FileSizeLimit&) = delete;
  FileSizeLimit& operator=(const FileSizeLimit&) = delete;

 private:
  rlimit former_{};
  void (*former_handler_)(int) = nullptr;
};

}  // namespace sft::test
