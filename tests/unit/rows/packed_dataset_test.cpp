// SPDX-License-Identifier: Apache-2.0
// What a list of shards says of itself: its fingerprint, and that all shards of a set are there.

#include "sft/rows/packed_dataset.hpp"

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <sstream>

#include "sft/io/files.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/seal.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/batch.hpp"
#include "sft/rows/loader.hpp"
#include "support/error_text.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace sft::prepare;
using namespace sft::rows;
using sft::test::data_error_of;
using sft::test::mentions;

namespace packed_dataset {
namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;

  /// Shards FOLDER/NAME/train-*.h5 of ten documents, of which one holds `word`.
  std::string prepare_set(const std::string& name, std::int64_t num_shards, const std::string& word = "word") const {
    std::string text;
    for (int i = 0; i < 10; ++i) text += "{\"text\": \"" + (i == 4 ? word : "text" + std::to_string(i)) + "\"}\n";
    const std::string input = folder.file("in.jsonl");
    sft::io::write_file_atomically(input, text);
    (void)prepare({.inputs = {input},
                   .output = folder.file(name),
                   .max_length = 16,
                   .packing_strategy = PackingStrategy::none,
                   .num_shards = num_shards},
                  [](const char*, std::int64_t, std::int64_t) {});
    return folder.file(name);
  }
  static std::string fingerprint_of(const std::vector<std::string>& patterns) {
    return PackedDataset(patterns).fingerprint();
  }
  static std::string refusal(const std::vector<std::string>& patterns) {
    return data_error_of([&] { (void)PackedDataset(patterns); });
  }
};

std::vector<Row> make_rows() {
  std::vector<Row> rows;
  for (std::int32_t i = 0; i < 40; ++i) {
    rows.push_back({.tokens = {i, 1, 2, 3}, .loss_weight = {0, 1, 1, 0}, .document_lengths = {3}});
  }
  return rows;
}

}  // namespace
}  // namespace packed_dataset

BOOST_FIXTURE_TEST_SUITE(packed_dataset, packed_dataset::Fixture)

BOOST_AUTO_TEST_CASE(the_fingerprint_is_one_of_content_and_order) {
  const std::string one = prepare_set("one", 2), same = prepare_set("same", 2),
                    other = prepare_set("other", 2, "sword");
  const std::string fingerprint = fingerprint_of({one + "/*.h5"});
  BOOST_TEST(fingerprint.starts_with("xxh128:"));
  BOOST_TEST(fingerprint == fingerprint_of({same + "/*.h5"}));
  BOOST_TEST(fingerprint != fingerprint_of({other + "/*.h5"}));
  BOOST_TEST(fingerprint != fingerprint_of({one + "/train-00001.h5", one + "/train-00000.h5"}));
  BOOST_TEST(fingerprint != fingerprint_of({one + "/*.h5", same + "/*.h5"}));
}

BOOST_AUTO_TEST_CASE(files_of_other_tools_get_one_from_some_of_their_rows) {
  std::vector<Row> rows = make_rows();
  const std::string path = folder.file("train.h5");
  sft::test::write_packed_file(path, rows, 64);
  const std::string fingerprint = fingerprint_of({path});
  BOOST_TEST(fingerprint.starts_with("sampled-xxh128:"));
  BOOST_TEST(fingerprint == fingerprint_of({path}));
  rows[0].tokens[1] = 7;
  sft::test::write_packed_file(path, rows, 64);
  BOOST_TEST(fingerprint != fingerprint_of({path}));
}

BOOST_AUTO_TEST_CASE(a_missing_shard_is_named) {
  const std::string set = prepare_set("set", 3), twin = prepare_set("twin", 3), single = prepare_set("single", 1);
  BOOST_TEST(refusal({set + "/*.h5"}) == "");
  BOOST_TEST(refusal({set + "/*.h5", twin + "/*.h5", single + "/*.h5"}) == "");
  BOOST_TEST(mentions(refusal({set + "/train-00000.h5", set + "/train-00002.h5"}),
                      {"shard 1 of 3", set + "/train-00000.h5", "train-00001.h5", "2 files", "sft-prepare"}));
  BOOST_TEST(mentions(refusal({set + "/*.h5", twin + "/train-00000.h5"}), {"shard 1 of 3"}));
  fs::remove(set + "/train-00002.h5");
  BOOST_TEST(mentions(refusal({set + "/*.h5"}), {"shard 2 of 3", set + "/train-00002.h5"}));
}

