#include "sft/core/error.hpp"

namespace sft {

namespace {

std::string compose(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  std::string message = problem;
  if (!why.empty()) message += " (" + why + ")";
  if (!what_to_do.empty()) message += ": " + what_to_do;
  return message;
}

}  // namespace

Error::Error(ExitStatus status, const std::string& problem, const std::string& why, const std::string& what_to_do)
    : std::runtime_error(compose(problem, why, what_to_do)), status_(status) {}

Error::Error(ExitStatus status, const std::string& message) : std::runtime_error(message), status_(status) {}

void throw_config_error(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  throw Error(ExitStatus::configuration, problem, why, what_to_do);
}

void throw_data_error(const std::string& problem, const std::string& why, const std::string& what_to_do) {
  throw Error(ExitStatus::data, problem, why, what_to_do);
}

void ensure(bool condition, const char* what) {
  if (!condition) throw std::logic_error(std::string("internal error: ") + what);
}

}  // namespace sft
