// SPDX-License-Identifier: Apache-2.0
#pragma once
// A process that may open only so many files more, for this scope.

#include <fcntl.h>
#include <sys/resource.h>
#include <unistd.h>

namespace sft::test {

/// The lowest descriptors that are free are the ones that may be used.
class OpenFileLimit {
 public:
  explicit OpenFileLimit(int num_files) {
    ::getrlimit(RLIMIT_NOFILE, &former_);
    rlimit limit = former_;
    for (limit.rlim_cur = 0; num_files >= 0; ++limit.rlim_cur) {
      if (::fcntl(static_cast<int>(limit.rlim_cur), F_GETFD) < 0) --num_files;
    }
    --limit.rlim_cur;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
  ~OpenFileLimit() { ::setrlimit(RLIMIT_NOFILE, &former_); }
  OpenFileLimit(const OpenFileLimit&) = delete;
  OpenFileLimit& operator=(const OpenFileLimit&) = delete;

 private:
  rlimit former_{};
};

}  // namespace sft::test
