// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/prepare.hpp"

#include <sys/inotify.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <map>
#include <random>
#include <set>
#include <stdexcept>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/rows/loader.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/text/byte_tokenizer.hpp"
#include "support/packed_file.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::prepare;
using namespace sft::rows;

namespace prepare_shards {
namespace {

const sft::text::ByteTokenizer tokenizer;

void ignore_progress(const char*, std::int64_t, std::int64_t) {}

struct Fixture {
  Fixture() {
    options.inputs = {folder.file("*.jsonl")};
    options.output = folder.file("out");
    options.max_length = 16;
  }
  void write(const std::string& name, const std::string& text) const {
    sft::io::write_file_atomically(folder.file(name), text);
  }
  PrepareSummary run() const { return prepare(options, ignore_progress); }
  PackedDataset open() const { return PackedDataset({options.output + "/train-*.h5"}); }

  /// Documents of the data set as text.
  static std::multiset<std::string> documents_of(const PackedDataset& dataset) {
    std::multiset<std::string> documents;
    for (std::int64_t r = 0; r < dataset.num_rows(); ++r) {
      const Row row = dataset.read_row(r);
      std::size_t begin = 0;
      for (const std::int32_t length : row.document_lengths) {
        documents.insert(tokenizer.decode(std::span(row.tokens).subspan(begin, static_cast<std::size_t>(length))));
        begin += static_cast<std::size_t>(length);
      }
    }
    return documents;
  }

  sft::test::TemporaryFolder folder;
  PrepareOptions options;
};

/// Records of all shapes and lengths, the same on every machine.
std::string random_corpus(std::uint32_t seed, int num_records) {
  std::mt19937 generator(seed);
  const auto below = [&generator](std::uint32_t bound) { return static_cast<std::uint32_t>(generator() % bound); };
  const auto letters = [&](std::uint32_t max_size) {
    std::string text(below(max_size + 1), ' ');
    for (char& c : text) c = static_cast<char>('a' + below(26));
    return text;
  };
  std::string corpus;
  for (int i = 0; i < num_records; ++i) {
    const std::uint32_t shape = below(3);
    const std::uint32_t max_size = below(8) == 0 ? 400 : 60;
    const std::string first = letters(max_size);
    const std::string second = letters(max_size);
    if (shape == 0) {
      corpus += "{\"text\": \"" + first + second + "\"}\n";
    } else if (shape == 1) {
      corpus += "{\"prompt\": \"" + first + "\", \"completion\": \"" + second + "\"}\n";
    } else {
      corpus += "{\"messages\": [{\"role\": \"user\", \"content\": \"" + first +
                "\"}, {\"role\": \"assistant\", \"content\": \"" + second + "\"}]}\n";
    }
  }
  return corpus;
}

/// FNV-1a over the tokens, weights and document lengths of all rows in order.
std::uint64_t digest_of(const PackedDataset& dataset) {
  std::uint64_t digest = 0xcbf29ce484222325u;
  const auto take = [&digest](std::uint32_t value) { digest = (digest ^ value) * 0x100000001b3u; };
  for (std::int64_t r = 0; r < dataset.num_rows(); ++r) {
    const Row row = dataset.read_row(r);
    for (const std::int32_t token : row.tokens) take(static_cast<std::uint32_t>(token));
    for (const float weight : row.loss_weight) take(std::bit_cast<std::uint32_t>(weight));
    take(static_cast<std::uint32_t>(row.document_lengths.size()));
    for (const std::int32_t length : row.document_lengths) take(static_cast<std::uint32_t>(length));
  }
  return digest;
}

bool is_configuration_error(const sft::Error& error) { return error.status() == sft::ExitStatus::configuration; }

}  // namespace
}  // namespace prepare_shards

BOOST_FIXTURE_TEST_SUITE(prepare_shards, prepare_shards::Fixture)

