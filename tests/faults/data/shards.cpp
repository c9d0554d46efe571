// SPDX-License-Identifier: Apache-2.0
// Damaged, mismatching and impossible shards: each is refused by a data Error that names the file and the reason.

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <functional>
#include <limits>
#include <numeric>

#include "crafted_shard.hpp"
#include "sft/io/files.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

using sft::rows::PackedDataset;
using sft::test::CraftedShard;
using sft::test::data_error_of;
using sft::test::mentions;

namespace shards {
namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;
  const std::string path = folder.file("train-00000.h5");

  /// What is said of a shard after `change`.
  std::string refusal(const std::function<void(CraftedShard&)>& change) const {
    CraftedShard shard;
    change(shard);
    shard.write(path);
    return data_error_of([this] { (void)PackedDataset({path}); });
  }

  /// What is said of a row of it.
  std::string row_refusal(std::int64_t row, const std::function<void(CraftedShard&)>& change) const {
    CraftedShard shard;
    change(shard);
    shard.write(path);
    const PackedDataset dataset({path});
    return data_error_of([&] { (void)dataset.read_row(row); });
  }

  /// What is said of a sound shard together with a changed one.
  std::string disagreement(const std::function<void(CraftedShard&)>& change) const {
    CraftedShard().write(path);
    CraftedShard other;
    change(other);
    other.write(folder.file("train-00001.h5"));
    return data_error_of([this] { (void)PackedDataset({folder.file("train-*.h5")}); });
  }
};

}  // namespace
}  // namespace shards

BOOST_FIXTURE_TEST_SUITE(shards, shards::Fixture)

BOOST_AUTO_TEST_CASE(a_sound_shard_is_read) {
  CraftedShard().write(path);
  const PackedDataset dataset({path});
  const sft::rows::Row row = dataset.read_row(1);
  BOOST_TEST(row.tokens == (std::vector<std::int32_t>{5, 6, 7, 256}));
  BOOST_TEST(row.loss_weight == (std::vector<float>{0, 0, 1, 0}));
  BOOST_TEST(row.document_lengths == (std::vector<std::int32_t>{1, 2}));
}

BOOST_AUTO_TEST_CASE(a_wrong_number_of_targets_is_found_by_reading_all_rows) {
  const auto verdict = [this](std::int64_t num_target_tokens, float weight_of_first) {
    CraftedShard shard;
    shard.integers["num_target_tokens"] = num_target_tokens;
    shard.loss_weight.front() = weight_of_first;
    shard.write(path);
    return data_error_of([this] { PackedDataset({path}).verify(); });
  };
  BOOST_TEST(verdict(4, 0.0f) == "");
  BOOST_TEST(mentions(verdict(5, 0.0f), {path, "a num_target_tokens of 4", "says 5"}));
  BOOST_TEST(mentions(verdict(0, 0.0f), {path, "a num_target_tokens of 4", "says 0"}));
  // Another tool may count the first token of a document, or not.
  BOOST_TEST(verdict(4, 1.0f) == "");
  BOOST_TEST(verdict(5, 1.0f) == "");
  BOOST_TEST(mentions(verdict(6, 1.0f), {path, "says 6"}));
}

BOOST_AUTO_TEST_CASE(a_row_may_be_without_documents) {
  BOOST_TEST(refusal([](CraftedShard& shard) {
               shard.document_lengths = {4};
               shard.document_offsets = {0, 1, 1};
               shard.integers["num_documents"] = 1;
               shard.integers["num_tokens"] = 4;
             }) == "");
}

BOOST_AUTO_TEST_CASE(padding_outside_the_vocabulary_is_no_token) {
  CraftedShard shard;
  shard.integers["pad_token_id"] = -1;
  shard.tokens.back() = -1;
  shard.loss_weight.back() = std::numeric_limits<float>::quiet_NaN();
  shard.write(path);
  BOOST_TEST(sft::rows::cut_rows({PackedDataset({path}).read_row(1)}, 1, 0).tokens ==
             (std::vector<std::int32_t>{5, 6, 7}));
}

