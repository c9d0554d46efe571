// SPDX-License-Identifier: Apache-2.0
#include "write_map.hpp"

#include "folder.hpp"
#include "header.hpp"
#include "index_tensors.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/seal.hpp"

namespace sft::checkpoint {

std::string write_map(const std::string& folder, const config::Config& config, const std::string& tokenizer,
                      const Position& position, const FileMap& map) {
  const std::string path = index_path(folder);
  io::Hdf5File index = io::Hdf5File::create(path, io::seal_bytes);
  std::string date = write_attributes(index, config, tokenizer, position, map);
  index.close();
  io::seal(path);
  io::sync_path(path);
  if (has_few_pieces(map)) write_tensor_index(folder, map);
  return date;
}

}  // namespace sft::checkpoint