BOOST_AUTO_TEST_CASE(what_was_prepared_reads_back) {
  write("a.jsonl", "{\"prompt\": \"ab\", \"completion\": \"cde\"}\n\n{\"text\": \"xy\"}\r\n");
  write("b.jsonl", "{\"text\": \"0123456789\"}");  // the last line has no newline
  const PrepareSummary summary = run();
  BOOST_TEST(summary.num_records == 3);
  BOOST_TEST(summary.train().num_documents == 3);
  BOOST_TEST(summary.train().num_tokens == 6 + 3 + 11);
  BOOST_TEST(summary.train().num_target_tokens == 4 + 2 + 10);
  BOOST_TEST(summary.train().num_rows == 2);
  BOOST_TEST(summary.train().num_padding_tokens == 2 * 16 - 20);
  BOOST_TEST(summary.train().packing_efficiency() == 20.0 / 32.0);
  BOOST_TEST(summary.train().files == std::vector<std::string>{options.output + "/train-00000.h5"});

  const PackedDataset dataset = open();
  BOOST_TEST(dataset.num_rows() == 2);
  BOOST_TEST(dataset.max_length() == 16);
  BOOST_TEST(dataset.vocab_size() == 272);
  BOOST_TEST(dataset.tokenizer() == "byte");
  BOOST_TEST(dataset.tokenizer_fingerprint() == tokenizer.fingerprint());
  BOOST_TEST(dataset.pad_token_id() == tokenizer.pad());
  BOOST_TEST(dataset.eos_token_id() == tokenizer.eos());
  BOOST_TEST(dataset.num_documents() == 3);
  BOOST_TEST(dataset.num_tokens() == 20);
  BOOST_TEST(dataset.num_target_tokens() == 16);

  const Row first = dataset.read_row(0), second = dataset.read_row(1);
  BOOST_TEST(first.document_lengths == (std::vector<std::int32_t>{11, 3}));
  BOOST_TEST(tokenizer.decode(first.tokens) == "0123456789<|eos|>xy<|eos|><|pad|><|pad|>");
  BOOST_TEST(first.loss_weight == (std::vector<float>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 1, 1, 0, 0}));
  BOOST_TEST(second.document_lengths == std::vector<std::int32_t>{6});
  BOOST_TEST(second.loss_weight == (std::vector<float>{0, 0, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}));
}

BOOST_AUTO_TEST_CASE(shards_differ_by_one_row_at_most_and_hold_every_document_once) {
  std::string text;
  std::multiset<std::string> expected;
  for (int i = 0; i < 200; ++i) {
    const std::string document(static_cast<std::size_t>(1 + i * 7 % 15), static_cast<char>('a' + i % 26));
    text += "{\"text\": \"" + document + "\"}\n";
    expected.insert(document + "<|eos|>");
  }
  write("a.jsonl", text);
  options.num_shards = 7;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.train().files.size() == 7u);
  std::int64_t fewest = summary.train().num_rows, most = 0;
  for (const std::string& file : summary.train().files) {
    const std::int64_t num_rows = sft::io::Hdf5File::open(file).read_int("num_rows");
    fewest = std::min(fewest, num_rows);
    most = std::max(most, num_rows);
  }
  BOOST_TEST(most - fewest <= 1);
  const PackedDataset dataset = open();
  BOOST_TEST(dataset.num_rows() == summary.train().num_rows);
  BOOST_TEST((dataset.files() == summary.train().files));
  BOOST_TEST((documents_of(dataset) == expected));
}

