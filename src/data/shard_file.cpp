// SPDX-License-Identifier: Apache-2.0
#include "data/shard_file.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <numeric>
#include <system_error>

#include "data/row_hash.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/data/batch.hpp"
#include "sft/io/hash.hpp"

namespace sft::data {

namespace {

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

/// What a file that stays as it is has the same each time; nothing of a file that is not there, which opening it tells.
FileStamp read_stamp(const std::string& path) {
  std::error_code ignored;
  return {std::filesystem::file_size(path, ignored), std::filesystem::last_write_time(path, ignored)};
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
    first += static_cast<std::size_t>(length);
  }
  return count;
}

}  // namespace

ShardFile::ShardFile(const std::string& path) : path_(path), stamp_(read_stamp(path)) {
  read_attributes();
  check_shapes();
  check_table_ends();
  if (!file().is_sealed()) check_whole_table();  // a sealed file is as it was written
  release();
}

const io::Hdf5File& ShardFile::file() const {
  if (!file_) {
    if (read_stamp(path_) != stamp_) refuse("it has changed since it was opened first");
    file_ = io::Hdf5File::open(path_);
  }
  return *file_;
}

io::Rectangle ShardFile::whole_row(std::int64_t index) const {
  return {.row_begin = index, .num_rows = 1, .column_begin = 0, .num_columns = traits_.max_length};
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
  traits_ = {.max_length = file().read_int("max_length"),
             .vocab_size = file().read_int("vocab_size"),
             .pad_token_id = file().read_int("pad_token_id"),
             .eos_token_id = file().read_int("eos_token_id"),
             .tokenizer = file().read_string("tokenizer"),
             .tokenizer_fingerprint =
                 file().has_attribute("tokenizer_fingerprint") ? file().read_string("tokenizer_fingerprint") : ""};
  num_rows_ = file().read_int("num_rows");
  num_documents_ = file().read_int("num_documents");
  num_tokens_ = file().read_int("num_tokens");
  num_target_tokens_ = file().read_int("num_target_tokens");
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (traits_.max_length < 1 || traits_.max_length > limit) {
    refuse(fmt::format("its max_length is {}, not from 1 to {}", traits_.max_length, limit));
  }
  if (traits_.vocab_size < 1 || traits_.vocab_size > limit) {
    refuse(fmt::format("its vocab_size is {}", traits_.vocab_size));
  }
  if (num_rows_ < 1) refuse("it holds no rows");
  if (num_tokens_ < 0 || num_tokens_ / traits_.max_length > num_rows_) {
    refuse(fmt::format("its num_tokens is {}, which its rows have no room for", num_tokens_));
  }
  if (num_target_tokens_ < 0 || num_target_tokens_ > num_tokens_) {
    refuse(fmt::format("its num_target_tokens is {} of {} tokens", num_target_tokens_, num_tokens_));
  }
  if (file().has_attribute("fingerprint")) fingerprint_ = file().read_string("fingerprint");
  read_number();
}

void ShardFile::read_number() {
  if (!file().has_attribute("shard_set")) return;
  number_ = {.shard_set = file().read_string("shard_set"),
             .index = file().read_int("shard_index"),
             .num_shards = file().read_int("num_shards")};
  if (number_->index < 0 || number_->index >= number_->num_shards) {
    refuse(fmt::format("its shard_index is {} of num_shards = {}", number_->index, number_->num_shards));
  }
}

void ShardFile::check_shapes() const {
  const auto check = [this](const std::string& name, const std::vector<std::int64_t>& expected) {
    if (!file().has_dataset(name)) refuse("it has no dataset " + name);
    const std::vector<std::int64_t> shape = file().dataset_shape(name);
    if (shape != expected)
      refuse(fmt::format("{} has shape {} where {} belongs", name, to_text(shape), to_text(expected)));
  };
  check("/tokens", {num_rows_, traits_.max_length});
  check("/loss_weight", {num_rows_, traits_.max_length});
  check("/document_lengths", {num_documents_});
  check("/document_offsets", {num_rows_ + 1});
}

