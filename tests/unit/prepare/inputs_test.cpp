// SPDX-License-Identifier: Apache-2.0
// Where records come from, in which order they are taken, and what is left when some are bad.

#include <zlib.h>
#include <zstd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <numeric>
#include <set>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/text/byte_tokenizer.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::prepare;
using namespace sft::rows;
using sft::test::data_error_of;
using sft::test::mentions;

namespace prepare_inputs {
namespace {

std::string gzipped(const std::string& text) {
  z_stream state{};
  BOOST_REQUIRE(::deflateInit2(&state, 6, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
  std::string packed(text.size() + 1000, '\0');
  state.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  state.avail_in = static_cast<uInt>(text.size());
  state.next_out = reinterpret_cast<Bytef*>(packed.data());
  state.avail_out = static_cast<uInt>(packed.size());
  BOOST_REQUIRE(::deflate(&state, Z_FINISH) == Z_STREAM_END);
  packed.resize(state.total_out);
  ::deflateEnd(&state);
  return packed;
}

std::string zstandard(const std::string& text) {
  std::string packed(::ZSTD_compressBound(text.size()), '\0');
  packed.resize(::ZSTD_compress(packed.data(), packed.size(), text.data(), text.size(), 3));
  return packed;
}

/// As pzstd writes it: before each frame one without data, which holds the size of the next.
std::string parallel_zstandard(const std::string& text) {
  const std::string frame = zstandard(text);
  std::string packed("\x50\x2a\x4d\x18\x04\0\0\0", 8);
  for (int shift = 0; shift < 32; shift += 8) packed += static_cast<char>(frame.size() >> shift);
  return packed + frame;
}

/// Lines of text records "first" to "last", single letters.
std::string letters(char first, char last) {
  std::string lines;
  for (char c = first; c <= last; ++c) lines += std::string(R"({"text": ")") + c + "\"}\n";
  return lines;
}

struct Fixture {
  Fixture() {
    options.max_length = 8;
    options.packing_strategy = PackingStrategy::none;
    options.output = folder.file("out");
  }
  void write(const std::string& name, const std::string& text) const {
    std::filesystem::create_directories(std::filesystem::path(folder.file(name)).parent_path());
    sft::io::write_file_atomically(folder.file(name), text);
  }
  PrepareSummary prepare_again() {
    std::filesystem::remove_all(options.output);
    return prepare(options, [](const char*, std::int64_t, std::int64_t) {});
  }
  /// The first letters of the documents in the files of a split.
  [[nodiscard]] std::string letters_of(const std::string& split = "train") const {
    const PackedDataset dataset({options.output + "/" + split + "-*.h5"});
    std::string text;
    for (std::int64_t r = 0; r < dataset.num_rows(); ++r) text += static_cast<char>(dataset.read_row(r).tokens[0]);
    return text;
  }
  std::string letters_from(const std::vector<std::string>& inputs) {
    options.inputs = inputs;
    (void)prepare_again();
    return letters_of();
  }
  std::string error_of(const std::vector<std::string>& inputs) {
    options.inputs = inputs;
    return data_error_of([&] { (void)prepare_again(); });
  }

  sft::test::TemporaryFolder folder;
  PrepareOptions options;
};

}  // namespace
}  // namespace prepare_inputs

BOOST_FIXTURE_TEST_SUITE(prepare_inputs, prepare_inputs::Fixture)

BOOST_AUTO_TEST_CASE(lines_arrays_and_compressed_files_hold_the_same_records) {
  write("plain.jsonl", letters('a', 'c'));
  write("mark.jsonl", "\xef\xbb\xbf\n" + letters('a', 'c'));
  write("array.json", "\n [ {\"text\": \"a\"},\n{\"text\": \"b\"\n} , {\"x\": \"[],\\\"}\", \"text\": \"c\"}]\n");
  write("packed.gz", gzipped(letters('a', 'b')) + gzipped(letters('c', 'c')));
  write("packed.zst", zstandard(letters('a', 'b')) + zstandard(letters('c', 'c')));
  write("parallel.zst", parallel_zstandard(letters('a', 'b')) + parallel_zstandard(letters('c', 'c')));
  for (const char* name : {"plain.jsonl", "mark.jsonl", "array.json", "packed.gz", "packed.zst", "parallel.zst"}) {
    BOOST_TEST_CONTEXT(name) { BOOST_TEST(letters_from({folder.file(name)}) == "abc"); }
  }
}

BOOST_AUTO_TEST_CASE(globs_are_taken_in_order) {
  write("data/b.jsonl", letters('c', 'd'));
  write("data/a.json.gz", gzipped(letters('a', 'b')));
  write("data/c.jsonl.zst", zstandard(letters('e', 'e')));
  write("data/notes.txt", "no data");
  write("more.jsonl", letters('x', 'y'));
  BOOST_TEST(letters_from({folder.file("more.jsonl"), folder.file("data/*.js*")}) == "xyabcde");
  BOOST_TEST(mentions(error_of({folder.file("data")}), {"it is a folder"}));
}

BOOST_AUTO_TEST_CASE(damaged_inputs_are_named) {
  const std::string packed = gzipped(letters('a', 'z'));
  write("cut.gz", packed.substr(0, packed.size() - 12));
  write("behind.gz", packed + "more");
  write("flipped.gz", packed.substr(0, 20) + "????" + packed.substr(24));
  write("cut.zst", zstandard(letters('a', 'z')).substr(0, 30));
  write("cut-parallel.zst", parallel_zstandard(letters('a', 'z')).substr(0, 30));
  write("open.json", "[{\"text\": \"a\"}\n");
  write("comma.json", "[{\"text\": \"a\"}\n{\"text\": \"b\"}]");
  write("empty.json", "[{\"text\": \"a\"},\n,{\"text\": \"b\"}]");
  write("behind.json", "[{\"text\": \"a\"}]\nx");
  BOOST_TEST(mentions(error_of({folder.file("cut.gz")}), {"cut.gz", "end early"}));
  BOOST_TEST(mentions(error_of({folder.file("behind.gz")}), {"behind.gz", "damaged"}));
  BOOST_TEST(mentions(error_of({folder.file("flipped.gz")}), {"flipped.gz", "damaged"}));
  BOOST_TEST(mentions(error_of({folder.file("cut.zst")}), {"cut.zst", "end early"}));
  BOOST_TEST(mentions(error_of({folder.file("cut-parallel.zst")}), {"cut-parallel.zst", "end early"}));
  write("long.zst", std::string("\x28\xb5\x2f\xfd\0\xa8\1\0\0", 9));  // a window of 2 GiB
  write("dictionary.zst", std::string("\x28\xb5\x2f\xfd\1\x58\7\1\0\0", 10));
  BOOST_TEST(mentions(error_of({folder.file("long.zst")}), {"further than 128 MiB", "zstd -dc --long=31"}));
  BOOST_TEST(mentions(error_of({folder.file("dictionary.zst")}), {"packed with a dictionary", "-D DICTIONARY"}));
  BOOST_TEST(mentions(error_of({folder.file("open.json")}), {"open.json:1", "does not end"}));
  BOOST_TEST(mentions(error_of({folder.file("comma.json")}), {"comma.json:1", "not JSON"}));
  BOOST_TEST(mentions(error_of({folder.file("empty.json")}), {"empty.json:2", "missing between two commas"}));
  BOOST_TEST(mentions(error_of({folder.file("behind.json")}), {"behind.json:2", "behind the array"}));
}

BOOST_AUTO_TEST_CASE(bad_records_are_skipped_and_listed_when_that_is_asked_for) {
  write("a.jsonl", letters('a', 'a') + "{\"text\": 1}\n" + letters('b', 'b') + "nonsense\n");
  options.inputs = {folder.file("a.jsonl")};
  options.skip_bad_records = true;
  const PrepareSummary summary = prepare_again();
  BOOST_TEST(letters_of() == "ab");
  BOOST_TEST(summary.num_records == 2);
  BOOST_TEST(summary.num_skipped == 2);
  BOOST_REQUIRE(summary.skipped.size() == 2u);
  BOOST_TEST(mentions(summary.skipped[0], {"a.jsonl:2: ", "number"}));
  BOOST_TEST(mentions(summary.skipped[1], {"a.jsonl:4: ", "not JSON"}));
}

BOOST_AUTO_TEST_CASE(any_number_of_threads_gives_the_same_files_and_the_first_error) {
  std::string lines;
  for (int i = 0; i < 3000; ++i) {
    lines += R"({"text": ")" + std::string(static_cast<std::size_t>(i % 7), 'x') + std::to_string(i) + R"(", "key)" +
             std::to_string(i % 200) + "\": 1}\n";
  }
  write("a.jsonl", lines);
  options.inputs = {folder.file("a.jsonl")};
  options.packing_strategy = PackingStrategy::bfd;
  options.max_length = 64;
  options.num_threads = 1;
  const PrepareSummary serial = prepare_again();
  const std::string expected = PackedDataset({options.output + "/train-*.h5"}).fingerprint();
  for (const int num_threads : {2, 5}) {
    options.num_threads = num_threads;
    const PrepareSummary parallel = prepare_again();
    BOOST_TEST(PackedDataset({options.output + "/train-*.h5"}).fingerprint() == expected);
    BOOST_TEST((parallel.census.ignored_fields.by_name() == serial.census.ignored_fields.by_name()));
    BOOST_TEST(parallel.census.ignored_fields.num_others() == serial.census.ignored_fields.num_others());
  }
  write("bad.jsonl", lines + "first\n" + lines + "second\n");
  BOOST_TEST(mentions(error_of({folder.file("bad.jsonl")}), {"bad.jsonl:3001: "}));
}

BOOST_AUTO_TEST_CASE(documents_are_held_back_by_share_or_number) {
  write("a.jsonl", letters('a', 'z'));
  options.inputs = {folder.file("a.jsonl")};
  options.eval_split = 5;
  const PrepareSummary summary = prepare_again();
  BOOST_REQUIRE(summary.splits.size() == 2u);
  BOOST_TEST(summary.splits[1].num_documents == 5);
  const std::string train = letters_of("train"), eval = letters_of("eval");
  BOOST_TEST(train.size() == 21u);
  BOOST_TEST(std::ranges::is_sorted(train));
  BOOST_TEST(std::ranges::is_sorted(eval));
  std::set<char> all(train.begin(), train.end());
  all.insert(eval.begin(), eval.end());
  BOOST_TEST(all.size() == 26u);

  options.eval_split = 0.5;
  options.seed = 7;
  BOOST_TEST(prepare_again().splits[1].num_documents == 13);
  BOOST_TEST(letters_of("eval") != eval);
  options.eval_split = 26;
  BOOST_CHECK_THROW((void)prepare_again(), sft::Error);
  options.eval_split = 1.5;
  BOOST_CHECK_THROW((void)prepare_again(), sft::Error);
}

BOOST_AUTO_TEST_CASE(weights_mix_inputs_until_one_is_used_up) {
  write("a.jsonl", letters('a', 'j'));
  write("b.jsonl", letters('p', 's'));
  options.inputs = {folder.file("a.jsonl"), folder.file("b.jsonl")};
  options.input_weights = {1, 1};
  BOOST_TEST(prepare_again().num_left_out == 6);
  BOOST_TEST(letters_of() == "abcdpqrs");
  options.input_weights = {5.0, 1.0};
  (void)prepare_again();
  BOOST_TEST(letters_of() == "abcdefghijpq");
  options.input_weights = {1.0, 0.26};
  (void)prepare_again();
  BOOST_TEST(letters_of() == "abcdefghijpqr");  // 2.6 of them, rounded as by TRL
  options.inputs.push_back(folder.file("c.jsonl"));
  write("c.jsonl", letters('x', 'z'));
  options.input_groups = {0, 1, 1};
  options.input_weights = {1, 1};
  (void)prepare_again();
  BOOST_TEST(letters_of() == "abcdefgpqrsxyz");
  options.input_weights = {1};
  BOOST_CHECK_THROW((void)prepare_again(), sft::Error);
  options.input_weights = {1, 0};
  BOOST_CHECK_THROW((void)prepare_again(), sft::Error);
}

BOOST_AUTO_TEST_CASE(shuffled_rows_are_those_of_numpy) {
  write("a.jsonl", letters('a', 'j'));
  options.inputs = {folder.file("a.jsonl")};
  options.shuffle_dataset = true;
  (void)prepare_again();
  BOOST_TEST(letters_of() == "fgahdcejbi");  // default_rng(42).permutation(10): 5 6 0 7 3 2 4 9 1 8
}

BOOST_AUTO_TEST_CASE(the_end_of_documents_may_be_kept_and_rows_may_have_no_limit) {
  write("a.jsonl",
        "{\"text\": \"0123456789\"}\n{\"text\": \"ab\"}\n{\"prompt\": \"long prompt\", \"completion\": \"x\"}\n");
  options.inputs = {folder.file("a.jsonl")};
  options.keep_end = true;
  BOOST_TEST(prepare_again().num_truncated == 2);
  BOOST_TEST(letters_of() == "3ap");  // 3456789<eos>, ab<eos>, prompt + x<eos>
  options.keep_end = false;
  BOOST_TEST(prepare_again().num_dropped == 1);
  options.max_length = PrepareOptions::no_max_length;
  const PrepareSummary summary = prepare_again();
  BOOST_TEST(summary.row_length == 13);
  BOOST_TEST(summary.num_dropped == 0);
  BOOST_TEST(letters_of() == "0al");
}

BOOST_AUTO_TEST_CASE(data_of_another_tokenizer_are_told_by_its_fingerprint) {
  write("a.jsonl", letters('a', 'c'));
  options.inputs = {folder.file("a.jsonl")};
  (void)prepare_again();
  const PackedDataset dataset({options.output + "/train-*.h5"});
  BOOST_CHECK_NO_THROW(require_tokenizer(dataset, sft::text::ByteTokenizer().fingerprint(), "model"));
  BOOST_TEST(mentions(data_error_of([&] { require_tokenizer(dataset, "other", "the model"); }),
                      {"cannot train the model", "another tokenizer, byte"}));
}

BOOST_AUTO_TEST_SUITE_END()
