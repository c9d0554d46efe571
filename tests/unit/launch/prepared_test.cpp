// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/prepared.hpp"

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>

#include "support/temporary_folder.hpp"

using namespace sft;

BOOST_AUTO_TEST_SUITE(prepared)

BOOST_AUTO_TEST_CASE(fingerprint) {
  const test::TemporaryFolder folder;
  for (const char* name : {"in.jsonl", "other.jsonl", "program"}) std::ofstream(folder.file(name)) << "{}\n";
  std::filesystem::create_directories(folder.file("model"));
  std::ofstream(folder.file("model/tokenizer.json")) << "{}";
  const auto plan = [&](const std::string& input, const std::map<std::string, std::string>& options) {
    return launch::plan_preparation({{folder.file(input)}, {}}, folder.file("model"), options, folder.file("program"),
                                    folder.path());
  };
  const launch::Prepared first = plan("in.jsonl", {{"packing", "true"}});
  BOOST_TEST(!first.is_there);
  BOOST_TEST(plan("in.jsonl", {{"packing", "true"}}).folder == first.folder);
  BOOST_TEST(plan("in.jsonl", {{"packing", "true"}, {"num_threads", "3"}}).folder == first.folder);
  BOOST_TEST(plan("in.jsonl", {{"packing", "false"}}).folder != first.folder);
  BOOST_TEST(plan("other.jsonl", {{"packing", "true"}}).folder != first.folder);

  std::filesystem::create_directories(first.folder);
  std::ofstream(first.folder + "/train-00000.h5") << "part";
  BOOST_TEST(!plan("in.jsonl", {{"packing", "true"}}).is_there);
  launch::remove_unfinished(first);
  BOOST_TEST(!std::filesystem::exists(first.folder + "/train-00000.h5"));
  launch::mark_prepared(first);
  BOOST_TEST(plan("in.jsonl", {{"packing", "true"}}).is_there);

  std::ofstream(folder.file("model/model.safetensors")) << "weights";
  BOOST_TEST(plan("in.jsonl", {{"packing", "true"}}).folder == first.folder);
  std::ofstream(folder.file("model/tokenizer.json")) << "{\"other\": 1}";
  BOOST_TEST(plan("in.jsonl", {{"packing", "true"}}).folder != first.folder);
}

BOOST_AUTO_TEST_CASE(a_changed_file) {
  const test::TemporaryFolder folder;
  for (const char* name : {"in.jsonl", "program"}) std::ofstream(folder.file(name)) << "{}\n";
  const auto plan = [&] {
    return launch::plan_preparation({{folder.file("in.jsonl")}, {}}, "", {}, folder.file("program"), folder.path())
        .folder;
  };
  const std::string before = plan();
  std::ofstream(folder.file("in.jsonl")) << "{}\n{}\n";
  BOOST_TEST(plan() != before);
}

BOOST_AUTO_TEST_CASE(a_changed_file_of_a_folder) {
  const test::TemporaryFolder folder;
  std::filesystem::create_directories(folder.file("saved"));
  for (const char* name : {"saved/data.arrow", "program"}) std::ofstream(folder.file(name)) << "{}\n";
  const auto plan = [&] {
    return launch::plan_preparation({{folder.file("saved")}, {}}, "", {}, folder.file("program"), folder.path()).folder;
  };
  const std::string before = plan();
  BOOST_TEST(plan() == before);
  std::ofstream(folder.file("saved/data.arrow")) << "{}\n{}\n";
  BOOST_TEST(plan() != before);
}

BOOST_AUTO_TEST_SUITE_END()
