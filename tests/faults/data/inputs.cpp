// SPDX-License-Identifier: Apache-2.0
// Bad input of sft-prepare: each is refused by a data Error that names the place, and nothing is written.

#include <boost/test/unit_test.hpp>
#include <filesystem>

#include "sft/io/files.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

using sft::prepare::PackingStrategy;
using sft::test::data_error_of;
using sft::test::mentions;

namespace inputs {
namespace {

struct Fixture {
  sft::test::TemporaryFolder folder;
  const std::string input = folder.file("in.jsonl");
  const std::string output = folder.file("out");

  std::string run(const std::vector<std::string>& patterns, PackingStrategy strategy = PackingStrategy::bfd) const {
    const sft::prepare::PrepareOptions options = {
        .inputs = patterns, .output = output, .max_length = 16, .packing_strategy = strategy};
    return data_error_of([&] { (void)sft::prepare::prepare(options, [](const char*, std::int64_t, std::int64_t) {}); });
  }
  std::string run_on(const std::string& text, PackingStrategy strategy = PackingStrategy::bfd) const {
    sft::io::write_file_atomically(input, text);
    return run({input}, strategy);
  }
};

}  // namespace
}  // namespace inputs

BOOST_FIXTURE_TEST_SUITE(inputs, inputs::Fixture)

BOOST_AUTO_TEST_CASE(bad_records_are_named_by_file_and_line) {
  const std::string good = "{\"text\": \"good\"}\n";
  BOOST_TEST(mentions(run_on(good + "\n" + "{\"text\": 3}\n"), {input + ":3: bad record", "number"}));
  BOOST_TEST(mentions(run_on(good + good + "{\"text\": \"cut he"), {input + ":3: bad record", "not JSON"}));
  BOOST_TEST(mentions(run_on("[\"text\"]\n"), {input + ":1: bad record", "the record is string"}));
  BOOST_TEST(mentions(run_on(good + "{\"text\": \"a\", \"x\": 1e}\n"), {input + ":2: bad record", "not JSON"}));
  BOOST_TEST(mentions(run_on(good + "{\"text\": \"a\"}" + std::string(1, '\0') + "{\"text\": \"lost\"}\n"),
                      {input + ":2: bad record", "column 14 is a NUL byte"}));
  BOOST_TEST(!std::filesystem::exists(output));
}

BOOST_AUTO_TEST_CASE(input_that_leaves_nothing) {
  BOOST_TEST(mentions(run_on(""), {input, "there is no record"}));
  BOOST_TEST(mentions(run_on("\n \n\r\n"), {input, "there is no record"}));
  BOOST_TEST(mentions(run_on("{\"prompt\": \"longer than sixteen\", \"completion\": \"x\"}"),
                      {input, "none of its 1 records", "max_length = 16"}));
  for (const PackingStrategy strategy : {PackingStrategy::none, PackingStrategy::bfd_split, PackingStrategy::wrapped}) {
    BOOST_TEST(mentions(run_on("{\"text\": \"\"}\n", strategy), {input, "none of its 1 records"}));
  }
  BOOST_TEST(!std::filesystem::exists(output));
}

BOOST_AUTO_TEST_CASE(assistants_under_another_name) {
  sft::io::write_file_atomically(
      input, R"({"messages": [{"role": "human", "content": "Hi"}, {"role": "gpt", "content": "Yo"}]})");
  const sft::prepare::PrepareOptions options = {
      .inputs = {input}, .output = output, .example = {.assistant_only_loss = true}};
  BOOST_TEST(mentions(
      data_error_of([&] { (void)sft::prepare::prepare(options, [](const char*, std::int64_t, std::int64_t) {}); }),
      {input, "the role 'assistant', which none of its messages has", "'gpt'"}));
}

BOOST_AUTO_TEST_CASE(missing_inputs) {
  BOOST_TEST(mentions(run({folder.file("no.jsonl")}), {folder.file("no.jsonl")}));
  BOOST_TEST(mentions(run({folder.file("*.jsonl")}), {folder.file("*.jsonl")}));
  BOOST_TEST(mentions(run({folder.path()}), {folder.path(), "it is a folder"}));
}

BOOST_AUTO_TEST_CASE(a_file_named_twice) {
  sft::io::write_file_atomically(input, "{\"text\": \"good\"}\n");
  BOOST_TEST(mentions(run({input, folder.file("*.jsonl")}), {input, "twice"}));
  BOOST_TEST(mentions(run({input, folder.path() + "/./in.jsonl"}), {folder.path() + "/./in.jsonl", "twice"}));
}

BOOST_AUTO_TEST_CASE(a_folder_with_shards_is_not_overwritten) {
  BOOST_TEST(run_on("{\"text\": \"good\"}\n") == "");
  const std::string former = sft::io::read_file(output + "/train-00000.h5");
  BOOST_TEST(mentions(run_on("{\"text\": \"other\"}\n"), {output, "already holds", "train-00000.h5"}));
  BOOST_TEST((sft::io::read_file(output + "/train-00000.h5") == former));
}

BOOST_AUTO_TEST_CASE(what_a_killed_run_named_is_not_taken_for_packed_data) {
  BOOST_TEST(run_on("{\"text\": \"good\"}\n") == "");
  std::filesystem::rename(output + "/train-00000.h5", output + "/train-00003.h5");
  BOOST_TEST(mentions(run_on("{\"text\": \"good\"}\n"), {output, "a part of", "train-00003.h5", "killed"}));
}

BOOST_AUTO_TEST_CASE(a_shard_that_cannot_get_its_name_takes_those_of_the_others_back) {
  sft::io::write_file_atomically(input, "{\"text\": \"one\"}\n{\"text\": \"two\"}\n{\"text\": \"three\"}\n");
  const sft::prepare::PrepareOptions options = {.inputs = {input},
                                                .output = output,
                                                .max_length = 8,
                                                .packing_strategy = sft::prepare::PackingStrategy::none,
                                                .num_shards = 3};
  const std::string in_the_way = output + "/train-00001.h5";
  const auto stand_in_the_way = [&](const char* stage, std::int64_t done, std::int64_t total) {
    if (std::string(stage) == "writing" && done == total) std::filesystem::create_directories(in_the_way);
  };
  BOOST_TEST(mentions(data_error_of([&] { (void)sft::prepare::prepare(options, stand_in_the_way); }), {in_the_way}));
  std::filesystem::remove(in_the_way);
  for (const auto& entry : std::filesystem::directory_iterator(output)) {
    BOOST_TEST(entry.path().extension().string() == ".tmp");
  }
  const sft::prepare::PrepareSummary summary =
      sft::prepare::prepare(options, [](const char*, std::int64_t, std::int64_t) {});
  BOOST_TEST(summary.num_kept_shards == 3);
  BOOST_TEST(sft::rows::PackedDataset(summary.train().files).num_rows() == 3);
}

BOOST_AUTO_TEST_CASE(an_output_that_cannot_be_made) {
  sft::io::write_file_atomically(output, "a file is in the way");
  BOOST_TEST(mentions(run_on("{\"text\": \"good\"}\n"), {output}));
}

BOOST_AUTO_TEST_SUITE_END()
