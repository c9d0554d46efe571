// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/packed_dataset.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <deque>
#include <filesystem>
#include <set>
#include <utility>

#include "sft/core/byte_pack.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"
#include "sft/rows/planned_rows.hpp"
#include "sft/rows/shard_file.hpp"

namespace sft::rows {

namespace {

constexpr std::size_t max_open_shards = 16;

/// Warnings about single shards of a data set, of which the first one of a kind is printed for all.
class Warnings {
 public:
  void add(std::string line) {
    if (line.empty()) return;
    if (count_++ == 0) first_ = std::move(line);
  }
  void print() const {
    if (count_ == 1) log_warning(first_);
    if (count_ > 1) log_warning(fmt::format("{} (the same of {} more shards)", first_, count_ - 1));
  }

 private:
  std::string first_;
  int count_ = 0;
};

/// Refuses a shard that was prepared in another way than the first.
void check_agreement(const ShardFile& first, const ShardFile& other) {
  const auto check = [&](const char* name, const std::string& expected, const std::string& found) {
    if (found == expected) return;
    throw_data_error(fmt::format("cannot use '{}' together with '{}'", other.path(), first.path()),
                     fmt::format("{} is {} in the one and {} in the other", name, found, expected),
                     "give shards of one sft-prepare run");
  };
  const ShardTraits &a = first.facts().traits, &b = other.facts().traits;
  check("max_length", std::to_string(a.max_length), std::to_string(b.max_length));
  check("vocab_size", std::to_string(a.vocab_size), std::to_string(b.vocab_size));
  // One tokenizer may lie in several folders: where both files say what it does, that decides.
  if (a.tokenizer_fingerprint.empty() || b.tokenizer_fingerprint.empty()) {
    check("tokenizer", fmt::format("'{}'", a.tokenizer), fmt::format("'{}'", b.tokenizer));
  } else {
    check("tokenizer_fingerprint", a.tokenizer_fingerprint, b.tokenizer_fingerprint);
  }
  check("pad_token_id", std::to_string(a.pad_token_id), std::to_string(b.pad_token_id));
  check("eos_token_id", std::to_string(a.eos_token_id), std::to_string(b.eos_token_id));
}

}  // namespace

struct PackedDataset::Impl {
  std::vector<ShardFile> shards;
  std::vector<std::string> files;
  std::vector<std::int64_t> row_offsets = {0};  // (num_shards + 1)
  std::deque<std::size_t> open_shards;          // those that were used last, the last of all at the end
  RowTable table;
  Warnings writers, chunks;  ///< what was said of shards that were opened

  /// Opens a file, once where it is a shard: only one that is none is looked at for what else it is.
  void open(const std::string& path, RowColumns& held) {
    try {
      add(ShardFile(path));
    } catch (const Error&) {
      io::require_kind(path, io::Expected::packed_shard);
      throw;
    }
    check_agreement(shards.front(), shards.back());
    writers.add(shards.back().warning());
    chunks.add(shards.back().chunk_warning());
    append_rows(use(shards.size() - 1), held);
  }

  /// Clears a column that cannot be held for all rows.
  void append_rows(const ShardFile& shard, RowColumns& held) {
    held.lengths = held.lengths && row_offsets.back() <= max_rows_dealt;
    held.counts = held.counts && row_offsets.back() <= max_rows_counted && shard.facts().has_row_table;
    if (held.lengths) shard.append_row_lengths(table.lengths);
    if (held.counts) shard.append_row_counts(table.counts);
    if (!held.lengths) table.lengths = {};
    if (!held.counts) table.counts = {};
  }

  void add(ShardFile shard) {
    shards.push_back(std::move(shard));
    files.push_back(shards.back().path());
    row_offsets.push_back(row_offsets.back() + shards.back().facts().num_rows);
  }

  /// A shard to read from. Only this one holds memory for reading, and few others are open.
  const ShardFile& use(std::size_t shard) {
    if (open_shards.empty() || open_shards.back() != shard) {
      if (!open_shards.empty()) shards[open_shards.back()].release();
      std::erase(open_shards, shard);
      open_shards.push_back(shard);
      if (open_shards.size() > max_open_shards) {
        shards[open_shards.front()].close();
        open_shards.pop_front();
      }
    }
    return shards[shard];
  }

  /// The shard of a row, and the row's place in it.
  [[nodiscard]] std::pair<std::size_t, std::int64_t> find(std::int64_t row) const {
    SFT_ENSURE(row >= 0, "a row lies in its data set");
    SFT_ENSURE(row < row_offsets.back(), "a row lies in its data set");
    const auto after = std::upper_bound(row_offsets.begin(), row_offsets.end(), row);
    const std::size_t shard = after - row_offsets.begin() - 1;
    return {shard, row - row_offsets[shard]};
  }

  [[nodiscard]] const ShardTraits& traits() const { return shards.front().facts().traits; }