BOOST_AUTO_TEST_CASE(without_packing_documents_without_a_label_left_are_dropped) {
  write("a.jsonl",
        "{\"prompt\": \"0123456789012345\", \"completion\": \"lost\"}\n"
        "{\"prompt\": \"012345678901234\", \"completion\": \"kept\"}\n"
        "{\"text\": \"\"}\n");
  options.packing_strategy = PackingStrategy::none;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.num_records == 3);
  BOOST_TEST(summary.num_dropped == 1);
  BOOST_TEST(summary.num_without_target == 2);  // the empty text has a label, which nothing predicts
  BOOST_TEST(summary.num_too_long == 2);
  BOOST_TEST(summary.num_truncated == 1);
  BOOST_TEST((documents_of(open()) == std::multiset<std::string>{"012345678901234k", "<|eos|>"}));

  options.packing_strategy = PackingStrategy::bfd;
  options.output = folder.file("packed");
  const PrepareSummary packed = run();
  BOOST_TEST(packed.num_dropped == 0);
  BOOST_TEST(packed.num_without_target == 2);
  BOOST_TEST(packed.train().num_documents == 3);
}

BOOST_AUTO_TEST_CASE(splitting_keeps_every_token) {
  write("a.jsonl", "{\"prompt\": \"0123456789012345\", \"completion\": \"kept\"}\n{\"text\": \"ab\"}\n");
  options.packing_strategy = PackingStrategy::bfd_split;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.num_dropped == 0);
  BOOST_TEST(summary.num_truncated == 0);
  BOOST_TEST((documents_of(open()) == std::multiset<std::string>{"0123456789012345", "ab<|eos|>", "kept<|eos|>"}));
  BOOST_TEST(summary.train().num_target_tokens == 4 + 2);  // the first token of a piece cannot be predicted
}

BOOST_AUTO_TEST_CASE(wrapping_makes_one_document_of_a_row) {
  write("a.jsonl", "{\"text\": \"0123456789\"}\n{\"text\": \"abcdefghij\"}\n");
  options.packing_strategy = PackingStrategy::wrapped;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.train().num_documents == 2);
  BOOST_TEST(summary.train().num_tokens == 22);
  BOOST_TEST(summary.train().num_target_tokens == 20);
  BOOST_TEST((documents_of(open()) == std::multiset<std::string>{"0123456789<|eos|>abcde", "fghij<|eos|>"}));
}

BOOST_AUTO_TEST_CASE(without_packing_every_document_is_a_row_in_order) {
  write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"bcd\"}\n{\"text\": \"ef\"}\n");
  options.packing_strategy = PackingStrategy::none;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.train().num_rows == 3);
  const PackedDataset dataset = open();
  BOOST_TEST(dataset.read_row(1).document_lengths == std::vector<std::int32_t>{4});
  BOOST_TEST(dataset.read_row(1).tokens[0] == 'b');
  BOOST_TEST(dataset.read_row(2).tokens[0] == 'e');
}

BOOST_AUTO_TEST_CASE(rows_are_padded_to_a_multiple_and_documents_cut_at_max_length) {
  write("a.jsonl", "{\"text\": \"0123456789abcdefghij\"}\n");
  options.max_length = 10;
  options.pad_to_multiple_of = 8;
  const PrepareSummary summary = run();
  BOOST_TEST(summary.row_length == 16);
  BOOST_TEST(summary.train().num_padding_tokens == 6);
  const PackedDataset dataset = open();
  BOOST_TEST(dataset.max_length() == 16);
  BOOST_TEST(dataset.read_row(0).tokens.size() == 16u);
  BOOST_TEST((documents_of(dataset) == std::multiset<std::string>{"0123456789"}));
}

BOOST_AUTO_TEST_CASE(shuffling_depends_on_the_seed_alone) {
  std::string text;
  for (char c = 'a'; c <= 'z'; ++c) text += std::string("{\"text\": \"") + c + c + "\"}\n";
  write("a.jsonl", text);
  options.packing_strategy = PackingStrategy::none;
  options.shuffle_dataset = true;
  const auto order_with = [this](std::uint64_t seed, const std::string& name) {
    options.seed = seed;
    options.output = folder.file(name);
    (void)run();
    const PackedDataset dataset = open();
    std::string order;
    for (std::int64_t r = 0; r < dataset.num_rows(); ++r) order += static_cast<char>(dataset.read_row(r).tokens[0]);
    return order;
  };
  const std::string order = order_with(1, "one");
  BOOST_TEST(order != "abcdefghijklmnopqrstuvwxyz");
  BOOST_TEST(order == order_with(1, "again"));
  BOOST_TEST(order != order_with(2, "two"));
  BOOST_TEST(std::set<char>(order.begin(), order.end()).size() == 26u);
}

