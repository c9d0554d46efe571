// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/datasets.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "sft/core/error.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

using namespace sft;
using launch::Dataset;
using launch::FilesOfSplit;
using Names = std::vector<std::string>;

namespace {

void write(const std::string& path, const std::string& text = "{}\n") {
  std::filesystem::create_directories(std::filesystem::path(path).parent_path());
  std::ofstream(path) << text;
}

/// A data set in a folder of its own.
class Set {
 public:
  explicit Set(const Names& files) {
    for (const std::string& name : files) write(folder_.file(name));
  }
  Set(const Names& files, const std::string& card) : Set(files) {
    write(file("README.md"), "---\n" + card + "---\n# Set\n");
  }
  [[nodiscard]] std::string file(const std::string& name) const { return folder_.file(name); }
  [[nodiscard]] std::string path() const { return folder_.path(); }
  /// The files that are found, as paths from the folder.
  [[nodiscard]] Names files(Dataset dataset = {}, bool is_optional = false) const {
    dataset.name = path();
    return relative(launch::find_files(dataset, {}, is_optional).files);
  }
  [[nodiscard]] Names files_of(const std::string& split) const { return files({.split = split}); }
  [[nodiscard]] std::string error(Dataset dataset = {}) const {
    dataset.name = path();
    return test::data_error_of([&] { (void)launch::find_files(dataset); });
  }
  [[nodiscard]] Names relative(Names paths) const {
    for (std::string& path : paths) path = std::filesystem::path(path).lexically_relative(folder_.path()).string();
    return paths;
  }

 private:
  test::TemporaryFolder folder_;
};

void equal(const Names& found, const Names& expected) {
  BOOST_TEST(found == expected, boost::test_tools::per_element());
}

const std::string two_configs =
    "configs:\n- config_name: one\n  data_files: a.jsonl\n- config_name: two\n  data_files: b.jsonl\n";

}  // namespace

BOOST_AUTO_TEST_SUITE(datasets)

BOOST_AUTO_TEST_CASE(splits_are_sorted_by_names) {
  const Set numbered({"data/train-00001-of-00002.jsonl", "data/train-00000-of-00002.jsonl",
                      "data/gen-00000-of-00001.jsonl", "test.jsonl", "dataset_infos.json"});
  equal(numbered.files(), {"data/train-00000-of-00002.jsonl", "data/train-00001-of-00002.jsonl"});
  equal(numbered.files_of("gen"), {"data/gen-00000-of-00001.jsonl"});
  const Set folders({"train/a.jsonl", "dev/a.jsonl", "my-train-set/1.jsonl", "x/train_1/b.jsonl", "train.jsonl"});
  equal(folders.files(), {"train/a.jsonl", "x/train_1/b.jsonl", "my-train-set/1.jsonl"});
  equal(folders.files_of("validation"), {"dev/a.jsonl"});
  const Set names({"b-training.jsonl", "train1.jsonl", "a_train.jsonl", "mytrain.jsonl", "TRAIN.jsonl", "eval.jsonl"});
  equal(names.files(), {"train1.jsonl", "a_train.jsonl", "b-training.jsonl"});
  equal(names.files_of("test"), {"eval.jsonl"});
  equal(Set({"chats.jsonl", "sub/strained.jsonl"}).files(), {"chats.jsonl", "sub/strained.jsonl"});
  BOOST_TEST(test::mentions(names.error({.split = "other"}),
                            {"no split `other` (it has train, test)", "--dataset_train_split"}));
  equal(names.files({.split = "other"}, /*is_optional=*/true), {});
  BOOST_TEST(test::mentions(Set({"test.jsonl"}).error(), {"no split `train` (it has test)"}));
}

BOOST_AUTO_TEST_CASE(slices_are_taken_from_splits) {
  const auto taken = [](const std::string& split) {
    launch::Dataset dataset{.split = split};
    launch::take_slice(dataset);
    return dataset.split + " " + dataset.slice;
  };
  BOOST_TEST(taken("train[:20%]") == "train :20%");
  BOOST_TEST(taken("train") == "train ");
  BOOST_TEST(taken("train[:5]+train[7:]") == "train[:5]+train[7:] ");
}

