// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/shard_file.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>

#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/hash.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/row_hash.hpp"

namespace sft::rows {

namespace {

constexpr const char* other_file = "it is not the file that another rank opened by this name";

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

std::string place_of(std::int64_t row, std::size_t position) {
  return fmt::format(" at row {}, position {}", row, position);
}

/// Documents whose first token has a weight.
std::int64_t count_weighted_firsts(const Row& row) {
  std::int64_t count = 0;
  std::size_t first = 0;
  for (const std::int32_t length : row.document_lengths) {
    if (row.loss_weight[first] > 0.0f) ++count;
    first += length;
  }
  return count;
}

}  // namespace

void ShardFacts::pack(BytePacker& packer) const {
  packer.add_text(path);
  packer.add(num_bytes);
  for (const std::int64_t value : {traits.max_length, traits.vocab_size, traits.pad_token_id, traits.eos_token_id}) {
    packer.add(value);
  }
  packer.add_text(traits.tokenizer);
  packer.add_text(traits.tokenizer_fingerprint);
  packer.add_text(fingerprint);
  packer.add_text(seal);
  for (const std::int64_t value : {num_rows, num_documents, num_tokens, num_target_tokens}) packer.add(value);
  packer.add(has_row_table);
}

ShardFacts ShardFacts::unpack(ByteUnpacker& unpacker) {
  ShardFacts facts;
  facts.path = unpacker.get_text();
  facts.num_bytes = unpacker.get<std::uintmax_t>();
  ShardTraits& traits = facts.traits;
  for (std::int64_t* value : {&traits.max_length, &traits.vocab_size, &traits.pad_token_id, &traits.eos_token_id}) {
    *value = unpacker.get<std::int64_t>();
  }
  traits.tokenizer = unpacker.get_text();
  traits.tokenizer_fingerprint = unpacker.get_text();
  facts.fingerprint = unpacker.get_text();
  facts.seal = unpacker.get_text();
  for (std::int64_t* value : {&facts.num_rows, &facts.num_documents, &facts.num_tokens, &facts.num_target_tokens}) {
    *value = unpacker.get<std::int64_t>();
  }
  facts.has_row_table = unpacker.get<bool>();
  return facts;
}

ShardFile::ShardFile(const std::string& path) {
  facts_.path = path;
  std::error_code ignored;  // opening it tells of a file that is not there
  facts_.num_bytes = std::filesystem::file_size(path, ignored);
  written_ = std::filesystem::last_write_time(path, ignored);
  file_ = io::Hdf5File::open(path);
  facts_.seal = file_->seal_line();
  read_attributes();
  check_shapes();
  check_table_ends();
  if (!file().is_sealed()) {  // a sealed file is as it was written
    check_whole_table();
    check_row_table();
  }
  release();
}

const io::Hdf5File& ShardFile::file() const {
  if (file_) return *file_;
  std::error_code ignored;
  const auto written = std::filesystem::last_write_time(path(), ignored);
  const bool is_changed =
      std::filesystem::file_size(path(), ignored) != facts_.num_bytes || (written_ && *written_ != written);
  const char* const why = written_ || !is_sealed() ? "it has changed since it was opened first" : other_file;
  if (!is_sealed() && is_changed) refuse(why);
  file_ = io::Hdf5File::open(path());
  if (file_->seal_line() != facts_.seal) {  // programs that write nothing may change size and time of a sealed file
    file_.reset();
    refuse(why);
  }
  if (!written_) check_same();
  written_ = written;
  return *file_;
}

void ShardFile::check_same() const {
  const auto is_number = [this](const char* name, std::int64_t value) {
    return file_->has_attribute(name) && file_->read_int(name) == value;
  };
  const std::string fingerprint = file_->has_attribute("fingerprint") ? file_->read_string("fingerprint") : "";
  if (is_number("max_length", facts_.traits.max_length) && is_number("num_rows", facts_.num_rows) &&
      is_number("num_documents", facts_.num_documents) && is_number("num_tokens", facts_.num_tokens) &&
      fingerprint == facts_.fingerprint) {
    return;
  }
  file_.reset();
  refuse(other_file);
}

io::Rectangle ShardFile::whole_row(std::int64_t index) const {
  return {.row_begin = index, .num_rows = 1, .column_begin = 0, .num_columns = facts_.traits.max_length};
}

void ShardFile::refuse(const std::string& why) const {
  throw_data_error(fmt::format("cannot use '{}'", path()), why, "write it again with sft-prepare");
}

void ShardFile::read_attributes() {
  if (!file().has_attribute("format")) refuse("it has no attribute 'format', so it is not packed data");
  const std::string format = file().read_string("format");
  if (format != "sft-packed") refuse(fmt::format("its format is '{}', not 'sft-packed'", format));
  for (const char* name : {"format_version", "max_length", "vocab_size", "pad_token_id", "eos_token_id", "tokenizer",
                           "num_rows", "num_documents", "num_tokens", "num_target_tokens"}) {
    if (!file().has_attribute(name)) refuse(fmt::format("it has no attribute '{}'", name));
  }
  const std::int64_t format_version = file().read_int("format_version");
  if (format_version != 1) refuse(fmt::format("its format_version is {}, this program reads 1", format_version));
  facts_.traits = {.max_length = file().read_int("max_length"),
                   .vocab_size = file().read_int("vocab_size"),
                   .pad_token_id = file().read_int("pad_token_id"),
                   .eos_token_id = file().read_int("eos_token_id"),
                   .tokenizer = file().read_string("tokenizer"),
                   .tokenizer_fingerprint = file().has_attribute("tokenizer_fingerprint")
                                                ? file().read_string("tokenizer_fingerprint")
                                                : ""};
  facts_.num_rows = file().read_int("num_rows");
  facts_.num_documents = file().read_int("num_documents");
  facts_.num_tokens = file().read_int("num_tokens");
  facts_.num_target_tokens = file().read_int("num_target_tokens");
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (facts_.traits.max_length < 1 || facts_.traits.max_length > limit) {
    refuse(fmt::format("its max_length is {}, not from 1 to {}", facts_.traits.max_length, limit));
  }
  if (facts_.traits.vocab_size < 1 || facts_.traits.vocab_size > limit) {
    refuse(fmt::format("its vocab_size is {}", facts_.traits.vocab_size));
  }
  if (facts_.num_rows < 1) refuse("it holds no rows");
  if (facts_.num_tokens < 0 || facts_.num_tokens / facts_.traits.max_length > facts_.num_rows) {
    refuse(fmt::format("its num_tokens is {}, which its rows have no room for", facts_.num_tokens));
  }
  if (facts_.num_target_tokens < 0 || facts_.num_target_tokens > facts_.num_tokens) {
    refuse(fmt::format("its num_target_tokens is {} of {} tokens", facts_.num_target_tokens, facts_.num_tokens));
  }
  facts_.has_row_table = file().has_dataset(tokens_column);
  if (file().has_attribute("fingerprint")) facts_.fingerprint = file().read_string("fingerprint");
  read_number();
}

Markup ShardFile::markup() const {
  const auto text = [this](const char* name) {
    return file().has_attribute(name) ? file().read_string(name) : std::string();
  };
  return {.eos_token = text("eos_token"), .pad_token = text("pad_token"), .chat_template = text("chat_template")};
}

void ShardFile::read_number() {
  if (!file().has_attribute("shard_set")) return;
  facts_.number = {.shard_set = file().read_string("shard_set"),
                   .index = file().read_int("shard_index"),
                   .num_shards = file().read_int("num_shards")};
  if (facts_.number->index < 0 || facts_.number->index >= facts_.number->num_shards) {
    refuse(fmt::format("its shard_index is {} of num_shards = {}", facts_.number->index, facts_.number->num_shards));
  }
}

void ShardFile::check_shapes() const {
  const auto check = [this](const std::string& name, const std::vector<std::int64_t>& expected) {
    if (!file().has_dataset(name)) refuse("it has no dataset " + name);
    const std::vector<std::int64_t> shape = file().dataset_shape(name);
    if (shape != expected)
      refuse(fmt::format("{} has shape {} where {} belongs", name, to_text(shape), to_text(expected)));
    file().check_filters(name);
  };
  check("/tokens", {facts_.num_rows, facts_.traits.max_length});
  check("/loss_weight", {facts_.num_rows, facts_.traits.max_length});
  check("/document_lengths", {facts_.num_documents});
  check("/document_offsets", {facts_.num_rows + 1});
  if (!facts_.has_row_table) return;
  for (const char* name : {tokens_column, target_tokens_column, weight_sum_column, length_squares_column}) {
    check(name, {facts_.num_rows});
  }
}

std::vector<std::int64_t> ShardFile::read_offsets(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> offsets(count + 1);
  file().read("/document_offsets", io::Number::int64, {.row_begin = first, .num_rows = count + 1}, offsets.data());
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > facts_.num_documents) {
      refuse(fmt::format("document_offsets fall or leave the table at row {}", first + static_cast<std::int64_t>(i)));
    }
  }
  return offsets;
}