BOOST_AUTO_TEST_CASE(progress_rises_to_the_whole_of_each_stage) {
  write("a.jsonl", "{\"text\": \"a\"}\n{\"text\": \"bcd\"}");
  std::map<std::string, std::int64_t> last, total;
  (void)prepare(options, [&](const std::string& stage, std::int64_t done, std::int64_t all) {
    BOOST_TEST(done >= last[stage]);
    last[stage] = done;
    total[stage] = all;
  });
  BOOST_TEST((last == total));
  BOOST_TEST(last.size() == 2u);
}

BOOST_AUTO_TEST_CASE(the_first_shard_gets_its_name_last_so_that_where_it_is_all_are) {
  write("a.jsonl", "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n");
  options.packing_strategy = PackingStrategy::none;
  options.num_shards = 3;
  std::filesystem::create_directory(options.output);
  const int watch = ::inotify_init1(IN_NONBLOCK);
  BOOST_REQUIRE(::inotify_add_watch(watch, options.output.c_str(), IN_MOVED_TO) >= 0);
  (void)run();
  alignas(inotify_event) std::array<char, 4096> events;
  const ssize_t size = ::read(watch, events.data(), events.size());
  ::close(watch);
  std::vector<std::string> names;
  for (ssize_t at = 0; at < size;) {
    const auto* event = reinterpret_cast<const inotify_event*>(events.data() + at);
    names.emplace_back(event->name);
    at += static_cast<ssize_t>(sizeof(inotify_event)) + event->len;
  }
  BOOST_TEST((names == std::vector<std::string>{"train-00002.h5", "train-00001.h5", "train-00000.h5"}));
}

BOOST_AUTO_TEST_CASE(nothing_but_the_shards_is_left_behind) {
  write("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"0123456789012345\"}\n");
  options.num_shards = 2;
  (void)run();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(options.output)) names.insert(entry.path().filename());
  BOOST_TEST((names == std::set<std::string>{"train-00000.h5", "train-00001.h5"}));
}

BOOST_AUTO_TEST_CASE(the_rows_of_a_random_corpus_are_fixed) {
  write("a.jsonl", random_corpus(1, 700));
  write("b.jsonl", random_corpus(2, 300));
  options.max_length = 96;
  options.pad_to_multiple_of = 8;
  options.num_shards = 3;
  const auto digest_with = [this](PackingStrategy strategy, bool shuffle) {
    options.packing_strategy = strategy;
    options.shuffle_dataset = shuffle;
    options.output = folder.file(std::string(name_of(strategy)) + (shuffle ? "-shuffled" : ""));
    (void)run();
    return digest_of(open());
  };
  BOOST_TEST(digest_with(PackingStrategy::none, false) == 16273000493825330609u);
  BOOST_TEST(digest_with(PackingStrategy::none, true) == 11202735656537967401u);
  BOOST_TEST(digest_with(PackingStrategy::bfd, false) == 13626080943846389350u);
  BOOST_TEST(digest_with(PackingStrategy::bfd, true) == 8545623146176052710u);
  BOOST_TEST(digest_with(PackingStrategy::bfd_split, false) == 17034379200007271693u);
  BOOST_TEST(digest_with(PackingStrategy::bfd_split, true) == 17990371760374929463u);
  BOOST_TEST(digest_with(PackingStrategy::wrapped, false) == 12968595994398887481u);
  BOOST_TEST(digest_with(PackingStrategy::wrapped, true) == 13832056245009484493u);
}

