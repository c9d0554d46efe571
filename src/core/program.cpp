// SPDX-License-Identifier: Apache-2.0
#include "sft/core/program.hpp"

#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>

#include "sft/core/log.hpp"
#include "sft/core/version.hpp"

namespace sft {

namespace {

/// The Error that a bug in this program becomes.
Error bug(std::string what) {
  constexpr std::string_view prefix = "internal error: ";
  if (!what.starts_with(prefix)) what.insert(0, prefix);
  return {ExitStatus::failure, what, std::string("a bug in sft ") + version() + ", not in your input",
          "please report it with the command line"};
}

}  // namespace

Error current_error() {
  try {
    throw;
  } catch (const Error& error) {
    return error;
  } catch (const std::filesystem::filesystem_error& error) {
    return {ExitStatus::data, "cannot use " + error.path1().string(), error.code().message(),
            "check the path and your permissions along it"};
  } catch (const std::bad_alloc&) {
    return {ExitStatus::failure, "out of memory", "the system gave no more", "use a smaller batch or more ranks"};
  } catch (const std::exception& error) {
    return bug(error.what());
  } catch (...) {
    return bug("an exception of unknown type");
  }
}

int status_with_output(int status) {
  if (status != static_cast<int>(ExitStatus::done) || !has_lost_output()) return status;
  log_error("standard output was cut (it cannot be written): free space, or write to another place");
  return static_cast<int>(ExitStatus::failure);
}

int run_alone(const std::function<int()>& body) {
  try {
    return status_with_output(body());
  } catch (...) {
    const Error error = current_error();
    log_error(error.what());
    return static_cast<int>(error.status());
  }
}

}  // namespace sft