std::vector<std::int32_t> ShardFile::read_lengths(std::int64_t begin, std::int64_t end) const {
  std::vector<std::int32_t> lengths(end - begin);
  if (lengths.empty()) return lengths;
  file().read("/document_lengths", io::Number::int32, {.row_begin = begin, .num_rows = end - begin}, lengths.data());
  return lengths;
}

std::int64_t ShardFile::count_tokens(std::int64_t row, std::int64_t first_document,
                                     std::span<const std::int32_t> lengths) const {
  std::int64_t num_tokens = 0;
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    if (lengths[i] < 1) {
      refuse(fmt::format("document {} has length {}", first_document + static_cast<std::int64_t>(i), lengths[i]));
    }
    num_tokens += lengths[i];
  }
  if (num_tokens > facts_.traits.max_length) {
    refuse(fmt::format("the documents of row {} have {} tokens, more than max_length = {}", row, num_tokens,
                       facts_.traits.max_length));
  }
  return num_tokens;
}

void ShardFile::check_table_ends() const {
  std::int64_t first = 0, last = 0;
  file().read("/document_offsets", io::Number::int64, {.row_begin = 0, .num_rows = 1}, &first);
  file().read("/document_offsets", io::Number::int64, {.row_begin = facts_.num_rows, .num_rows = 1}, &last);
  if (first != 0 || last != facts_.num_documents) {
    refuse(fmt::format("document_offsets run from {} to {} where 0 to {} belongs", first, last, facts_.num_documents));
  }
}

