// SPDX-License-Identifier: Apache-2.0
#pragma once
// Shared libraries that a process loads when it first calls them: NVIDIA's take 150 MiB and a tenth of a second, which
// a process that computes on CPUs neither has to spend nor to have installed.

#include <mutex>
#include <string>
#include <vector>

namespace sft {

/// A shared library that is found when it is first asked for a function, and then stays to the end of the process.
/// Any thread may ask.
class OnDemandLibrary {
 public:
  /// `title`: what people call it. `files`: names and paths that dlopen tries in this order. `remedy`: what a user does
  /// who lacks it.
  OnDemandLibrary(std::string title, std::vector<std::string> files, std::string remedy);

  /// The function of this name and type. Throws an Error of ExitStatus::configuration where the library cannot be
  /// loaded, or is too old to have it.
  template <class Function>
  [[nodiscard]] Function* function(const char* name) {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  [[nodiscard]] void* symbol(const char* name);
  void* open();

  std::string title_;
  std::vector<std::string> files_;
  std::string remedy_;
  std::mutex mutex_;
  void* handle_ = nullptr;
};

}  // namespace sft