  [[nodiscard]] std::int64_t sum(std::int64_t ShardFacts::*count) const {
    std::int64_t total = 0;
    for (const ShardFile& shard : shards) total += shard.facts().*count;
    return total;
  }
};

BatchCounts& BatchCounts::operator+=(const BatchCounts& other) {
  num_tokens += other.num_tokens;
  num_target_tokens += other.num_target_tokens;
  weight_sum += other.weight_sum;
  length_squares += other.length_squares;
  return *this;
}

PackedDataset::PackedDataset(const std::vector<std::string>& patterns, RowColumns held)
    : impl_(std::make_unique<Impl>()) {
  std::set<std::filesystem::path> seen;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> paths = io::expand_glob(pattern);
    if (paths.empty()) {
      throw_data_error(fmt::format("no packed data at '{}'", pattern), "no such file, or no file matches the glob",
                       "write some with sft-prepare, or correct the path");
    }
    for (const std::string& path : paths) {
      if (!seen.insert(std::filesystem::weakly_canonical(path)).second) {
        throw_data_error(path + " is named twice", "its rows would count double",
                         "leave it out of one of the patterns");
      }
      impl_->open(path, held);
    }
  }
  if (impl_->shards.empty())
    throw_data_error("no packed data", "the list of files is empty", "name packed HDF5 shards");
  std::vector<NumberedShard> numbered;
  for (const ShardFile& shard : impl_->shards) numbered.push_back({shard.path(), shard.facts().number});
  check_sets(numbered);
  impl_->writers.print();
  impl_->chunks.print();
}

std::string PackedDataset::facts() const {
  BytePacker packer;
  for (const ShardFile& shard : impl_->shards) shard.facts().pack(packer);
  return packer.take();
}

PackedDataset PackedDataset::from_facts(const std::string& facts) { return {facts, From::facts}; }

PackedDataset::PackedDataset(const std::string& facts, From /*from*/) : impl_(std::make_unique<Impl>()) {
  for (ByteUnpacker unpacker(facts); !unpacker.is_at_end();) impl_->add(ShardFile(ShardFacts::unpack(unpacker)));
}

PackedDataset::~PackedDataset() = default;
PackedDataset::PackedDataset(PackedDataset&&) noexcept = default;

std::int64_t PackedDataset::num_rows() const { return impl_->row_offsets.back(); }
std::int64_t PackedDataset::max_length() const { return impl_->traits().max_length; }
std::int64_t PackedDataset::vocab_size() const { return impl_->traits().vocab_size; }
std::int64_t PackedDataset::pad_token_id() const { return impl_->traits().pad_token_id; }
std::int64_t PackedDataset::eos_token_id() const { return impl_->traits().eos_token_id; }
const std::string& PackedDataset::tokenizer() const { return impl_->traits().tokenizer; }
const std::string& PackedDataset::tokenizer_fingerprint() const { return impl_->traits().tokenizer_fingerprint; }
Markup PackedDataset::markup() const { return is_planned(*this) ? Markup{} : impl_->use(0).markup(); }
std::int64_t PackedDataset::num_documents() const { return impl_->sum(&ShardFacts::num_documents); }
std::int64_t PackedDataset::num_tokens() const { return impl_->sum(&ShardFacts::num_tokens); }
std::int64_t PackedDataset::num_target_tokens() const { return impl_->sum(&ShardFacts::num_target_tokens); }
const std::vector<std::string>& PackedDataset::files() const { return impl_->files; }

void require_tokenizer(const PackedDataset& dataset, const std::string& fingerprint, const std::string& model) {
  if (dataset.tokenizer_fingerprint().empty() || dataset.tokenizer_fingerprint() == fingerprint) return;
  throw_data_error(fmt::format("cannot train {} on '{}'", model, dataset.files().front()),
                   fmt::format("its tokens are those of another tokenizer, {} ({}; that of the model is {})",
                               dataset.tokenizer(), dataset.tokenizer_fingerprint(), fingerprint),
                   "prepare the data with sft-prepare --model_name_or_path " + model);
}

std::string PackedDataset::fingerprint() const {
  io::ContentHash hash;
  bool is_sampled = false;
  const std::vector<std::string> texts = fingerprints();
  for (std::size_t i = 0; i < texts.size(); ++i) {
    is_sampled = is_sampled || texts[i].starts_with("sampled-");
    hash.add(impl_->shards[i].facts().num_rows);
    hash.add(texts[i]);
  }
  return (is_sampled ? "sampled-" : "") + hash.text();
}

std::vector<std::string> PackedDataset::fingerprints() const {
  std::vector<std::string> texts;
  for (std::size_t i = 0; i < impl_->shards.size(); ++i) texts.push_back(impl_->use(i).fingerprint());
  return texts;
}

void PackedDataset::verify() const {
  for (std::size_t i = 0; i < impl_->shards.size(); ++i) impl_->use(i).verify();
}

Row PackedDataset::read_row(std::int64_t index) const {
  const auto [shard, row] = impl_->find(index);
  return impl_->use(shard).read_row(row);
}

Row PackedDataset::read_labels(std::int64_t index) const {
  const auto [shard, row] = impl_->find(index);
  return impl_->use(shard).read_labels(row);
}

std::vector<std::int32_t> PackedDataset::row_lengths() const {
  if (!impl_->table.lengths.empty()) return impl_->table.lengths;
  std::vector<std::int32_t> lengths;
  lengths.reserve(num_rows());
  for (std::size_t i = 0; i < impl_->shards.size(); ++i) impl_->use(i).append_row_lengths(lengths);
  return lengths;
}

bool PackedDataset::has_row_counts() const {
  return num_rows() <= max_rows_counted &&
         std::ranges::all_of(impl_->shards, [](const ShardFile& shard) { return shard.facts().has_row_table; });
}

std::vector<BatchCounts> PackedDataset::row_counts() const {
  if (!impl_->table.counts.empty()) return impl_->table.counts;
  std::vector<BatchCounts> counts;
  counts.reserve(num_rows());
  for (std::size_t i = 0; i < impl_->shards.size(); ++i) impl_->use(i).append_row_counts(counts);
  return counts;
}

const RowTable& PackedDataset::row_table() const { return impl_->table; }
void PackedDataset::hold(RowTable table) { impl_->table = std::move(table); }

}  // namespace sft::rows
