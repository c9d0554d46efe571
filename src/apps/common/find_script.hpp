// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where this program and the scripts that go with it lie.

#include <filesystem>
#include <string>

namespace sft::apps {

/// The folder of this program.
[[nodiscard]] std::filesystem::path program_folder();

/// The script of this name, such as postprocess/plot_loss.py, of the source tree that this program was built in, or
/// installed with it in share/sft; empty: there is none (any more).
[[nodiscard]] std::string find_script(const std::string& name);

}  // namespace sft::apps
