// SPDX-License-Identifier: Apache-2.0
#pragma once
// One action in a process of its own, which may crash or hang without harm.

#include <cstdint>
#include <functional>
#include <string>

namespace sft::test {

/// How the action ended.
struct Outcome {
  enum class Kind : std::uint8_t {
    done,     ///< it returned `text`
    refused,  ///< it threw an Error of status configuration or data that says `text`
    failed,   ///< it threw anything else, of which `text` speaks
    crashed,  ///< by the signal that `text` names
    hung,     ///< it took more than a limit of time that is far beyond its need
  };
  Kind kind = Kind::done;
  std::string text;
};

/// Runs `action` in a forked child with limits of processor time, wall-clock time and memory. The caller has no other
/// threads and no files open that the action would change.
[[nodiscard]] Outcome run_in_child(const std::function<std::string()>& action);

}  // namespace sft::test