BOOST_AUTO_TEST_CASE(missing_files) {
  BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({path}); }), {path}));
  BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({folder.file("no-*.h5")}); }), {"no-*.h5"}));
  BOOST_TEST(mentions(data_error_of([] { (void)PackedDataset({}); }), {"list of files is empty"}));
}

BOOST_AUTO_TEST_CASE(other_files) {
  sft::io::write_file_atomically(path, "{\"text\": \"not HDF5\"}\n");
  BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({path}); }), {path}));
  sft::io::write_file_atomically(path, "");
  BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({path}); }), {path}));
  BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({folder.path()}); }), {folder.path()}));
}

BOOST_AUTO_TEST_CASE(a_file_cut_while_it_is_open) {
  CraftedShard shard;
  constexpr std::int64_t num_rows = 2000;  // tokens lie beyond what is read when the file is opened
  shard.shape = {num_rows, 4};
  shard.tokens.assign(4 * num_rows, 1);
  shard.loss_weight.assign(4 * num_rows, 1.0F);
  shard.document_lengths.assign(num_rows, 4);
  shard.document_offsets.resize(num_rows + 1);
  std::iota(shard.document_offsets.begin(), shard.document_offsets.end(), 0);
  shard.integers["num_rows"] = shard.integers["num_documents"] = num_rows;
  shard.integers["num_tokens"] = 4 * num_rows;
  shard.write(path);
  const PackedDataset dataset({path});
  std::filesystem::resize_file(path, 10000);
  BOOST_TEST(mentions(data_error_of([&] {
                        for (std::int64_t row = 0; row < num_rows; ++row) (void)dataset.read_row(row);
                      }),
                      {path, "has become shorter since it was opened"}));
}

BOOST_AUTO_TEST_CASE(truncated_files) {
  CraftedShard().write(path);
  const auto size = std::filesystem::file_size(path);
  for (const auto kept : {size - 1, size / 2, std::uintmax_t{100}}) {
    CraftedShard().write(path);
    std::filesystem::resize_file(path, kept);
    BOOST_TEST(mentions(data_error_of([this] { (void)PackedDataset({path}); }), {path}));
  }
}

BOOST_AUTO_TEST_CASE(other_formats_and_versions) {
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.texts.erase("format"); }), {path, "'format'"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.texts["format"] = "sft-checkpoint"; }),
                      {path, "'sft-checkpoint'"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["format_version"] = 2; }),
                      {path, "format_version is 2"}));
}

BOOST_AUTO_TEST_CASE(missing_attributes_and_datasets) {
  for (const char* name : {"format_version", "max_length", "vocab_size", "pad_token_id", "eos_token_id", "num_rows",
                           "num_documents", "num_tokens", "num_target_tokens"}) {
    BOOST_TEST(mentions(refusal([name](CraftedShard& shard) { shard.integers.erase(name); }), {path, name}));
  }
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.texts.erase("tokenizer"); }), {path, "'tokenizer'"}));
  for (const char* name : {"/tokens", "/loss_weight", "/document_lengths", "/document_offsets"}) {
    BOOST_TEST(mentions(refusal([name](CraftedShard& shard) { shard.without_dataset = name; }), {path, name}));
  }
}

BOOST_AUTO_TEST_CASE(impossible_attributes) {
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["num_rows"] = 0; }), {path, "no rows"}));
  BOOST_TEST(
      mentions(refusal([](CraftedShard& shard) { shard.integers["max_length"] = 0; }), {path, "max_length is 0"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["max_length"] = std::int64_t{1} << 31; }),
                      {path, "max_length is 2147483648, not from 1 to 2147483647"}));
  BOOST_TEST(
      mentions(refusal([](CraftedShard& shard) { shard.integers["vocab_size"] = -3; }), {path, "vocab_size is -3"}));
}

BOOST_AUTO_TEST_CASE(shapes_that_do_not_fit) {
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["max_length"] = 5; }),
                      {path, "/tokens has shape (2, 4) where (2, 5)"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["num_rows"] = 3; }), {path, "(3, 4)"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) { shard.integers["num_documents"] = std::int64_t{1} << 60; }),
                      {path, "/document_lengths"}));
  BOOST_TEST(mentions(refusal([](CraftedShard& shard) {
                        shard.document_offsets = {0, 1, 3, 3};
                      }),
                      {path, "/document_offsets"}));
}

