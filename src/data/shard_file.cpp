#include "data/shard_file.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "sft/core/error.hpp"

namespace sft::data {

namespace {

std::string to_text(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

}  // namespace

ShardFile::ShardFile(const std::string& path) : file_(io::Hdf5File::open(path)) {
  read_attributes();
  check_shapes();
  read_document_table();
  release();
}

void ShardFile::refuse(const std::string& why) const {
  throw_data_error("cannot use '" + path() + "'", why, "write it again with sft-prepare");
}

void ShardFile::read_attributes() {
  if (!file_.has_attribute("format")) refuse("it has no attribute 'format', so it is not packed data");
  const std::string format = file_.read_string("format");
  if (format != "sft-packed") refuse("its format is '" + format + "', not 'sft-packed'");
  for (const char* name : {"format_version", "max_length", "vocab_size", "pad_token_id", "eos_token_id", "tokenizer",
                           "num_rows", "num_documents", "num_tokens", "num_target_tokens"}) {
    if (!file_.has_attribute(name)) refuse("it has no attribute '" + std::string(name) + "'");
  }
  const std::int64_t format_version = file_.read_int("format_version");
  if (format_version != 1) refuse("its format_version is " + std::to_string(format_version) + ", this program reads 1");
  traits_ = {.max_length = file_.read_int("max_length"),
             .vocab_size = file_.read_int("vocab_size"),
             .pad_token_id = file_.read_int("pad_token_id"),
             .eos_token_id = file_.read_int("eos_token_id"),
             .tokenizer = file_.read_string("tokenizer")};
  num_rows_ = file_.read_int("num_rows");
  num_tokens_ = file_.read_int("num_tokens");
  num_target_tokens_ = file_.read_int("num_target_tokens");
  constexpr std::int64_t limit = std::numeric_limits<std::int32_t>::max();
  if (traits_.max_length < 1 || traits_.max_length > limit) {
    refuse("its max_length is " + std::to_string(traits_.max_length));
  }
  if (traits_.vocab_size < 1 || traits_.vocab_size > limit) {
    refuse("its vocab_size is " + std::to_string(traits_.vocab_size));
  }
  if (num_rows_ < 1) refuse("it holds no rows");
}

void ShardFile::check_shapes() const {
  const auto check = [this](const std::string& name, const std::vector<std::int64_t>& expected) {
    if (!file_.has_dataset(name)) refuse("it has no dataset " + name);
    const std::vector<std::int64_t> shape = file_.dataset_shape(name);
    if (shape != expected) refuse(name + " has shape " + to_text(shape) + " where " + to_text(expected) + " belongs");
  };
  check("/tokens", {num_rows_, traits_.max_length});
  check("/loss_weight", {num_rows_, traits_.max_length});
  check("/document_lengths", {file_.read_int("num_documents")});
  check("/document_offsets", {num_rows_ + 1});
}

void ShardFile::read_document_table() {
  document_lengths_.resize(static_cast<std::size_t>(file_.read_int("num_documents")));
  document_offsets_.resize(static_cast<std::size_t>(num_rows_ + 1));
  if (!document_lengths_.empty()) {
    file_.read("/document_lengths", io::Number::int32, {.num_rows = num_documents()}, document_lengths_.data());
  }
  file_.read("/document_offsets", io::Number::int64, {.num_rows = num_rows_ + 1}, document_offsets_.data());
  if (document_offsets_.front() != 0 || document_offsets_.back() != num_documents()) {
    refuse("document_offsets run from " + std::to_string(document_offsets_.front()) + " to " +
           std::to_string(document_offsets_.back()) + " where 0 to " + std::to_string(num_documents()) + " belongs");
  }
  std::int64_t sum_of_lengths = 0;
  for (std::size_t row = 0; row + 1 < document_offsets_.size(); ++row) {
    if (document_offsets_[row + 1] < document_offsets_[row] || document_offsets_[row + 1] > num_documents()) {
      refuse("document_offsets fall or leave the table at row " + std::to_string(row));
    }
    std::int64_t row_length = 0;
    for (auto d = document_offsets_[row]; d < document_offsets_[row + 1]; ++d) {
      const std::int32_t length = document_lengths_[static_cast<std::size_t>(d)];
      if (length < 1) refuse("document " + std::to_string(d) + " has length " + std::to_string(length));
      row_length += length;
    }
    if (row_length > traits_.max_length) {
      refuse("the documents of row " + std::to_string(row) + " have " + std::to_string(row_length) +
             " tokens, more than max_length = " + std::to_string(traits_.max_length));
    }
    sum_of_lengths += row_length;
  }
  if (sum_of_lengths != num_tokens_) {
    refuse("its documents have " + std::to_string(sum_of_lengths) + " tokens, its attribute num_tokens says " +
           std::to_string(num_tokens_));
  }
}

Row ShardFile::read_row(std::int64_t index) const {
  ensure(index >= 0 && index < num_rows_, "a row lies in its shard");
  const auto row_number = static_cast<std::size_t>(index);
  const auto max_length = static_cast<std::size_t>(traits_.max_length);
  Row row;
  row.tokens.resize(max_length);
  row.loss_weight.resize(max_length);
  row.document_lengths.assign(document_lengths_.begin() + document_offsets_[row_number],
                              document_lengths_.begin() + document_offsets_[row_number + 1]);
  const io::Rectangle where = {.row_begin = index, .num_rows = 1, .column_begin = 0, .num_columns = traits_.max_length};
  file_.read("/tokens", io::Number::int32, where, row.tokens.data());
  file_.read("/loss_weight", io::Number::float32, where, row.loss_weight.data());
  const auto in_vocabulary = [this](std::int32_t token) { return token >= 0 && token < traits_.vocab_size; };
  const auto num_tokens = std::accumulate(row.document_lengths.begin(), row.document_lengths.end(), std::size_t{0});
  for (std::size_t i = 0; i < num_tokens; ++i) {
    const auto here = [&] { return " at row " + std::to_string(index) + ", position " + std::to_string(i); };
    if (!in_vocabulary(row.tokens[i])) {
      refuse("token " + std::to_string(row.tokens[i]) + here() + " lies outside the vocabulary of " +
             std::to_string(traits_.vocab_size));
    }
    if (!std::isfinite(row.loss_weight[i]) || row.loss_weight[i] < 0.0f) {
      refuse("loss_weight " + std::to_string(row.loss_weight[i]) + here() + " is not a finite number >= 0");
    }
  }
  // Padding is computed on like any token and then ignored: it needs an id that exists.
  std::replace_if(
      row.tokens.begin() + static_cast<std::ptrdiff_t>(num_tokens), row.tokens.end(),
      [&](std::int32_t token) { return !in_vocabulary(token); }, 0);
  return row;
}

}  // namespace sft::data
