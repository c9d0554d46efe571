// SPDX-License-Identifier: Apache-2.0
#include "prepare/shard_writer.hpp"

#include <algorithm>
#include <filesystem>
#include <functional>
#include <optional>
#include <span>
#include <system_error>
#include <utility>

#include "prepare/output_folder.hpp"
#include "sft/core/byte_pack.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/seal.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/row_hash.hpp"
#include "sft/rows/shard_file.hpp"
#include "sft/rows/shard_set.hpp"

namespace sft::prepare {

namespace {

namespace fs = std::filesystem;

constexpr std::int64_t buffer_tokens = 1024 * 1024;          // written at once
constexpr std::int64_t chunk_entries = 2048;                 // of the document table, which a row costs a chunk of too
constexpr std::int64_t buffer_entries = 32 * chunk_entries;  // written at once

/// A text that the shards of one run share and those of other data, or of other rows of the same, do not. It is known
/// before any is written, and does not depend on who writes.
std::string make_set_name(const ShardHeader& header, const DocumentStore& documents, const SplitRows& split) {
  io::ContentHash hash;
  for (const std::int64_t value : {header.max_length, header.vocab_size, header.pad_token_id, header.eos_token_id,
                                   static_cast<std::int64_t>(header.packing_strategy), split.num_shards}) {
    hash.add(value);
  }
  const Markup& markup = header.markup;
  for (const std::string& text : {header.tokenizer, header.tokenizer_fingerprint, header.source, split.split,
                                  markup.eos_token, markup.pad_token, markup.chat_template}) {
    hash.add(text);
  }
  for (const PackedRow& row : split.rows) {
    hash.add(static_cast<std::int64_t>(row.size()));
    for (const Piece& piece : row) {
      hash.add(static_cast<std::int64_t>(documents.hashes().at(piece.document)));
      hash.add(std::int64_t{piece.begin});
      hash.add(std::int64_t{piece.length});
    }
  }
  return hash.text();
}

/// A 1-D dataset that is written from its begin to its end, whole chunks at a time.
template <class T>
class ColumnWriter {
 public:
  ColumnWriter(io::Hdf5File& file, std::string name, io::Number type, std::int64_t size)
      : file_(file), name_(std::move(name)), type_(type) {
    file_.create_dataset(name_, type_, {size}, std::min(size, chunk_entries));
  }
  void append(T value) {
    values_.push_back(value);
    if (std::ssize(values_) == buffer_entries) flush();
  }
  void flush() {
    file_.write(name_, type_, {.row_begin = num_written_, .num_rows = std::ssize(values_)}, values_.data());
    num_written_ += std::ssize(values_);
    values_.clear();
  }

 private:
  io::Hdf5File& file_;
  std::string name_;
  io::Number type_;
  std::int64_t num_written_ = 0;
  std::vector<T> values_;
};

/// What BatchCounts has of each row.
class RowTableWriter {
 public:
  RowTableWriter(io::Hdf5File& file, std::int64_t num_rows)
      : tokens_(file, rows::tokens_column, io::Number::int32, num_rows),
        target_tokens_(file, rows::target_tokens_column, io::Number::int32, num_rows),
        weight_sums_(file, rows::weight_sum_column, io::Number::float64, num_rows),
        length_squares_(file, rows::length_squares_column, io::Number::float64, num_rows) {}
  void append(const rows::BatchCounts& counts) {
    tokens_.append(static_cast<std::int32_t>(counts.num_tokens));
    target_tokens_.append(static_cast<std::int32_t>(counts.num_target_tokens));
    weight_sums_.append(counts.weight_sum);
    length_squares_.append(counts.length_squares);
  }
  void flush() {
    tokens_.flush();
    target_tokens_.flush();
    weight_sums_.flush();
    length_squares_.flush();
  }

 private:
  ColumnWriter<std::int32_t> tokens_, target_tokens_;
  ColumnWriter<double> weight_sums_, length_squares_;
};

class ShardWriter {
 public:
  ShardWriter(const std::string& path, const ShardHeader& header, rows::ShardNumber number,
              const DocumentStore& documents, std::span<const PackedRow> rows)
      : file_(io::Hdf5File::create(path, io::seal_bytes)),
        header_(header),
        number_(std::move(number)),
        documents_(documents),
        rows_(rows) {}

  /// Returns what it wrote, without a name.
  WrittenShards write(const std::function<void(std::int64_t)>& advance) {
    write_document_table();
    write_rows(advance);
    write_attributes();
    file_.close();
    return {.files = {},
            .num_documents = num_documents_,
            .num_tokens = num_tokens_,
            .num_target_tokens = num_target_tokens_,
            .num_kept = 0};
  }

 private:
  void write_document_table() {
    for (const PackedRow& row : rows_) num_documents_ += std::ssize(document_lengths_of(row, header_.packing_strategy));
    ColumnWriter<std::int32_t> lengths(file_, "/document_lengths", io::Number::int32, num_documents_);
    ColumnWriter<std::int64_t> offsets(file_, "/document_offsets", io::Number::int64, num_rows() + 1);
    std::int64_t offset = 0;
    offsets.append(offset);
    for (const PackedRow& row : rows_) {
      const std::vector<std::int32_t> row_lengths = document_lengths_of(row, header_.packing_strategy);
      for (const std::int32_t length : row_lengths) lengths.append(length);
      offsets.append(offset += std::ssize(row_lengths));
    }
    lengths.flush();
    offsets.flush();
  }

