// SPDX-License-Identifier: Apache-2.0
#include "sft/core/on_demand_library.hpp"

#include <dlfcn.h>

#include <fmt/core.h>
#include <utility>

#include "sft/core/error.hpp"

namespace sft {

OnDemandLibrary::OnDemandLibrary(std::string title, std::vector<std::string> files, std::string remedy)
    : title_(std::move(title)), files_(std::move(files)), remedy_(std::move(remedy)) {}

void* OnDemandLibrary::open() {
  std::string first_reason;
  for (const std::string& file : files_) {
    if (void* handle = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL); handle != nullptr) return handle;
    const char* reason = ::dlerror();
    if (first_reason.empty()) first_reason = reason != nullptr ? reason : "it cannot be loaded";
  }
  throw_config_error(fmt::format("{} cannot be used", title_), first_reason, remedy_);
}

void* OnDemandLibrary::symbol(const char* name) {
  const std::lock_guard lock(mutex_);
  if (handle_ == nullptr) handle_ = open();
  if (void* found = ::dlsym(handle_, name); found != nullptr) return found;
  throw_config_error(fmt::format("{} cannot be used", title_), fmt::format("the one that was found has no {}", name),
                     "use a newer one");
}

}  // namespace sft