template <class Visit>
void ShardFile::for_each_row_length(const Visit& visit) const {
  constexpr std::int64_t rows_at_once = 4096;
  for (std::int64_t first = 0; first < facts_.num_rows; first += rows_at_once) {
    const std::vector<std::int64_t> offsets = read_offsets(first, std::min(rows_at_once, facts_.num_rows - first));
    const std::vector<std::int32_t> lengths = read_lengths(offsets.front(), offsets.back());
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      const std::size_t begin = offsets[i] - offsets.front();
      const std::size_t count = offsets[i + 1] - offsets[i];
      visit(count_tokens(first + static_cast<std::int64_t>(i), offsets[i], std::span(lengths).subspan(begin, count)));
    }
  }
}

void ShardFile::check_whole_table() const {
  std::int64_t sum_of_lengths = 0;
  for_each_row_length([&](std::int64_t length) { sum_of_lengths += length; });
  if (sum_of_lengths != facts_.num_tokens) {
    refuse(fmt::format("its documents have {} tokens, its attribute num_tokens says {}", sum_of_lengths,
                       facts_.num_tokens));
  }
}

void ShardFile::check_row_table() const {
  if (!facts_.has_row_table) return;
  std::vector<BatchCounts> counts;
  append_row_counts(counts);
  std::int64_t row = 0;
  for_each_row_length([&](std::int64_t length) {
    const std::int64_t stored = counts[row].num_tokens;
    if (stored != length) refuse(fmt::format("row {} has {} tokens, {} says {}", row, length, tokens_column, stored));
    ++row;
  });
}

void ShardFile::append_row_lengths(std::vector<std::int32_t>& lengths) const {
  if (facts_.has_row_table) {
    const std::size_t before = lengths.size();
    lengths.resize(before + facts_.num_rows);
    const io::Rectangle all{.row_begin = 0, .num_rows = facts_.num_rows};
    file().read(tokens_column, io::Number::int32, all, lengths.data() + before);
    for (auto length = lengths.begin() + static_cast<std::ptrdiff_t>(before); length != lengths.end(); ++length) {
      if (*length < 0 || *length > facts_.traits.max_length) refuse(fmt::format("{} holds {}", tokens_column, *length));
    }
  } else {
    for_each_row_length([&](std::int64_t length) { lengths.push_back(static_cast<std::int32_t>(length)); });
  }
  release();
}

void ShardFile::append_row_counts(std::vector<BatchCounts>& counts) const {
  SFT_ENSURE(facts_.has_row_table, "only a shard that holds the counts of its rows is asked for them");
  constexpr std::int64_t rows_at_once = std::int64_t{1} << 16;
  std::vector<std::int32_t> tokens, target_tokens;
  std::vector<double> weight_sums, length_squares;
  for (std::int64_t first = 0; first < facts_.num_rows; first += rows_at_once) {
    const io::Rectangle where{.row_begin = first, .num_rows = std::min(rows_at_once, facts_.num_rows - first)};
    const auto read = [&](const char* column, io::Number number, auto& values) {
      values.resize(where.num_rows);
      file().read(column, number, where, values.data());
    };
    read(tokens_column, io::Number::int32, tokens);
    read(target_tokens_column, io::Number::int32, target_tokens);
    read(weight_sum_column, io::Number::float64, weight_sums);
    read(length_squares_column, io::Number::float64, length_squares);
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      counts.push_back({tokens[i], target_tokens[i], weight_sums[i], length_squares[i]});
    }
  }
  release();
}