BOOST_AUTO_TEST_CASE(fractions_are_weights_of_files) {
  const test::TemporaryFolder folder;
  for (const char* name : {"a.jsonl", "b.jsonl"}) std::ofstream(folder.file(name)) << "{}\n";
  std::vector<launch::Dataset> datasets{{.name = folder.file("a.jsonl"), .fraction = 0.75},
                                        {.name = folder.file("b.jsonl"), .fraction = 0.25}};
  const std::vector<double> weights{0.75, 0.25};
  BOOST_TEST(launch::find_inputs(datasets, std::nullopt).weights == weights);
  datasets[1].fraction.reset();
  BOOST_CHECK_EXCEPTION((void)launch::find_inputs(datasets, std::nullopt), Error, [](const Error& error) {
    return test::mentions(error.what(), {"some data sets have a fraction"});
  });
  datasets[1] = {.name = folder.path(), .fraction = 1.0};
  BOOST_CHECK_EXCEPTION((void)launch::find_inputs(datasets, std::nullopt), Error, [](const Error& error) {
    return test::mentions(error.what(), {"by its fraction", "it has 2 files"});
  });
}

BOOST_AUTO_TEST_CASE(a_file_has_no_data_files) {
  const test::TemporaryFolder folder;
  std::ofstream(folder.file("a.jsonl")) << "{}\n";
  const launch::Dataset dataset{.name = folder.file("a.jsonl"), .data_files = {{"train", {folder.file("a.jsonl")}}}};
  BOOST_CHECK_EXCEPTION((void)launch::find_files(dataset, {}, /*is_optional=*/false), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration && test::mentions(error.what(), {"data_files names others"});
  });
}

