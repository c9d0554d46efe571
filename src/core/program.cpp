#include "sft/core/program.hpp"

#include <exception>

#include "sft/core/log.hpp"

namespace sft {

std::pair<ExitStatus, std::string> describe_current_exception() {
  try {
    throw;
  } catch (const Error& error) {
    return {error.status(), error.what()};
  } catch (const std::exception& error) {
    return {ExitStatus::failure, error.what()};
  } catch (...) {
    return {ExitStatus::failure, "unknown exception"};
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
    const auto [status, message] = describe_current_exception();
    log_error(message);
    return static_cast<int>(status);
  }
}

}  // namespace sft