std::string ShardFile::fingerprint() const {
  if (!facts_.fingerprint.empty()) return facts_.fingerprint;
  const std::int64_t num_samples = std::min<std::int64_t>(facts_.num_rows, 8);
  io::ContentHash hash;
  for (const std::int64_t value : {facts_.traits.max_length, facts_.traits.vocab_size, facts_.num_rows,
                                   facts_.num_documents, facts_.num_tokens, facts_.num_target_tokens}) {
    hash.add(value);
  }
  RowHash rows;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const Row row = read_row(i * facts_.num_rows / num_samples);
    rows.add(row.document_lengths, row.tokens, row.loss_weight);
  }
  release();
  hash.add(rows.text());
  return "sampled-" + hash.text();
}

void ShardFile::verify() const {
  RowHash hash;
  BatchCounts counts;
  std::vector<BatchCounts> stored_counts;
  if (facts_.has_row_table) append_row_counts(stored_counts);
  std::int64_t num_weighted_firsts = 0;
  std::vector<Row> rows(1);
  for (std::int64_t index = 0; index < facts_.num_rows; ++index) {
    rows.front() = read_row(index);
    hash.add(rows.front().document_lengths, rows.front().tokens, rows.front().loss_weight);
    const BatchCounts of_row = count_rows(rows);
    if (!stored_counts.empty() && stored_counts[index] != of_row) {
      refuse(fmt::format("the counts of row {} are not those that its table of rows says", index));
    }
    counts.num_tokens += of_row.num_tokens;
    counts.num_target_tokens += of_row.num_target_tokens;
    num_weighted_firsts += count_weighted_firsts(rows.front());
  }
  release();
  const auto check = [this](const char* name, std::int64_t counted, std::int64_t stored) {
    if (counted == stored) return;
    refuse(fmt::format("its rows hold a {} of {}, its attribute says {}", name, counted, stored));
  };
  check("num_tokens", counts.num_tokens, facts_.num_tokens);
  // Other tools may count the first token of a document, which nothing predicts, where it has a weight.
  const bool counts_firsts = facts_.num_target_tokens == counts.num_target_tokens + num_weighted_firsts;
  if (!counts_firsts) check("num_target_tokens", counts.num_target_tokens, facts_.num_target_tokens);
  if (!facts_.fingerprint.empty() && hash.text() != facts_.fingerprint) {
    refuse(
        fmt::format("the hash of its rows is {}, its attribute fingerprint says {}", hash.text(), facts_.fingerprint));
  }
}

Row ShardFile::read_labels(std::int64_t index) const {
  SFT_ENSURE(index >= 0, "a row lies in its shard");
  SFT_ENSURE(index < facts_.num_rows, "a row lies in its shard");
  const std::vector<std::int64_t> offsets = read_offsets(index, 1);
  if (offsets[1] - offsets[0] > facts_.traits.max_length) {
    refuse(fmt::format("row {} has {} documents, more than max_length = {} tokens can be", index,
                       offsets[1] - offsets[0], facts_.traits.max_length));
  }
  Row row;
  row.loss_weight.resize(facts_.traits.max_length);
  row.document_lengths = read_lengths(offsets[0], offsets[1]);
  const std::size_t num_tokens = count_tokens(index, offsets[0], row.document_lengths);
  file().read("/loss_weight", io::Number::float32, whole_row(index), row.loss_weight.data());
  for (std::size_t i = 0; i < num_tokens; ++i) {
    if (std::isfinite(row.loss_weight[i]) && row.loss_weight[i] >= 0.0f) continue;
    refuse(fmt::format("loss_weight {:f}{} is not a finite number >= 0", row.loss_weight[i], place_of(index, i)));
  }
  return row;
}

Row ShardFile::read_row(std::int64_t index) const {
  Row row = read_labels(index);
  row.tokens.resize(row.loss_weight.size());
  file().read("/tokens", io::Number::int32, whole_row(index), row.tokens.data());
  const auto num_tokens = std::accumulate(row.document_lengths.begin(), row.document_lengths.end(), std::size_t{0});
  for (std::size_t i = 0; i < num_tokens; ++i) {
    if (row.tokens[i] >= 0 && row.tokens[i] < facts_.traits.vocab_size) continue;
    refuse(fmt::format("token {}{} lies outside the vocabulary of {}", row.tokens[i], place_of(index, i),
                       facts_.traits.vocab_size));
  }
  return row;
}

}  // namespace sft::rows