BOOST_AUTO_TEST_CASE(of_many_shards_few_are_open_and_none_may_change) {
  constexpr int num_shards = 40;
  std::vector<Row> rows = make_rows();
  for (int shard = 0; shard < num_shards; ++shard) {
    rows[0].tokens[0] = shard;
    sft::test::write_packed_file(folder.file("train-" + std::to_string(100 + shard) + ".h5"), rows, 64);
  }
  const auto num_open = [] { return std::distance(fs::directory_iterator("/proc/self/fd"), fs::directory_iterator()); };
  const std::ptrdiff_t before = num_open();
  const PackedDataset dataset({folder.file("train-*.h5")});
  for (const int step : {7, 1}) {
    for (int i = 0; i < num_shards; ++i) {
      const int shard = i * step % num_shards;
      BOOST_TEST(dataset.read_row(shard * std::ssize(rows)).tokens[0] == shard);
    }
  }
  BOOST_TEST(num_open() - before == 16);
  const std::string changed = folder.file("train-100.h5");
  sft::test::write_packed_file(changed, make_rows(), 60);
  fs::last_write_time(changed, fs::last_write_time(changed) + std::chrono::seconds(2));
  BOOST_TEST(mentions(data_error_of([&] { (void)dataset.read_row(0); }), {changed, "changed"}));
}

BOOST_AUTO_TEST_CASE(rows_are_counted_and_hashed_when_asked) {
  const std::string path = prepare_set("set", 1) + "/train-00000.h5";
  const auto verify = [&] { return data_error_of([&] { PackedDataset({path}).verify(); }); };
  BOOST_TEST(verify() == "");
  const auto with_int = [&](const char* name, std::int64_t change) {
    sft::io::Hdf5File file = sft::io::Hdf5File::extend(path);
    file.write_int(name, file.read_int(name) + change);
    file.close();
    BOOST_TEST(mentions(verify(), {path, "was changed after it was written"}));  // until it is sealed again
    sft::io::seal(path);
  };
  with_int("num_target_tokens", -1);
  BOOST_TEST(mentions(verify(), {path, "num_target_tokens"}));
  with_int("num_target_tokens", 1);
  sft::io::Hdf5File file = sft::io::Hdf5File::extend(path);
  const std::int32_t token = 'x';
  file.write("/tokens", sft::io::Number::int32, {.row_begin = 3, .num_rows = 1, .num_columns = 1}, &token);
  file.close();
  sft::io::seal(path);
  BOOST_TEST(mentions(verify(), {path, "fingerprint"}));
}

BOOST_AUTO_TEST_CASE(facts_make_the_same_data_set_which_opens_a_shard_at_its_first_row) {
  const std::string path = prepare_set("set", 3);
  const PackedDataset dataset({path + "/*.h5"});
  const PackedDataset other = PackedDataset::from_facts(dataset.facts());
  BOOST_TEST(other.files() == dataset.files(), boost::test_tools::per_element());
  BOOST_TEST(other.num_rows() == dataset.num_rows());
  BOOST_TEST(other.num_documents() == dataset.num_documents());
  BOOST_TEST(other.num_tokens() == dataset.num_tokens());
  BOOST_TEST(other.num_target_tokens() == dataset.num_target_tokens());
  BOOST_TEST(other.max_length() == dataset.max_length());
  BOOST_TEST(other.vocab_size() == dataset.vocab_size());
  BOOST_TEST(other.tokenizer() == dataset.tokenizer());
  BOOST_TEST(other.tokenizer_fingerprint() == dataset.tokenizer_fingerprint());
  BOOST_TEST(other.fingerprint() == dataset.fingerprint());
  BOOST_TEST(other.has_row_counts());

  // A copy on another machine has another time; another file is not taken for it.
  const std::vector<std::int32_t> tokens = dataset.read_row(0).tokens;
  fs::last_write_time(path + "/train-00000.h5", fs::file_time_type::clock::now());
  fs::remove(path + "/train-00001.h5");
  BOOST_TEST(other.read_row(0).tokens == tokens, boost::test_tools::per_element());
  fs::copy_file(prepare_set("twin", 3, "else") + "/train-00001.h5", path + "/train-00001.h5");
  BOOST_TEST(mentions(data_error_of([&] { (void)other.read_row(4); }), {path + "/train-00001.h5", "opened"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)other.read_row(4); }), {path + "/train-00001.h5", "opened"}));
}

