// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/document.hpp"

#include <utility>

#include "prepare/spill_file.hpp"
#include "sft/core/byte_pack.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/hash.hpp"

namespace sft::prepare {

namespace {

constexpr std::int64_t token_bytes = sizeof(std::int32_t);

/// Tokens of one weight, up to `end`.
struct WeightRun {
  std::int32_t end;  ///< position in the document past the run
  float weight;
};

std::vector<WeightRun> runs_of(std::span<const float> weights) {
  std::vector<WeightRun> runs;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (i == 0 || weights[i] != runs.back().weight) runs.push_back({0, weights[i]});
    runs.back().end = static_cast<std::int32_t>(i + 1);
  }
  return runs;
}

}  // namespace

DocumentStore::DocumentStore(const std::string& folder) { files_.emplace_back(folder); }
DocumentStore::DocumentStore() = default;
DocumentStore::~DocumentStore() = default;
DocumentStore::DocumentStore(DocumentStore&&) noexcept = default;

DocumentStore DocumentStore::make_shared(const std::string& path) {
  DocumentStore store;
  store.files_.push_back(SpillFile::make_shared(path));
  store.path_ = path;
  return store;
}

void DocumentStore::append(const Document& document, std::int64_t length) {
  SFT_ENSURE(document.tokens.size() == document.loss_weight.size(), "every token of a document has a weight");
  SFT_ENSURE(length >= 0, "a document is cut within itself");
  SFT_ENSURE(length <= document.tokens.size(), "a document is cut within itself");
  const std::size_t size = length;
  SpillFile& file = files_.front();
  const auto tokens = std::as_bytes(std::span(document.tokens).first(size));
  const std::vector<WeightRun> runs = runs_of(std::span(document.loss_weight).first(size));
  const auto weights = std::as_bytes(std::span(runs));
  addresses_.push_back({file.size_bytes(), checked_cast<std::int32_t>(std::ssize(runs)), 0});
  lengths_.push_back(checked_cast<std::int32_t>(length));
  hashes_.push_back(io::short_hash(weights, io::short_hash(tokens)));
  file.append(tokens);
  file.append(weights);
}

void DocumentStore::read(std::int64_t document, std::int64_t begin, std::span<std::int32_t> tokens,
                         std::span<float> loss_weight) const {
  const std::size_t d = document;
  const auto end = begin + static_cast<std::int64_t>(tokens.size());
  SFT_ENSURE(begin >= 0, "a piece lies in its document");
  SFT_ENSURE(end <= lengths_.at(d), "a piece lies in its document");
  SFT_ENSURE(loss_weight.size() == tokens.size(), "every token of a piece has a weight");
  const Address& address = addresses_[d];
  SpillFile& file = files_[address.file];
  file.read(address.begin_byte + begin * token_bytes, std::as_writable_bytes(tokens));

  std::vector<WeightRun> runs(address.num_runs);
  file.read(address.begin_byte + lengths_[d] * token_bytes, std::as_writable_bytes(std::span(runs)));
  std::size_t run = 0;
  for (std::int64_t i = begin; i < end; ++i) {
    while (runs[run].end <= i) ++run;
    loss_weight[i - begin] = runs[run].weight;
  }
}

std::string DocumentStore::finish() {
  files_.front().finish();
  BytePacker packer;
  packer.add_text(path_);
  packer.add_all(lengths_.data(), lengths_.size());
  packer.add_all(hashes_.data(), hashes_.size());
  packer.add_all(addresses_.data(), addresses_.size());
  return packer.take();
}

DocumentStore DocumentStore::join(const std::vector<std::string>& tables, std::span<const DocumentRun> order) {
  DocumentStore all;
  std::vector<DocumentStore> stores;
  for (const std::string& table : tables) {
    ByteUnpacker unpacker(table);
    DocumentStore& store = stores.emplace_back(DocumentStore());
    all.files_.push_back(SpillFile::open_shared(unpacker.get_text()));
    store.lengths_ = unpacker.get_all<std::int32_t>();
    store.hashes_ = unpacker.get_all<std::uint64_t>();
    store.addresses_ = unpacker.get_all<Address>();
  }
  std::vector<std::size_t> next(stores.size(), 0);
  for (const DocumentRun& run : order) {
    const DocumentStore& store = stores.at(run.table);
    for (std::int64_t i = 0; i < run.num_documents; ++i) {
      const std::size_t document = next[run.table]++;
      all.lengths_.push_back(store.lengths_.at(document));
      all.hashes_.push_back(store.hashes_[document]);
      all.addresses_.push_back(store.addresses_[document]);
      all.addresses_.back().file = checked_cast<std::int32_t>(run.table);
    }
  }
  return all;
}

}  // namespace sft::prepare
