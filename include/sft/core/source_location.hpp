// SPDX-License-Identifier: Apache-2.0
#pragma once
// A place in the sources: std::source_location, or the like of it for clang up to 15, which cannot compile that.

#include <source_location>

namespace sft {

#ifdef __cpp_lib_source_location

using SourceLocation = std::source_location;

#else

class SourceLocation {
 public:
  /// The place of the call, also where this stands as a default argument: that of the function's caller.
  [[nodiscard]] static constexpr SourceLocation current(const char* file = __builtin_FILE(),
                                                        const char* function = __builtin_FUNCTION(),
                                                        unsigned line = __builtin_LINE()) {
    return {file, function, line};
  }

  [[nodiscard]] constexpr const char* file_name() const { return file_; }
  [[nodiscard]] constexpr const char* function_name() const { return function_; }
  [[nodiscard]] constexpr unsigned line() const { return line_; }

 private:
  constexpr SourceLocation(const char* file, const char* function, unsigned line)
      : file_(file), function_(function), line_(line) {}

  const char* file_;
  const char* function_;
  unsigned line_;
};

#endif

}  // namespace sft