  void write_rows(const std::function<void(std::int64_t)>& advance) {
    const std::int64_t width = header_.max_length;
    const std::int64_t rows_per_chunk = std::min(rows::chunk_rows_of(width), num_rows());
    const std::int64_t rows_per_buffer =
        rows_per_chunk * std::max<std::int64_t>(1, buffer_tokens / (rows_per_chunk * width));
    file_.create_dataset("/tokens", io::Number::int32, {num_rows(), width}, rows_per_chunk);
    file_.create_dataset("/loss_weight", io::Number::float32, {num_rows(), width}, rows_per_chunk);
    RowTableWriter table(file_, num_rows());
    std::vector<std::int32_t> tokens;
    std::vector<float> weights;
    for (std::int64_t begin = 0; begin < num_rows(); begin += rows_per_buffer) {
      const std::int64_t count = std::min(rows_per_buffer, num_rows() - begin);
      tokens.assign(count * width, static_cast<std::int32_t>(header_.pad_token_id));
      weights.assign(count * width, 0.0f);
      for (std::int64_t r = 0; r < count; ++r) {
        const std::size_t at = r * width;
        table.append(fill_row(rows_[begin + r], std::span(tokens).subspan(at), std::span(weights).subspan(at)));
      }
      const io::Rectangle where = {.row_begin = begin, .num_rows = count, .column_begin = 0, .num_columns = width};
      file_.write("/tokens", io::Number::int32, where, tokens.data());
      file_.write("/loss_weight", io::Number::float32, where, weights.data());
      advance(count);
    }
    table.flush();
  }

  rows::BatchCounts fill_row(const PackedRow& row, std::span<std::int32_t> tokens, std::span<float> weights) {
    std::size_t begin = 0;
    for (const Piece& piece : row) {
      const std::size_t length = piece.length;
      documents_.read(piece.document, piece.begin, tokens.subspan(begin, length), weights.subspan(begin, length));
      begin += length;
    }
    std::size_t first = 0;
    const std::vector<std::int32_t> lengths = document_lengths_of(row, header_.packing_strategy);
    for (const std::int32_t length : lengths) {
      weights[first] = 0.0f;  // nothing predicts it
      first += length;
    }
    hash_.add(lengths, tokens, weights);
    const rows::BatchCounts counts = rows::count_row(lengths, weights);
    num_tokens_ += counts.num_tokens;
    num_target_tokens_ += counts.num_target_tokens;
    return counts;
  }

  void write_attributes() {
    file_.write_string("format", "sft-packed");
    file_.write_int("format_version", 1);
    file_.write_int("max_length", header_.max_length);
    file_.write_int("vocab_size", header_.vocab_size);
    file_.write_int("pad_token_id", header_.pad_token_id);
    file_.write_int("eos_token_id", header_.eos_token_id);
    file_.write_string("tokenizer", header_.tokenizer);
    file_.write_string("tokenizer_fingerprint", header_.tokenizer_fingerprint);
    const Markup& markup = header_.markup;
    if (!markup.eos_token.empty()) file_.write_string("eos_token", markup.eos_token);
    if (!markup.pad_token.empty()) file_.write_string("pad_token", markup.pad_token);
    if (!markup.chat_template.empty()) file_.write_string("chat_template", markup.chat_template);
    file_.write_int("num_rows", num_rows());
    file_.write_int("num_documents", num_documents_);
    file_.write_int("num_tokens", num_tokens_);
    file_.write_int("num_target_tokens", num_target_tokens_);
    file_.write_string("fingerprint", hash_.text());
    file_.write_string("shard_set", number_.shard_set);
    file_.write_int("shard_index", number_.index);
    file_.write_int("num_shards", number_.num_shards);
    file_.write_string("packing_strategy", name_of(header_.packing_strategy));
    file_.write_string("source", header_.source);
  }

  [[nodiscard]] std::int64_t num_rows() const { return static_cast<std::int64_t>(rows_.size()); }

