// SPDX-License-Identifier: Apache-2.0
#pragma once
// sft-inspect status: how a run does, from what it leaves in its output folder.

#include <string>

namespace sft::apps {

/// Prints whether the run is alive, what it is doing, how far it is, how fast, what it saved last and what its time
/// went to. Reads alone, and takes no lock. A data Error where there is no such folder.
void print_status(const std::string& output_dir, bool json);

}  // namespace sft::apps
