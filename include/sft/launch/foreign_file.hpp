// SPDX-License-Identifier: Apache-2.0
#pragma once
// The files in which users of Accelerate, DeepSpeed, TRL, Axolotl and LLaMA-Factory say what a run is.

#include <string>
#include <vector>

#include "sft/config/parse.hpp"

namespace sft::launch {

/// What such a file says, in names of TRL, transformers and Accelerate, nested blocks laid flat.
struct ForeignFile {
  std::vector<config::PlacedOption> settings;  ///< without those that have no effect here
  std::vector<std::string> refused;  ///< finished messages: what of it cannot be obeyed, by this reader's own judgement
  std::vector<std::string> refused_data;  ///< the same of its data sets, which others may replace
  std::vector<std::string> notes;         ///< one line each: what is taken, but otherwise than its writer may think
};

/// Whether `path` ends as the files that read_foreign_file() reads: .yaml, .yml or .json.
[[nodiscard]] bool is_foreign_file(const std::string& path);

/// Reads a file of `accelerate launch` (--config_file), of DeepSpeed (JSON), of `trl sft` (--config), of Axolotl or of
/// LLaMA-Factory; which of them it is follows from its keys. A DeepSpeed file that it names is read as well, beside it
/// or from the working folder. Throws a configuration Error for what is no such file, a data Error for one that cannot
/// be read.
[[nodiscard]] ForeignFile read_foreign_file(const std::string& path);

/// Options of a command line, with what stands in blocks in their place: in JSON such as --parallelism_config
/// '{"cp_size": 2}', or in a file such as --deepspeed ds.json. Throws for a file as read_foreign_file().
[[nodiscard]] ForeignFile lay_flat(const std::vector<config::PlacedOption>& options);

/// The file of a profile of Accelerate: `name` itself where it is a path, else NAME.yaml of `folder`, which has those
/// of this program. Throws a configuration Error that lists them.
[[nodiscard]] std::string find_profile(const std::string& name, const std::string& folder);

}  // namespace sft::launch
