// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/datasets.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sft/core/error.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using launch::Dataset;
using launch::find_files;

namespace {

void write(const std::string& path) {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << "{}\n";
}

std::vector<std::string> names_of(const std::vector<std::string>& paths, const std::string& folder) {
  std::vector<std::string> names;
  for (const std::string& path : paths) names.push_back(std::filesystem::relative(path, folder).string());
  return names;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(datasets)

BOOST_AUTO_TEST_CASE(splits_of_a_folder) {
  const test::TemporaryFolder folder;
  for (const char* name : {"data/train-00001-of-00002.jsonl", "data/train-00000-of-00002.jsonl", "data/test.jsonl",
                           "data/validation.jsonl", "README.md", "dataset_infos.json"}) {
    write(folder.file(name));
  }
  const std::vector<std::string> train{"data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl"};
  BOOST_TEST(names_of(find_files({.name = folder.path()}), folder.path()) == train, boost::test_tools::per_element());
  const std::vector<std::string> test{"data/test.jsonl"};
  BOOST_TEST(names_of(find_files({.name = folder.path(), .split = "test"}), folder.path()) == test,
             boost::test_tools::per_element());
  BOOST_CHECK_THROW(static_cast<void>(find_files({.name = folder.path(), .split = "other"})), Error);
  BOOST_TEST(find_files({.name = folder.path(), .split = "other"}, /*is_optional=*/true).empty());
}

BOOST_AUTO_TEST_CASE(files_that_are_named_are_one_split) {
  const test::TemporaryFolder folder;
  const std::string file = folder.file("chats.jsonl"), held_back = folder.file("chats_validation.jsonl");
  write(file);
  write(held_back);
  BOOST_TEST(find_files({.name = file}).size() == 1U);
  BOOST_TEST(find_files({.name = held_back, .split = "validation"}).size() == 1U);
  BOOST_TEST(find_files({.name = "json", .data_files = {file, held_back}}).size() == 2U);
  for (const char* split : {"validation", "train[:10%]", "train+test"}) {
    for (const Dataset& dataset :
         {Dataset{.name = file, .split = split}, Dataset{.name = "json", .split = split, .data_files = {file}},
          Dataset{.name = folder.path(), .split = split, .data_files = {"chats.jsonl"}}}) {
      BOOST_CHECK_EXCEPTION(static_cast<void>(find_files(dataset)), Error, [&](const Error& error) {
        return std::string(error.what()).find("there is no split `" + std::string(split)) != std::string::npos;
      });
    }
  }
}

BOOST_AUTO_TEST_CASE(files_without_a_split_are_for_training) {
  const test::TemporaryFolder folder;
  for (const char* name : {"chats.jsonl", "strained.jsonl", "eval/some.jsonl"}) write(folder.file(name));
  const std::vector<std::string> train{"chats.jsonl", "strained.jsonl"};
  BOOST_TEST(names_of(find_files({.name = folder.path()}), folder.path()) == train, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(names_are_those_of_links) {  // as huggingface_hub fills its cache
  const test::TemporaryFolder folder;
  for (const char* name : {"blobs/0a", "blobs/0b", "snapshots/0/README.md"}) write(folder.file(name));
  std::filesystem::create_symlink("../../blobs/0a", folder.file("snapshots/0/train.jsonl"));
  std::filesystem::create_symlink("../../blobs/0b", folder.file("snapshots/0/test.jsonl"));
  const std::vector<std::string> found = find_files({.name = folder.file("snapshots/0")});
  BOOST_TEST(found == std::vector<std::string>{folder.file("snapshots/0/train.jsonl")},
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(what_save_to_disk_leaves) {
  const test::TemporaryFolder folder;
  for (const char* name :
       {"one/state.json", "one/dataset_info.json", "one/data-00000-of-00001.arrow", "several/dataset_dict.json",
        "several/train/state.json", "several/train/data.arrow", "several/test/state.json", "several/test/data.arrow"}) {
    write(folder.file(name));
  }
  const auto found = [&](const char* name, const std::string& split) {
    return names_of(find_files({.name = folder.file(name), .split = split}, /*is_optional=*/true), folder.path());
  };
  using Names = std::vector<std::string>;
  BOOST_TEST(found("one", "train") == Names{"one"}, boost::test_tools::per_element());
  BOOST_TEST(found("one", "test").empty());
  BOOST_TEST(found("several", "train") == Names{"several/train"}, boost::test_tools::per_element());
  BOOST_TEST(found("several", "test") == Names{"several/test"}, boost::test_tools::per_element());
  BOOST_TEST(found("several", "validation").empty());
}

BOOST_AUTO_TEST_CASE(hub_cache) {
  const test::TemporaryFolder folder;
  ::setenv("HF_HUB_CACHE", folder.path().c_str(), 1);
  const std::string set = folder.file("datasets--org--name");
  write(set + "/snapshots/abc/part/train.jsonl");
  write(set + "/snapshots/abc/other/train.jsonl");
  std::filesystem::create_directories(set + "/refs");
  std::ofstream(set + "/refs/main") << "abc\n";
  BOOST_TEST(find_files({.name = "org/name"}).size() == 2U);
  BOOST_TEST(find_files({.name = "org/name", .config = "part"}).size() == 1U);
  try {
    static_cast<void>(find_files({.name = "org/else"}));
    BOOST_ERROR("was not refused");
  } catch (const Error& error) {
    BOOST_TEST((error.status() == ExitStatus::data));
    BOOST_TEST(std::string(error.what()).find("hf download --repo-type dataset org/else") != std::string::npos);
  }
  ::unsetenv("HF_HUB_CACHE");
}

BOOST_AUTO_TEST_SUITE_END()