BOOST_AUTO_TEST_CASE(slices_and_sums_of_splits_are_named) {
  const Set set({"train.jsonl", "test.jsonl"});
  for (const char* split : {"train[:50%]", "train+test", "train[10:20]", "all"}) {
    try {
      (void)set.files_of(split);
      BOOST_ERROR("was not refused");
    } catch (const Error& error) {
      BOOST_TEST((error.status() == ExitStatus::configuration));
      BOOST_TEST(test::mentions(error.what(), {split, "sums of splits are not known"}));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_no_data_is_left_out_and_listed) {
  const Set set({"a.jsonl", ".a.jsonl", "._a.jsonl", ".ipynb_checkpoints/a-checkpoint.jsonl", "__MACOSX/x/a.jsonl",
                 "sub/.cache/b.jsonl", "dataset_info.json", "dataset_infos.json", "config.json", "train.txt",
                 "notes.md", "train-00000.h5", "a.csv"});
  equal(set.files(), {"a.jsonl"});
  Names left_out;
  for (const launch::LeftOut& item : launch::find_files({.name = set.path()}).left_out) {
    left_out.push_back(set.relative({item.file}).front() + ": " + item.why);
  }
  equal(left_out, {"._a.jsonl: hidden", ".a.jsonl: hidden", ".ipynb_checkpoints/a-checkpoint.jsonl: hidden",
                   "__MACOSX/x/a.jsonl: hidden", "a.csv: CSV; JSON is read", "config.json: no records",
                   "dataset_info.json: no records", "dataset_infos.json: no records", "sub/.cache/b.jsonl: hidden",
                   "train-00000.h5: HDF5", "train.txt: plain text"});
}

BOOST_AUTO_TEST_CASE(of_several_formats_the_most_common_is_read) {
  equal(Set({"train.jsonl", "train.parquet"}).files(), {"train.parquet"});
  equal(Set({"a.jsonl", "b.jsonl", "a.parquet"}).files(), {"a.jsonl", "b.jsonl"});
  equal(Set({"a.json", "b.ndjson", "c.jsonl.gz", "d.jsonl.bz2"}).files(),
        {"a.json", "b.ndjson", "c.jsonl.gz", "d.jsonl.bz2"});
  BOOST_TEST(test::mentions(Set({"a.csv", "b.csv", "c.jsonl"}).error(), {"a.csv", "table of text"}));
  BOOST_TEST(test::mentions(Set({"notes.md"}).error(), {"no file of records", ".jsonl, .json"}));
  BOOST_TEST(test::mentions(Set({"a.npy"}).error(), {"no file of records", "a.npy (NumPy)"}));
}

BOOST_AUTO_TEST_CASE(the_card_says_which_files_are_which_split) {
  const Names files{"a.jsonl", "b.jsonl", "d/1/c.jsonl", "d/2/3/e.jsonl", "d/__p/h.jsonl", ".raw/r.jsonl"};
  const auto with = [&](const std::string& data_files) {
    return Set(files, "configs:\n- config_name: default\n  data_files: " + data_files + "\n");
  };
  equal(with("b.jsonl").files(), {"b.jsonl"});
  equal(with("[b.jsonl, a.jsonl]").files(), {"b.jsonl", "a.jsonl"});
  equal(with("./[ab].jsonl").files(), {"a.jsonl", "b.jsonl"});
  equal(with("d/**").files(), {"d/1/c.jsonl", "d/2/3/e.jsonl"});
  equal(with("'**/*.jsonl'").files(), {"a.jsonl", "b.jsonl", "d/1/c.jsonl", "d/2/3/e.jsonl"});
  equal(with(".raw/*").files(), {".raw/r.jsonl"});
  equal(with("[none/*, a.jsonl]").files(), {"a.jsonl"});
  const Set splits = with("[{split: train, path: b.jsonl}, {split: test, path: [a.jsonl, d/*/*.jsonl]}]");
  equal(splits.files(), {"b.jsonl"});
  equal(splits.files_of("test"), {"a.jsonl", "d/1/c.jsonl"});
  BOOST_TEST(test::mentions(with("[{split: sft, path: b.jsonl}]").error(), {"no split `train` (it has sft)"}));
  BOOST_TEST(test::mentions(with("none.jsonl").error(), {"none.jsonl", "the card in"}));
  BOOST_TEST(test::mentions(with("none/*").error(), {"what its card names for it is not there"}));
  BOOST_TEST(test::mentions(with("[{split: train}]").error(), {"README.md", "data_files of the config default"}));
  BOOST_TEST(test::mentions(with("[a.jsonl").error(), {"README.md", "line "}));
}

BOOST_AUTO_TEST_CASE(one_of_several_configs_is_chosen) {
  const Set two({"a.jsonl", "b.jsonl"}, two_configs);
  BOOST_TEST(
      test::mentions(two.error(), {"has several configs (its card has one, two, and none is", "--dataset_config"}));
  BOOST_TEST(test::mentions(two.error({.config = "three"}), {"no config `three` (its card has one, two)"}));
  equal(two.files({.config = "two"}), {"b.jsonl"});
  equal(Set({"a.jsonl", "b.jsonl"}, two_configs + "  default: true\n").files(), {"b.jsonl"});
  equal(Set({"a.jsonl", "b.jsonl", "c.jsonl"}, two_configs + "- config_name: default\n  data_files: c.jsonl\n").files(),
        {"c.jsonl"});
  const Set folders({"one/train.jsonl", "one/test.jsonl", "two/train.jsonl"},
                    "configs:\n- config_name: one\n  data_dir: one\n- config_name: two\n  data_dir: two\n");
  equal(folders.files({.config = "one"}), {"one/train.jsonl"});
  equal(folders.files({.data_dir = "two"}), {"two/train.jsonl"});
  BOOST_TEST(test::mentions(folders.error({.data_dir = "three"}), {"no split `train` (no file of records is there)"}));
  const Set hidden({"a.jsonl", "b.jsonl"});
  write(hidden.file(".huggingface.yaml"), "configs:\n- config_name: x\n  data_files: b.jsonl\n");
  equal(hidden.files(), {"b.jsonl"});
  equal(Set({"a.jsonl"}, "license: mit\n").files(), {"a.jsonl"});
  BOOST_TEST(test::mentions(Set({"a.jsonl"}).error({.config = "x"}), {"no config `x`", "no card"}));
}

BOOST_AUTO_TEST_CASE(files_that_are_named_are_one_split) {
  const Set set({"chats.jsonl", "chats_validation.jsonl", "d [1]/x y.jsonl", "d [1]/z.parquet", "d [1]/y.jsonl"});
  const std::string file = set.file("chats.jsonl"), held_back = set.file("chats_validation.jsonl");
  const auto find = [](const Dataset& dataset, bool is_optional = false) {
    return launch::find_files(dataset, {}, is_optional).files;
  };
  equal(find({.name = file}), {file});
  equal(find({.name = held_back, .split = "validation"}), {held_back});
  equal(find({.name = "json", .data_files = {{"train", {file, held_back}}}}), {file, held_back});
  const std::vector<FilesOfSplit> by_split{{"train", {file}}, {"test", {held_back}}};
  equal(find({.name = "json", .split = "test", .data_files = by_split}), {held_back});
  equal(find({.name = "json", .split = "validation", .data_files = by_split}, /*is_optional=*/true), {});
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)find({.split = "validation", .data_files = by_split}); }),
                            {"data_files has no split `validation` (it has train, test)"}));
  equal(set.files({.data_files = {{"train", {"*/*"}}}}), {"d [1]/x y.jsonl", "d [1]/y.jsonl"});
  equal(set.files({.data_files = {{"train", {"d [1]/x y.jsonl"}}}}), {"d [1]/x y.jsonl"});
  for (const Dataset& dataset : {Dataset{.name = file, .split = "validation"},
                                 Dataset{.name = "json", .split = "validation", .data_files = {{"train", {file}}}}}) {
    BOOST_TEST(test::mentions(test::data_error_of([&] { (void)find(dataset); }), {"there is no split `validation`"}));
    equal(find(dataset, /*is_optional=*/true), {});
  }
  const auto refuses = [&](const Dataset& dataset, const char* part) {
    BOOST_TEST(test::mentions(test::data_error_of([&] { (void)find(dataset); }), {part}));
  };
  refuses({.name = "json"}, "names no files");
  refuses({.name = "csv", .data_files = {{"train", {file}}}}, "cannot read files with `csv`");
  refuses({.data_files = {{"train", {"https://x.y/z.jsonl"}}}}, "read from disks alone");
  refuses({.data_files = {{"train", {set.file("d [1]")}}}}, "it is a folder");
}

