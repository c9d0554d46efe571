// SPDX-License-Identifier: Apache-2.0
// Chat templates, records and packed rows.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "data/record_reader.hpp"
#include "readers.hpp"
#include "sft/core/ensure.hpp"
#include "sft/data/chat_templates.hpp"
#include "sft/data/example.hpp"
#include "sft/data/packed_dataset.hpp"

namespace sft::fuzz {

namespace {

/// Renders a conversation that has all that templates look at.
void read_template(const std::string& bytes) {
  static const nlohmann::ordered_json context = nlohmann::ordered_json::parse(R"({
    "messages": [
      {"role": "system", "content": "Be brief."},
      {"role": "user", "content": "What? \u00e9"},
      {"role": "assistant", "content": "A call", "reasoning_content": "Hm.",
       "tool_calls": [{"type": "function", "function": {"name": "f", "arguments": {"x": [1, 2.5, null]}}}]},
      {"role": "tool", "content": "5", "name": "f"},
      {"role": "assistant", "content": "Five."}
    ],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "properties": {}}}}],
    "add_generation_prompt": true, "bos_token": "<s>", "eos_token": "</s>"
  })");
  const data::ChatTemplate chat_template(bytes);
  jinja::RenderOptions options;
  options.limits.max_steps = 100'000;
  options.limits.max_memory_bytes = std::size_t{16} << 20;
  options.now = {};
  const jinja::Rendered rendered = chat_template.render(context, options);
  std::size_t end = 0;
  for (const jinja::Fragment& fragment : rendered.fragments) {
    SFT_ENSURE(fragment.bytes.begin == end && fragment.bytes.end > end, "the pieces of a rendering cover its text");
    end = fragment.bytes.end;
  }
  SFT_ENSURE(end == rendered.text.size(), "the pieces of a rendering cover its text");
  for (const jinja::ByteSpan& span : chat_template.assistant_spans(context, rendered, options)) {
    SFT_ENSURE(span.begin < span.end && span.end <= end, "the assistant's spans lie in the text");
  }
}

/// The records of a file of this name. The first bad one ends the reading, as in sft-prepare.
void read_records_as(const std::string& name, const std::string& bytes) {
  static const data::ExampleMaker maker({}, {});
  try {
    data::RecordReader reader(put_file("records", name, bytes) + "/" + name, [](std::int64_t) {});
    data::RecordCensus census;
    for (data::RawRecord record; reader.next(record);) (void)maker.make(record.text, census);
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
  const data::PackedDataset dataset({put_file("shard", "train-00000.h5", bytes) + "/train-00000.h5"},
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
