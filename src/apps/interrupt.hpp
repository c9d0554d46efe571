// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ctrl-C as a wish to stop what is under way, not to end the program.

#include <csignal>

namespace sft::apps {

/// As long as it lives, the first SIGINT is remembered; a second one ends the program. One at a time.
class Interrupt {
 public:
  Interrupt();
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;

  [[nodiscard]] bool is_asked() const;

 private:
  struct sigaction former_ {};
};

}  // namespace sft::apps