BOOST_AUTO_TEST_CASE(names_are_those_of_links) {  // as huggingface_hub fills its cache
  const Set set({"blobs/0a", "blobs/0b", "snapshots/0/README.md"});
  std::filesystem::create_symlink("../../blobs/0a", set.file("snapshots/0/train.jsonl"));
  std::filesystem::create_symlink("../../blobs/0b", set.file("snapshots/0/test.jsonl"));
  equal(launch::find_files({.name = set.file("snapshots/0")}).files, {set.file("snapshots/0/train.jsonl")});
}

BOOST_AUTO_TEST_CASE(what_save_to_disk_leaves) {
  const Set set({"one/state.json", "one/dataset_info.json", "one/data-00000-of-00001.arrow",
                 "several/dataset_dict.json", "several/train/state.json", "several/train/data.arrow",
                 "several/test/state.json", "several/test/data.arrow"});
  const auto found = [&](const char* name, const std::string& split) {
    return set.relative(launch::find_files({.name = set.file(name), .split = split}, {}, /*is_optional=*/true).files);
  };
  equal(found("one", "train"), {"one"});
  equal(found("one", "test"), {});
  equal(found("several", "train"), {"several/train"});
  equal(found("several", "test"), {"several/test"});
  BOOST_TEST(launch::find_files({.name = set.file("several")}).left_out.front().why == "split test");
  BOOST_TEST(test::mentions(
      test::data_error_of([&] { (void)launch::find_files({.name = set.file("several"), .split = "x"}); }),
      {"no split `x` (it has test, train)"}));
}

BOOST_AUTO_TEST_CASE(folders_of_other_programs_are_named) {
  const Set model({"config.json", "tokenizer.json", "vocab.json"});
  BOOST_TEST(test::mentions(model.error(), {"it is a hub folder"}));
  const Set archive({"x.tar", "train/index.json"});
  write(archive.file("train/index.json"), R"({"shards": []})");
  BOOST_TEST(test::mentions(archive.error(), {"MDS"}));
  BOOST_TEST(test::mentions(test::data_error_of([&] { (void)launch::find_files({.name = archive.file("x.tar")}); }),
                            {"x.tar", "tar archive"}));
  const Set shards({"train-00000.h5"});
  write(shards.file("train-00000.h5"), "\x89HDF\r\n\x1a\n");
  BOOST_TEST(test::mentions(shards.error(), {"train-00000.h5", "packed shards need no more preparation"}));
}

BOOST_AUTO_TEST_CASE(hub_cache) {
  const Set cache(
      {"datasets--org--name/snapshots/abc/part/train.jsonl", "datasets--org--name/snapshots/abc/other/train.jsonl"});
  ::setenv("HF_HUB_CACHE", cache.path().c_str(), 1);
  write(cache.file("datasets--org--name/refs/main"), "abc\n");
  BOOST_TEST(launch::find_files({.name = "org/name"}).files.size() == 2U);
  BOOST_TEST(launch::find_files({.name = "org/name", .config = "part"}).files.size() == 1U);
  BOOST_TEST(test::mentions(test::data_error_of([] { (void)launch::find_files({.name = "org/else"}); }),
                            {"hf download --repo-type dataset org/else"}));
  ::unsetenv("HF_HUB_CACHE");
}

BOOST_AUTO_TEST_SUITE_END()