BOOST_AUTO_TEST_CASE(a_shard_that_another_program_opens_for_writing_during_a_run_stays_the_same) {
  const std::string path = prepare_set("set", 3);
  const PackedDataset dataset({path + "/*.h5"});
  const PackedDataset of_other_rank = PackedDataset::from_facts(dataset.facts());
  const std::vector<std::int32_t> tokens = dataset.read_row(0).tokens;
  // HDF5 cuts off the hashes behind the end that the first line of the file says.
  const std::string file = path + "/train-00000.h5";
  std::istringstream seal(sft::io::read_file(file).substr(0, sft::io::seal_bytes));
  std::string name, version;
  std::uintmax_t end = 0;
  seal >> name >> version >> end;
  fs::resize_file(file, end);
  BOOST_TEST(dataset.read_row(0).tokens == tokens, boost::test_tools::per_element());
  BOOST_TEST(of_other_rank.read_row(0).tokens == tokens, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(the_table_of_rows_is_that_of_the_rows) {
  const std::string pattern = prepare_set("set", 4) + "/*.h5";
  const PackedDataset held({pattern}, {.lengths = true, .counts = true});
  const PackedDataset dataset({pattern});
  BOOST_TEST(dataset.row_table().lengths.empty());
  BOOST_TEST(dataset.row_table().counts.empty());
  BOOST_TEST(held.row_table().lengths == dataset.row_lengths(), boost::test_tools::per_element());
  BOOST_TEST((held.row_table().counts == dataset.row_counts()));
  BOOST_TEST(std::ssize(held.row_table().counts) == dataset.num_rows());
  for (std::int64_t index = 0; index < dataset.num_rows(); ++index) {
    const Row row = dataset.read_row(index);
    BOOST_TEST((held.row_table().counts[index] == count_row(row.document_lengths, row.loss_weight)));
    BOOST_TEST(held.row_table().lengths[index] == held.row_table().counts[index].num_tokens);
  }
}

BOOST_AUTO_TEST_CASE(shards_without_a_table_of_rows_have_the_lengths_of_their_documents) {
  sft::test::write_packed_file(folder.file("old.h5"), make_rows(), 60);
  const std::string mixed = folder.file("*.h5");
  const PackedDataset dataset({mixed}, {.lengths = true, .counts = true});
  BOOST_TEST(!dataset.has_row_counts());
  BOOST_TEST(dataset.row_table().counts.empty());
  BOOST_TEST(dataset.row_table().lengths == std::vector<std::int32_t>(40, 3), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_wrong_table_of_rows_is_found) {
  const std::string path = prepare_set("set", 1) + "/train-00000.h5";
  const auto with = [&](const char* column, sft::io::Number number, const auto& value) {
    sft::io::Hdf5File file = sft::io::Hdf5File::extend(path);
    file.write(column, number, {.row_begin = 2, .num_rows = 1}, &value);
    file.close();
    sft::io::seal(path);
  };
  with("/row_weight_sum", sft::io::Number::float64, 99.0);
  BOOST_TEST(mentions(data_error_of([&] { PackedDataset({path}).verify(); }), {path, "row 2", "table of rows"}));
  const PackedDataset dataset({path});
  Loader loader(dataset, {.micro_batches = 2, .last_step = 5, .shuffle = false});
  (void)loader.next();
  (void)loader.next();
  BOOST_TEST(mentions(data_error_of([&] { (void)loader.next(); }), {path, "row 2", "table of rows"}));
}

BOOST_AUTO_TEST_SUITE_END()