BOOST_AUTO_TEST_CASE(document_tables_that_do_not_fit) {
  const auto with_offsets = [this](std::vector<std::int64_t> offsets) {
    return refusal([&](CraftedShard& shard) { shard.document_offsets = std::move(offsets); });
  };
  BOOST_TEST(mentions(with_offsets({1, 1, 3}), {path, "from 1 to 3 where 0 to 3"}));
  BOOST_TEST(mentions(with_offsets({0, 1, 2}), {path, "from 0 to 2"}));
  BOOST_TEST(mentions(with_offsets({0, 4, 3}), {path, "at row 0"}));
  BOOST_TEST(mentions(with_offsets({0, -1, 3}), {path, "at row 0"}));
  const auto with_lengths = [this](std::vector<std::int32_t> lengths) {
    return refusal([&](CraftedShard& shard) { shard.document_lengths = std::move(lengths); });
  };
  BOOST_TEST(mentions(with_lengths({5, 1, 1}), {path, "row 0 have 5 tokens", "max_length = 4"}));
  BOOST_TEST(mentions(with_lengths({4, 0, 3}), {path, "document 1 has length 0"}));
  BOOST_TEST(mentions(with_lengths({4, -1, 4}), {path, "document 1 has length -1"}));
  BOOST_TEST(mentions(with_lengths({4, 1, 1}), {path, "6 tokens", "num_tokens says 7"}));
}

BOOST_AUTO_TEST_CASE(shards_that_disagree) {
  const std::string other = folder.file("train-00001.h5");
  BOOST_TEST(disagreement([](CraftedShard&) {}) == "");
  BOOST_TEST(mentions(disagreement([](CraftedShard& shard) {
                        shard.integers["max_length"] = 2;
                        shard.shape = {4, 2};
                        shard.integers["num_rows"] = 4;
                        shard.document_lengths = {2, 2, 1, 2};
                        shard.document_offsets = {0, 1, 2, 3, 4};
                        shard.integers["num_documents"] = 4;
                      }),
                      {path, other, "max_length is 2", "4 in the other"}));
  BOOST_TEST(mentions(disagreement([](CraftedShard& shard) { shard.integers["vocab_size"] = 300; }),
                      {path, other, "vocab_size is 300"}));
  BOOST_TEST(mentions(disagreement([](CraftedShard& shard) { shard.texts["tokenizer"] = "gpt2"; }),
                      {path, other, "tokenizer is 'gpt2'"}));
  BOOST_TEST(mentions(disagreement([](CraftedShard& shard) { shard.integers["pad_token_id"] = 0; }),
                      {path, other, "pad_token_id is 0"}));
  BOOST_TEST(mentions(disagreement([](CraftedShard& shard) { shard.integers["eos_token_id"] = 0; }),
                      {path, other, "eos_token_id is 0"}));
}

BOOST_AUTO_TEST_CASE(rows_that_cannot_be_trained_on) {
  const auto with_token = [this](std::int32_t token) {
    return row_refusal(1, [token](CraftedShard& shard) { shard.tokens[6] = token; });
  };
  BOOST_TEST(with_token(271) == "");
  BOOST_TEST(mentions(with_token(272), {path, "token 272", "row 1, position 2"}));
  BOOST_TEST(mentions(with_token(-1), {path, "token -1", "row 1, position 2"}));
  const auto with_weight = [this](float weight) {
    return row_refusal(0, [weight](CraftedShard& shard) { shard.loss_weight[3] = weight; });
  };
  BOOST_TEST(with_weight(0.25f) == "");
  BOOST_TEST(mentions(with_weight(-1.0f), {path, "loss_weight -1", "row 0, position 3"}));
  BOOST_TEST(mentions(with_weight(std::numeric_limits<float>::quiet_NaN()), {path, "nan", "row 0, position 3"}));
  BOOST_TEST(mentions(with_weight(std::numeric_limits<float>::infinity()), {path, "inf", "row 0, position 3"}));
}

BOOST_AUTO_TEST_SUITE_END()