std::vector<std::int64_t> ShardFile::read_offsets(std::int64_t first, std::int64_t count) const {
  std::vector<std::int64_t> offsets(count + 1);
  file().read("/document_offsets", io::Number::int64, {.row_begin = first, .num_rows = count + 1}, offsets.data());
  for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
    if (offsets[i] < 0 || offsets[i + 1] < offsets[i] || offsets[i + 1] > num_documents_) {
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
  if (num_tokens > traits_.max_length) {
    refuse(fmt::format("the documents of row {} have {} tokens, more than max_length = {}", row, num_tokens,
                       traits_.max_length));
  }
  return num_tokens;
}

void ShardFile::check_table_ends() const {
  std::int64_t first = 0, last = 0;
  file().read("/document_offsets", io::Number::int64, {.row_begin = 0, .num_rows = 1}, &first);
  file().read("/document_offsets", io::Number::int64, {.row_begin = num_rows_, .num_rows = 1}, &last);
  if (first != 0 || last != num_documents_) {
    refuse(fmt::format("document_offsets run from {} to {} where 0 to {} belongs", first, last, num_documents_));
  }
}

template <class Visit>
void ShardFile::for_each_row_length(const Visit& visit) const {
  constexpr std::int64_t rows_at_once = 4096;
  for (std::int64_t first = 0; first < num_rows_; first += rows_at_once) {
    const std::vector<std::int64_t> offsets = read_offsets(first, std::min(rows_at_once, num_rows_ - first));
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
  if (sum_of_lengths != num_tokens_) {
    refuse(fmt::format("its documents have {} tokens, its attribute num_tokens says {}", sum_of_lengths, num_tokens_));
  }
}

void ShardFile::append_row_lengths(std::vector<std::int32_t>& lengths) const {
  for_each_row_length([&](std::int64_t length) { lengths.push_back(static_cast<std::int32_t>(length)); });
  release();
}

std::string ShardFile::fingerprint() const {
  if (!fingerprint_.empty()) return fingerprint_;
  const std::int64_t num_samples = std::min<std::int64_t>(num_rows_, 8);
  io::ContentHash hash;
  for (const std::int64_t value :
       {traits_.max_length, traits_.vocab_size, num_rows_, num_documents_, num_tokens_, num_target_tokens_}) {
    hash.add(value);
  }
  RowHash rows;
  for (std::int64_t i = 0; i < num_samples; ++i) {
    const Row row = read_row(i * num_rows_ / num_samples);
    rows.add(row.document_lengths, row.tokens, row.loss_weight);
  }
  release();
  hash.add(rows.text());
  return "sampled-" + hash.text();
}

void ShardFile::verify() const {
  RowHash hash;
  BatchCounts counts;
  std::int64_t num_weighted_firsts = 0;
  std::vector<Row> rows(1);
  for (std::int64_t index = 0; index < num_rows_; ++index) {
    rows.front() = read_row(index);
    hash.add(rows.front().document_lengths, rows.front().tokens, rows.front().loss_weight);
    const BatchCounts of_row = count_rows(rows);
    counts.num_tokens += of_row.num_tokens;
    counts.num_target_tokens += of_row.num_target_tokens;
    num_weighted_firsts += count_weighted_firsts(rows.front());
  }
  release();
  const auto check = [this](const char* name, std::int64_t counted, std::int64_t stored) {
    if (counted == stored) return;
    refuse(fmt::format("its rows hold a {} of {}, its attribute says {}", name, counted, stored));
  };
  check("num_tokens", counts.num_tokens, num_tokens_);
  // Other tools may count the first token of a document, which nothing predicts, where it has a weight.
  const bool counts_firsts = num_target_tokens_ == counts.num_target_tokens + num_weighted_firsts;
  if (!counts_firsts) check("num_target_tokens", counts.num_target_tokens, num_target_tokens_);
  if (!fingerprint_.empty() && hash.text() != fingerprint_) {
    refuse(fmt::format("the hash of its rows is {}, its attribute fingerprint says {}", hash.text(), fingerprint_));
  }
}

Row ShardFile::read_labels(std::int64_t index) const {
  SFT_ENSURE(index >= 0, "a row lies in its shard");
  SFT_ENSURE(index < num_rows_, "a row lies in its shard");
  const std::vector<std::int64_t> offsets = read_offsets(index, 1);
  if (offsets[1] - offsets[0] > traits_.max_length) {
    refuse(fmt::format("row {} has {} documents, more than max_length = {} tokens can be", index,
                       offsets[1] - offsets[0], traits_.max_length));
  }
  Row row;
  row.loss_weight.resize(traits_.max_length);
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
    if (row.tokens[i] >= 0 && row.tokens[i] < traits_.vocab_size) continue;
    refuse(fmt::format("token {}{} lies outside the vocabulary of {}", row.tokens[i], place_of(index, i),
                       traits_.vocab_size));
  }
  return row;
}

}  // namespace sft::data
