// SPDX-License-Identifier: Apache-2.0
#pragma once
// Another program that this one starts and waits for.

#include <string>
#include <vector>

namespace sft::apps {

/// Runs the words, the first of which is looked for on PATH, and waits; the exit status, 128 and more for a signal.
/// `log`: a file that gets all it prints behind what it holds, and no input for it then; empty: it has the input and
/// output of this process. Signals that ask this process to stop are passed on to it meanwhile. A configuration Error
/// with `what_to_do` where it cannot be started. From one thread at a time.
[[nodiscard]] int run_and_wait(const std::vector<std::string>& words, const std::string& log,
                               const std::string& what_to_do);

}  // namespace sft::apps