BOOST_AUTO_TEST_CASE(rows_are_padded_to_a_multiple) {
  write("a.jsonl", "{\"text\": \"abc\"}\n");
  options.max_length = 50;
  const auto length_with = [this](std::int64_t pad_to_multiple_of) {
    options.pad_to_multiple_of = pad_to_multiple_of;
    options.output = folder.file("x" + std::to_string(pad_to_multiple_of));
    (void)run();
    return open().max_length();
  };
  BOOST_TEST(length_with(1) == 50);
  BOOST_TEST(length_with(8) == 56);
  BOOST_TEST(length_with(25) == 50);
  BOOST_TEST(length_with(64) == 64);
}

BOOST_AUTO_TEST_CASE(an_exception_of_the_caller_leaves_what_is_finished_for_the_next_call) {
  write("a.jsonl", "{\"text\": \"abc\"}\n{\"text\": \"0123456789012345\"}\n");
  options.num_shards = 2;
  for (const std::string last : {"reading", "writing"}) {
    const auto stop = [&last](const std::string& stage, std::int64_t done, std::int64_t total) {
      if (stage == last && done == total) throw std::runtime_error("stopped");
    };
    BOOST_CHECK_THROW((void)prepare(options, stop), std::runtime_error);
    std::error_code no_folder;
    std::int64_t num_finished = 0;
    for (const auto& entry : std::filesystem::directory_iterator(options.output, no_folder)) {
      BOOST_TEST(entry.path().extension().string() == ".tmp");
      ++num_finished;
    }
    BOOST_TEST(num_finished == (last == "writing" ? 1 : 0));  // the exception came in the midst of the second
  }
  BOOST_TEST(run().num_kept_shards == 1);
  BOOST_TEST(std::distance(std::filesystem::directory_iterator(options.output), {}) == 2);
  const std::string fingerprint = open().fingerprint();
  options.output = folder.file("whole");
  BOOST_TEST(run().num_kept_shards == 0);
  BOOST_TEST(open().fingerprint() == fingerprint);
}

BOOST_AUTO_TEST_CASE(impossible_options_are_configuration_errors) {
  write("a.jsonl", "{\"text\": \"abc\"}\n");
  const auto refused = [this](auto change) {
    PrepareOptions changed = options;
    change(changed);
    BOOST_CHECK_EXCEPTION((void)prepare(changed, ignore_progress), sft::Error, is_configuration_error);
  };
  refused([](PrepareOptions& changed) { changed.max_length = 1; });
  refused([](PrepareOptions& changed) { changed.max_length = std::int64_t{1} << 40; });
  refused([](PrepareOptions& changed) { changed.pad_to_multiple_of = 0; });
  refused([](PrepareOptions& changed) { changed.pad_to_multiple_of = -8; });
  refused([](PrepareOptions& changed) { changed.pad_to_multiple_of = std::int64_t{1} << 62; });
  refused([](PrepareOptions& changed) { changed.num_shards = -1; });
  refused([](PrepareOptions& changed) { changed.num_shards = 2; });  // of one row
  refused([](PrepareOptions& changed) { changed.text.tokenizer = "bpe"; });
  BOOST_TEST(!std::filesystem::exists(options.output));
}

