// SPDX-License-Identifier: Apache-2.0
#include "support/packed_file.hpp"

#include <algorithm>

#include "sft/io/hdf5.hpp"
#include "sft/rows/batch.hpp"

namespace sft::test {
namespace {

template <class T>
void write_vector(io::Hdf5File& file, const std::string& name, io::Number type, const std::vector<T>& values) {
  file.create_dataset(name, type, {std::ssize(values)});
  file.write(name, type, {.num_rows = std::ssize(values)}, values.data());
}

}  // namespace

void write_packed_file(const std::string& path, const std::vector<rows::Row>& rows, std::int64_t vocab_size) {
  const auto num_rows = std::ssize(rows), max_length = std::ssize(rows.front().tokens);
  const rows::BatchCounts counts = rows::count_rows(rows);
  io::Hdf5File file = io::Hdf5File::create(path);
  file.create_dataset("/tokens", io::Number::int32, {num_rows, max_length});
  file.create_dataset("/loss_weight", io::Number::float32, {num_rows, max_length});
  std::vector<std::int32_t> lengths;
  std::vector<std::int64_t> offsets{0};
  for (std::int64_t index = 0; index < num_rows; ++index) {
    const io::Rectangle where{.row_begin = index, .num_rows = 1, .num_columns = max_length};
    file.write("/tokens", io::Number::int32, where, rows[index].tokens.data());
    file.write("/loss_weight", io::Number::float32, where, rows[index].loss_weight.data());
    const std::vector<std::int32_t>& documents = rows[index].document_lengths;
    lengths.insert(lengths.end(), documents.begin(), documents.end());
    offsets.push_back(std::ssize(lengths));
  }
  write_vector(file, "/document_lengths", io::Number::int32, lengths);
  write_vector(file, "/document_offsets", io::Number::int64, offsets);
  file.write_string("format", "sft-packed");
  file.write_int("format_version", 1);
  file.write_int("max_length", max_length);
  file.write_int("vocab_size", vocab_size);
  file.write_int("pad_token_id", 0);
  file.write_int("eos_token_id", 0);
  file.write_string("tokenizer", "none");
  file.write_int("num_rows", num_rows);
  file.write_int("num_documents", std::ssize(lengths));
  file.write_int("num_tokens", counts.num_tokens);
  file.write_int("num_target_tokens", counts.num_target_tokens);
  file.write_string("packing_strategy", "bfd");
  file.write_string("source", "test");
  file.close();
}

}  // namespace sft::test
