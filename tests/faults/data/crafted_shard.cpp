// SPDX-License-Identifier: Apache-2.0
#include "crafted_shard.hpp"

#include "sft/io/hdf5.hpp"

namespace sft::test {

void CraftedShard::write(const std::string& path) const {
  io::Hdf5File file = io::Hdf5File::create(path);
  for (const auto& [name, value] : texts) file.write_string(name, value);
  for (const auto& [name, value] : integers) file.write_int(name, value);
  const auto write_dataset = [&](const std::string& name, io::Number type, const std::vector<std::int64_t>& dims,
                                 const void* values) {
    if (name == without_dataset) return;
    file.create_dataset(name, type, dims);
    file.write(name, type, {.num_rows = dims[0], .num_columns = dims.size() == 2 ? dims[1] : 1}, values);
  };
  write_dataset("/tokens", io::Number::int32, shape, tokens.data());
  write_dataset("/loss_weight", io::Number::float32, shape, loss_weight.data());
  write_dataset("/document_lengths", io::Number::int32, {std::ssize(document_lengths)}, document_lengths.data());
  write_dataset("/document_offsets", io::Number::int64, {std::ssize(document_offsets)}, document_offsets.data());
  file.close();
}

}  // namespace sft::test