BOOST_AUTO_TEST_CASE(steps_are_counted_by_the_table_of_rows_as_by_their_labels) {
  std::string text;
  for (int i = 0; i < 60; ++i) {
    text += "{\"messages\": [{\"role\": \"user\", \"content\": \"" + std::string(1 + i % 7, 'q') +
            "\"}, {\"role\": \"assistant\", \"content\": \"" + std::string(1 + i % 11, 'a') + "\", \"weight\": 0." +
            std::to_string(1 + i % 9) + "}]}\n";
  }
  write("a.jsonl", text);
  options.max_length = 96;
  options.num_shards = 3;
  (void)run();
  const PackedDataset dataset = open();
  std::vector<Row> rows;
  for (std::int64_t i = 0; i < dataset.num_rows(); ++i) rows.push_back(dataset.read_row(i));
  sft::test::write_packed_file(folder.file("old.h5"), rows, dataset.vocab_size());
  const PackedDataset old({folder.file("old.h5")});
  BOOST_TEST(dataset.has_row_counts());
  BOOST_TEST(!old.has_row_counts());
  for (const int rank : {0, 1}) {
    const LoaderPlan plan{
        .rows_per_micro_batch = 2, .micro_batches = 3, .data_size = 2, .data_rank = rank, .last_step = 4};
    Loader counted(dataset, plan), labelled(old, plan);
    for (int i = 0; i < 12; ++i) {
      const MicroBatch batch = counted.next(), expected = labelled.next();
      BOOST_TEST(batch.rows == expected.rows, boost::test_tools::per_element());
      BOOST_TEST(batch.tokens == expected.tokens, boost::test_tools::per_element());
      BOOST_TEST((batch.counts == expected.counts));
      BOOST_TEST((batch.step_counts == expected.step_counts));  // bit by bit
    }
  }
}

BOOST_AUTO_TEST_CASE(parts_of_inputs) {
  write("a.jsonl",
        "{\"text\": \"a1\"}\n{\"text\": \"a2\"}\n{\"text\": \"a3\"}\n{\"text\": \"a4\"}\n{\"text\": \"a5\"}\n");
  write("b.jsonl", "{\"text\": \"b1\"}\n{\"text\": \"b2\"}\n");
  options.inputs = {folder.file("a.jsonl"), folder.file("b.jsonl")};
  options.input_slices = {*parse_input_slice("20%:-1"), *parse_input_slice(":1")};
  BOOST_TEST(run().num_left_out == 3);
  const std::multiset<std::string> documents = documents_of(open());
  BOOST_TEST(documents.size() == 4U);
  for (const char* text : {"a2", "a3", "a4", "b1"}) {
    BOOST_TEST(std::ranges::any_of(documents, [&](const std::string& document) { return document.starts_with(text); }));
  }
}

BOOST_AUTO_TEST_CASE(empty_slices_are_refused_as_such) {
  write("a.jsonl", "{\"text\": \"a1\"}\n{\"text\": \"a2\"}\n{\"text\": \"a3\"}\n");
  options.inputs = {folder.file("a.jsonl")};
  for (const std::string text : {"3:3", ":0", "2:1", "99:", "-1:-1", ":1%"}) {
    options.input_slices = {*parse_input_slice(text)};
    BOOST_CHECK_EXCEPTION((void)run(), sft::Error, [&](const sft::Error& error) {
      const std::string expected =
          "input_slice = " + text + " is empty (input 1 has 3 records, of which it takes none): ";
      return error.status() == sft::ExitStatus::configuration && std::string(error.what()).starts_with(expected);
    });
  }
}

BOOST_AUTO_TEST_CASE(slices_as_datasets_writes_them) {
  using Range = std::pair<std::int64_t, std::int64_t>;
  BOOST_TEST((parse_input_slice("10%:30%")->range_of(25) == Range{2, 8}));  // 2.5 and 7.5, halves to even
  BOOST_TEST((parse_input_slice("-3:")->range_of(10) == Range{7, 10}));
  BOOST_TEST((parse_input_slice(":99")->range_of(10) == Range{0, 10}));
  BOOST_TEST((parse_input_slice("8:2")->range_of(10) == Range{8, 8}));
  BOOST_TEST((parse_input_slice(":")->range_of(10) == Range{0, 10}));
  for (const char* text : {"20%", "a:b", "1.5:", ":200%", ""}) BOOST_TEST(!parse_input_slice(text), text);
}

BOOST_AUTO_TEST_SUITE_END()
