// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which kind of file or folder a path leads to.

#include <string>

namespace sft::io {

/// Kind of a file or folder, by its name and first bytes.
enum class Kind {
  unknown,
  ini,
  yaml,
  config_json,
  deepspeed_json,
  json,
  json_array,
  json_lines,
  csv,
  markup,
  utf16,
  git_lfs,
  parquet,
  arrow,
  compressed,  ///< by gzip or Zstandard
  bzip2,
  xz,
  lz4,
  zip,
  tar,
  numpy,
  pickle,
  sqlite,
  avro,
  orc,
  feather,
  safetensors,
  pytorch,
  gguf,
  hdf5,
  lance,
  megatron,
  mds,
  litdata,
  hub_folder,
  adapter_folder,
  dataset_folder,
  checkpoint_folder,
  output_folder,
  shard_folder,
  folder,
};

/// Looks at the name and the first bytes, and of a folder at the names in it.
[[nodiscard]] Kind kind_of(const std::string& path);

/// By the bytes that formats begin with alone.
[[nodiscard]] Kind kind_of_bytes(const std::string& start);

}  // namespace sft::io
