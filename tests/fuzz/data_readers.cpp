// SPDX-License-Identifier: Apache-2.0
// Chat templates, records and packed rows.
#include <algorithm>
#include <stdexcept>

#include "prepare/record_reader.hpp"
#include "readers.hpp"
#include "sft/prepare/example.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/rendered_template.hpp"

namespace sft::fuzz {

namespace {

void read_template(const std::string& bytes) {
  jinja::Limits limits;
  limits.max_steps = 100'000;
  limits.max_memory_bytes = std::size_t{16} << 20;
  (void)test::render_conversation(bytes, limits);
}

/// The records of a file of this name. The first bad one ends the reading, as in sft-prepare.
void read_records_as(const std::string& name, const std::string& bytes) {
  static const prepare::ExampleMaker maker({}, {});
  try {
    prepare::RecordReader reader(put_file("records", name, bytes) + "/" + name, [](std::int64_t) {});
    prepare::RecordCensus census;
    for (prepare::RawRecord record; reader.next(record);) (void)maker.make(record.text, census);
  } catch (const std::invalid_argument&) {  // why a record is none
  }
}
void read_records(const std::string& bytes) { read_records_as("records.jsonl", bytes); }
void read_packed_records(const std::string& bytes) {
  read_records_as("records.jsonl.gz", bytes);
  read_records_as("records.jsonl.zst", bytes);
}

/// A shard of packed rows.
void read_shard(const std::string& bytes) {
  const rows::PackedDataset dataset({put_file("shard", "train-00000.h5", bytes) + "/train-00000.h5"},
                                    {.lengths = true, .counts = true});
  (void)dataset.fingerprint();
  for (std::int64_t index = 0; index < std::min<std::int64_t>(dataset.num_rows(), 100); ++index) {
    (void)dataset.read_row(index);
  }
}

}  // namespace

std::vector<Reader> data_readers() {
  return {{"template", read_template},
          {"records", read_records},
          {"packed_records", read_packed_records},
          {"shard", read_shard}};
}

}  // namespace sft::fuzz