  io::Hdf5File file_;
  const ShardHeader& header_;
  const rows::ShardNumber number_;
  const DocumentStore& documents_;
  std::span<const PackedRow> rows_;
  std::int64_t num_documents_ = 0, num_tokens_ = 0, num_target_tokens_ = 0;
  rows::RowHash hash_;
};

/// A shard of the plan, which every process of the team has.
struct PlannedShard {
  NewFile file;
  std::size_t split = 0;
  rows::ShardNumber number;
  std::span<const PackedRow> rows;
};

std::vector<PlannedShard> plan_shards(const std::string& folder, const std::string& tag, const ShardHeader& header,
                                      const DocumentStore& documents, std::span<const SplitRows> splits) {
  std::vector<PlannedShard> shards;
  for (std::size_t i = 0; i < splits.size(); ++i) {
    const SplitRows& split = splits[i];
    const std::int64_t num_rows = std::ssize(split.rows), num_shards = split.num_shards;
    SFT_ENSURE(num_shards >= 1, "every shard holds a row");
    SFT_ENSURE(num_shards <= num_rows, "every shard holds a row");
    const std::string shard_set = make_set_name(header, documents, split);
    const std::string own_tag = tag.empty() ? shard_set.substr(shard_set.find(':') + 1) : tag;
    for (std::int64_t shard = 0; shard < num_shards; ++shard) {
      const std::size_t begin = shard * num_rows / num_shards;
      const std::size_t end = (shard + 1) * num_rows / num_shards;
      shards.push_back({.file = new_file((fs::path(folder) / rows::shard_name(split.split, shard)).string(), own_tag),
                        .split = i,
                        .number = {.shard_set = shard_set, .index = shard, .num_shards = num_shards},
                        .rows = split.rows.subspan(begin, end - begin)});
    }
  }
  return shards;
}

/// What the file `path` holds, if it is this shard, finished and undamaged.
std::optional<WrittenShards> find_finished(const std::string& path, const rows::ShardNumber& number) {
  std::error_code ignored;
  if (!fs::exists(path, ignored)) return std::nullopt;
  try {
    const rows::ShardFile shard(path);
    if (!shard.is_sealed() || shard.facts().number != number) return std::nullopt;
    shard.verify();
    io::sync_path(path);
    return WrittenShards{.files = {},
                         .num_documents = shard.facts().num_documents,
                         .num_tokens = shard.facts().num_tokens,
                         .num_target_tokens = shard.facts().num_target_tokens,
                         .num_kept = 1};
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The shard is finished under its temporary name, or had its name already.
WrittenShards make_shard(const PlannedShard& shard, const ShardHeader& header, const DocumentStore& documents,
                         const std::function<void(std::int64_t)>& advance) {
  const NewFile& file = shard.file;
  std::error_code ignored;
  for (const std::string& path : {file.path, file.temporary_path}) {
    if (const auto finished = find_finished(path, shard.number)) {
      advance(std::ssize(shard.rows));
      return *finished;
    }
  }
  if (fs::exists(file.path, ignored)) refuse_part(file.path);
  try {
    WrittenShards written =
        ShardWriter(file.temporary_path, header, shard.number, documents, shard.rows).write(advance);
    io::seal(file.temporary_path);
    io::sync_path(file.temporary_path);
    return written;
  } catch (...) {
    fs::remove(file.temporary_path, ignored);
    throw;
  }
}

}  // namespace

std::vector<WrittenShards> write_shards(const std::string& folder, const OutputFolder* output,
                                        const ShardHeader& header, const DocumentStore& documents,
                                        std::span<const SplitRows> splits, const Team& team,
                                        const PrepareProgress& progress) {
  const std::string tag = team.all_gather(output == nullptr || output->is_locked() ? "" : random_tag()).front();
  std::vector<PlannedShard> shards;
  std::vector<NewFile> files;
  team.agree([&] {
    shards = plan_shards(folder, tag, header, documents, splits);
    for (const PlannedShard& shard : shards) files.push_back(shard.file);
    if (output != nullptr) output->make_room(files);
  });

  std::int64_t done_rows = 0, all_rows = 0;
  const auto is_mine = [&](std::size_t shard) { return static_cast<int>(shard) % team.size() == team.rank(); };
  for (std::size_t i = 0; i < shards.size(); ++i) all_rows += is_mine(i) ? std::ssize(shards[i].rows) : 0;
  const auto advance = [&](std::int64_t num_rows) {
    done_rows += num_rows;
    progress("writing", done_rows, all_rows);
  };
  BytePacker mine;
  team.agree([&] {
    try {
      for (std::size_t i = 0; i < shards.size(); ++i) {
        if (!is_mine(i)) continue;
        const WrittenShards made = make_shard(shards[i], header, documents, advance);
        mine.add(shards[i].split);
        for (const std::int64_t count : {made.num_documents, made.num_tokens, made.num_target_tokens, made.num_kept}) {
          mine.add(count);
        }
      }
    } catch (...) {
      std::error_code ignored;
      for (std::size_t i = 0; !tag.empty() && i < shards.size(); ++i) {  // nobody would find them
        if (is_mine(i)) fs::remove(files[i].temporary_path, ignored);
      }
      throw;
    }
  });

  std::vector<WrittenShards> written(splits.size());
  for (const PlannedShard& shard : shards) written[shard.split].files.push_back(shard.file.path);
  for (const std::string& message : team.all_gather(mine.take())) {
    for (ByteUnpacker unpacker(message); !unpacker.is_at_end();) {
      WrittenShards& of_split = written.at(unpacker.get<std::size_t>());
      for (std::int64_t* count :
           {&of_split.num_documents, &of_split.num_tokens, &of_split.num_target_tokens, &of_split.num_kept}) {
        *count += unpacker.get<std::int64_t>();
      }
    }
  }
  team.agree([&] {
    if (team.rank() == 0) name_all(folder, files);
  });
  return written;
}

}  // namespace sft::prepare
