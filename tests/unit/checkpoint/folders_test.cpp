// SPDX-License-Identifier: Apache-2.0
#include <fcntl.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "checkpoint/file_map.hpp"
#include "checkpoint/folder.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/position_members.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/save.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hdf5.hpp"
#include "support/error_text.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
namespace checkpoint = sft::checkpoint;
using sft::test::data_error_of;
using sft::test::mentions;

namespace {

void make_checkpoint(const std::string& folder, const std::string& date = "2025-01-01T00:00:00.000000Z",
                     const std::string& run_id = "", const std::string& ancestors = "") {
  fs::create_directories(folder);
  sft::io::Hdf5File index = sft::io::Hdf5File::create(checkpoint::index_path(folder));
  index.write_string("format", "sft-checkpoint");
  index.write_int("format_version", 1);
  index.write_string("date", date);
  index.write_int("step", checkpoint::step_of(folder).value_or(0));
  for (const char* name : {"config", "mesh", "tokenizer", "sft_version"}) index.write_string(name, "");
  for (const char* name : {"rows_consumed", "num_tokens", "num_rows", "max_length"}) index.write_int(name, 0);
  index.write_float("epoch", 0.0);
  if (!run_id.empty()) {
    index.write_string("run_id", run_id);
    index.write_string("ancestors", ancestors);
    index.write_string("data_fingerprint", "");
    for (const char* name : {"num_target_tokens", "log_num_steps"}) index.write_int(name, 0);
    for (const char* name : {"log_loss", "log_mean_token_accuracy", "log_entropy"}) index.write_float(name, 0.0);
  }
  index.close();
}

/// What resume_from_checkpoint = `wanted` finds.
std::string find(const std::string& output_dir, const std::string& wanted) {
  sft::config::Config config;
  config.train.output_dir = output_dir;
  config.checkpoint.resume_from_checkpoint = wanted;
  return checkpoint::find_resume(config);
}

}  // namespace

BOOST_AUTO_TEST_CASE(folders_are_named_by_step) {
  BOOST_TEST(checkpoint::path_of("output/demo", 100) == "output/demo/checkpoint-000100");
  BOOST_TEST(checkpoint::path_of("o", 12345678) == "o/checkpoint-12345678");
}

BOOST_AUTO_TEST_CASE(complete_ones_are_listed_by_step) {
  const sft::test::TemporaryFolder output;
  for (const std::int64_t step : {1000000, 20, 3}) make_checkpoint(checkpoint::path_of(output.path(), step));
  make_checkpoint(output.file("checkpoint-000030.tmp"));
  make_checkpoint(output.file("checkpoint-best"));
  make_checkpoint(output.file("model"));
  fs::create_directory(output.file("checkpoint-000040"));  // without checkpoint.h5
  const std::vector<std::string> expected = {checkpoint::path_of(output.path(), 3),
                                             checkpoint::path_of(output.path(), 20),
                                             checkpoint::path_of(output.path(), 1000000)};
  BOOST_TEST(checkpoint::list(output.path()) == expected);
  const std::vector<std::string> later = {expected.back()};
  BOOST_TEST(checkpoint::list(output.path(), 20) == later);
  BOOST_TEST(checkpoint::list(output.file("none")).empty());
}

BOOST_AUTO_TEST_CASE(resuming_takes_the_newest_or_the_named_one) {
  const sft::test::TemporaryFolder output;
  BOOST_TEST(find(output.path(), "auto").empty());
  BOOST_TEST(find(output.file("none"), "auto").empty());
  const std::string older = checkpoint::path_of(output.path(), 9);
  const std::string newer = checkpoint::path_of(output.path(), 10);
  make_checkpoint(older);
  make_checkpoint(newer);
  BOOST_TEST(find(output.path(), "none").empty());
  BOOST_TEST(find(output.path(), "auto") == newer);
  BOOST_TEST(find(output.file("none"), older) == older);
}

BOOST_AUTO_TEST_CASE(a_branch_is_resumed_and_removes_its_own_checkpoints_alone) {
  const sft::test::TemporaryFolder output;
  const auto path = [&](std::int64_t step) { return checkpoint::path_of(output.path(), step); };
  make_checkpoint(path(40), "2025-01-31T12:00:00.000000Z", "first");
  make_checkpoint(path(50), "2025-01-31T12:00:01.000000Z", "first");
  make_checkpoint(path(100), "2025-01-31T12:00:02.000000Z", "first");
  make_checkpoint(path(45), "2025-01-30T12:00:00.000000Z", "of another run");
  make_checkpoint(path(46), "2025-01-30T12:00:00.000000Z");  // does not say whose it is
  BOOST_TEST(find(output.path(), "auto") == path(100));
  make_checkpoint(path(75), "2025-01-31T12:00:02.500000Z", "branch", "first 50\n");
  make_checkpoint(path(80), "2025-01-31T12:00:02.500000Z", "branch", "first 50\n");
  BOOST_TEST(find(output.path(), "auto") == path(80));
  const checkpoint::Lineage branch = checkpoint::read_header(path(80)).position.lineage;
  checkpoint::remove_old(path(80), branch, 0);
  BOOST_TEST(checkpoint::list(output.path()).size() == 7U);
  checkpoint::remove_old(path(80), branch, 3);
  const std::vector<std::string> three = {path(45), path(46), path(50), path(75), path(80), path(100)};
  BOOST_TEST(checkpoint::list(output.path()) == three);
  checkpoint::remove_old(path(80), branch, 1);
  const std::vector<std::string> one = {path(45), path(46), path(80), path(100)};
  BOOST_TEST(checkpoint::list(output.path()) == one);
  const std::vector<std::string> others = {path(45), path(100)};
  BOOST_TEST(checkpoint::list_of_others(output.path(), checkpoint::read_header(path(80)).position) == others);
}

BOOST_AUTO_TEST_CASE(the_best_checkpoint_stays_and_is_one_of_those_that_do) {
  using Steps = std::vector<std::int64_t>;
  const auto left = [](std::int64_t limit, const std::string& best) {
    const sft::test::TemporaryFolder output;
    const auto path = [&](std::int64_t step) { return checkpoint::path_of(output.path(), step); };
    for (const std::int64_t step : {10, 20, 30, 40, 50}) {
      make_checkpoint(path(step), "2026-11-22T12:00:00.000000Z", "first");
    }
    checkpoint::remove_old(path(50), checkpoint::read_header(path(50)).position.lineage, limit, best);
    Steps steps;
    for (const std::string& folder : checkpoint::list(output.path())) steps.push_back(*checkpoint::step_of(folder));
    return steps;
  };
  BOOST_TEST(left(3, "checkpoint-000020") == (Steps{20, 40, 50}));
  BOOST_TEST(left(3, "checkpoint-000040") == (Steps{30, 40, 50}));
  BOOST_TEST(left(3, "checkpoint-000050") == (Steps{30, 40, 50}));
  BOOST_TEST(left(2, "checkpoint-000010") == (Steps{10, 50}));
  BOOST_TEST(left(1, "checkpoint-000010") == (Steps{10, 50}));  // the last one is what a run goes on from
  BOOST_TEST(left(1, "") == (Steps{50}));
  BOOST_TEST(left(9, "checkpoint-000010") == (Steps{10, 20, 30, 40, 50}));
}

BOOST_AUTO_TEST_CASE(decisions_of_a_run_are_in_its_checkpoint) {
  const sft::test::TemporaryFolder output;
  const std::string folder = checkpoint::path_of(output.path(), 10);
  fs::create_directories(folder);
  const auto read_back = [&](const checkpoint::Position& position) {
    fs::remove(checkpoint::index_path(folder));
    sft::io::Hdf5File index = sft::io::Hdf5File::create(checkpoint::index_path(folder));
    checkpoint::write_attributes(index, {}, "", position, {});
    index.close();
    return checkpoint::read_header(folder).position;
  };
  const checkpoint::Decisions given{.best_metric = 0.1 + 0.2,
                                    .best_step = 7,
                                    .best_checkpoint = "checkpoint-000006",
                                    .num_worse_evaluations = 2,
                                    .num_skipped_steps = 5,
                                    .num_skipped_in_a_row = 1,
                                    .num_high_losses = 3};
  const checkpoint::Position full =
      read_back({.row_order = sft::config::RowOrder::trl, .decisions = given, .is_model_only = true, .time_use = "{}"});
  BOOST_TEST((full.decisions == given));
  BOOST_TEST(full.is_model_only);
  BOOST_TEST(full.time_use == "{}");
  const checkpoint::Position none = read_back({.row_order = sft::config::RowOrder::trl});
  BOOST_TEST((none.decisions == checkpoint::Decisions{}));
  BOOST_TEST(!none.is_model_only);
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_from_its_newest_checkpoint_and_branches_off_from_others) {
  const sft::test::TemporaryFolder output, elsewhere;
  const auto path = [&](std::int64_t step) { return checkpoint::path_of(output.path(), step); };
  make_checkpoint(path(50), "2025-01-31T12:00:01.000000Z", "first", "root 10\n");
  make_checkpoint(path(100), "2025-01-31T12:00:02.000000Z", "first", "root 10\n");
  make_checkpoint(path(200), "2025-01-31T12:00:03.000000Z", "of another run");
  const auto resume = [&](const std::string& output_dir, std::int64_t step) {
    return checkpoint::resume_lineage(output_dir, path(step), checkpoint::read_header(path(step)));
  };
  BOOST_TEST(resume(output.path(), 100).run_id == "first");
  for (const checkpoint::Lineage& branch : {resume(output.path(), 50), resume(elsewhere.path(), 50)}) {
    BOOST_TEST(branch.run_id.size() == 32U);
    BOOST_TEST(checkpoint::to_text(branch.ancestors) == "root 10\nfirst 50\n");
  }
  BOOST_TEST(checkpoint::new_lineage().run_id != checkpoint::new_lineage().run_id);
  BOOST_TEST(mentions(data_error_of([] { (void)checkpoint::parse_ancestors("first\n", "a.h5"); }), {"a.h5", "first"}));
}

BOOST_AUTO_TEST_CASE(a_run_that_went_back_from_a_damaged_checkpoint_is_still_the_same) {
  const sft::test::TemporaryFolder output;
  const auto path = [&](std::int64_t step) { return checkpoint::path_of(output.path(), step); };
  make_checkpoint(path(8), "2025-01-31T12:00:01.000000Z", "first");
  make_checkpoint(path(12), "2025-01-31T12:00:02.000000Z", "first");
  const auto run_of = [&](std::int64_t step, const std::vector<std::string>& damaged) {
    const checkpoint::Header saved = checkpoint::read_header(path(step));
    return checkpoint::resume_lineage(output.path(), path(step), saved, damaged).run_id;
  };
  BOOST_TEST(run_of(8, {path(12)}) == "first");
  BOOST_TEST(run_of(8, {}) != "first");
  make_checkpoint(path(10), "2025-01-31T12:00:03.000000Z", "first");  // saved before step 12 came again
  BOOST_TEST(run_of(10, {}) == "first");
  BOOST_TEST(run_of(8, {path(12)}) != "first");
}

// Steps 10 and 20 were saved while the clock was years ahead, or 30 and 40 while it was behind.
BOOST_AUTO_TEST_CASE(a_clock_that_was_wrong_once_does_not_bring_an_old_checkpoint_back) {
  const std::string right = "2026-11-22T12:00:00.000000Z", ahead = "2031-01-01T00:00:00.000000Z";
  for (const auto& [before, after] :
       {std::pair{ahead, right}, std::pair{right, std::string("1970-01-01T00:00:00.000000Z")}}) {
    const sft::test::TemporaryFolder output;
    const auto path = [&](std::int64_t step) { return checkpoint::path_of(output.path(), step); };
    make_checkpoint(path(10), before, "first");
    make_checkpoint(path(20), before, "first");
    make_checkpoint(path(30), after, "first");
    BOOST_TEST(find(output.path(), "auto") == path(30));
    make_checkpoint(path(40), after, "branch", "first 20\n");  // begun again at step 20, with the clock of `after`
    if (before == right) make_checkpoint(path(40), "2026-11-22T12:00:00.000001Z", "branch", "first 20\n");
    BOOST_TEST(find(output.path(), "auto") == path(40));
    BOOST_TEST(checkpoint::saved_last(output.path()) == path(40));  // what the tools take
    checkpoint::remove_old(path(40), checkpoint::read_header(path(40)).position.lineage, 2);
    const std::vector<std::string> left = {path(20), path(30), path(40)};  // 30 is not of the branch
    BOOST_TEST(checkpoint::list(output.path()) == left);
  }
}

BOOST_AUTO_TEST_CASE(a_date_has_one_after_it) {
  BOOST_TEST(checkpoint::following_date("2026-11-22T12:00:00.000000Z") == "2026-11-22T12:00:00.000001Z");
  BOOST_TEST(checkpoint::following_date("2026-12-31T23:59:59.999999Z") == "2027-01-01T00:00:00.000000Z");
  for (const char* other : {"", "yesterday", "2026-11-22", "2026-11-22T12:00:00Z", "2026-11-22T12:00:00.000000Z ",
                            "2026-02-31T12:00:00.000000Z", "2026-11-22T12:00:00.-00001Z"}) {
    BOOST_TEST(checkpoint::following_date(other).empty(), other);
  }
}

BOOST_AUTO_TEST_CASE(auto_falls_back_to_the_newest_whose_index_can_be_read) {
  const sft::test::TemporaryFolder output;
  const std::string damaged = checkpoint::path_of(output.path(), 9), whole = checkpoint::path_of(output.path(), 5);
  make_checkpoint(damaged);
  make_checkpoint(whole);
  make_checkpoint(checkpoint::path_of(output.path(), 4));
  fs::resize_file(checkpoint::index_path(damaged), 100);
  BOOST_TEST(find(output.path(), "auto") == whole);
  BOOST_TEST(mentions(data_error_of([&] { (void)checkpoint::saved_last(output.path()); }), {damaged, "as HDF5"}));

  // One that could not be loaded, too; when nothing is left, it is an error to find only unreadable ones.
  sft::config::Config config;
  config.train.output_dir = output.path();
  config.checkpoint.resume_from_checkpoint = "auto";
  BOOST_TEST(checkpoint::find_resume(config, {whole}) == checkpoint::path_of(output.path(), 4));
  for (const std::int64_t step : {4, 5}) fs::remove_all(checkpoint::path_of(output.path(), step));
  BOOST_TEST(mentions(data_error_of([&] { (void)find(output.path(), "auto"); }), {damaged, "as HDF5"}));
}

BOOST_AUTO_TEST_CASE(replacing_a_checkpoint_shows_a_complete_one_all_the_time) {
  const sft::test::TemporaryFolder output;
  for (const char* name : {"a", "b"}) fs::create_directory(output.file(name));
  const bool can_exchange =
      ::renameat2(AT_FDCWD, output.file("a").c_str(), AT_FDCWD, output.file("b").c_str(), RENAME_EXCHANGE) == 0;
  if (!can_exchange) return;
  const std::string folder = checkpoint::path_of(output.path(), 5);
  make_checkpoint(folder);
  std::atomic<bool> is_done = false;
  std::int64_t num_absences = 0;
  std::thread watcher([&] {
    while (!is_done) num_absences += fs::exists(folder + "/checkpoint.h5") ? 0 : 1;
  });
  for (int repeat = 0; repeat < 300; ++repeat) {
    checkpoint::begin_folder(folder);
    make_checkpoint(checkpoint::temporary_path(folder));
    checkpoint::commit_folder(folder);
  }
  is_done = true;
  watcher.join();
  BOOST_TEST(num_absences == 0);
  BOOST_TEST(std::distance(fs::directory_iterator(output.path()), fs::directory_iterator()) == 3);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_set_aside_comes_back_and_one_half_removed_does_not) {
  const sft::test::TemporaryFolder output;
  const std::string folder = checkpoint::path_of(output.path(), 5);
  const auto set_scene = [&] {  // a crash between the two renames of commit_folder
    make_checkpoint(folder + ".former.tmp");
    make_checkpoint(folder + ".tmp");
    make_checkpoint(checkpoint::path_of(output.path(), 4) + ".retired.tmp");
    fs::remove_all(folder);
  };
  set_scene();
  BOOST_TEST(find(output.path(), "auto") == folder);
  set_scene();
  checkpoint::begin_folder(checkpoint::path_of(output.path(), 10));
  const std::vector<std::string> expected = {folder};
  BOOST_TEST(checkpoint::list(output.path()) == expected);
  BOOST_TEST(std::distance(fs::directory_iterator(output.path()), fs::directory_iterator()) == 2);
}

BOOST_AUTO_TEST_CASE(files_of_others_are_neither_removed_nor_replaced) {
  const sft::test::TemporaryFolder output;
  const auto write = [&](const std::string& name) {
    fs::create_directories(fs::path(output.file(name)).parent_path());
    std::ofstream(output.file(name)) << name;
  };
  const std::vector<std::string> files = {"checkpoint-best.tmp/weights", "checkpoint-.tmp/a",
                                          "checkpoint-000007.tmp",       "checkpoint-000008.tmp/notes.txt",
                                          "checkpoint-notes.tmp",        "checkpoint-000009.retired.tmp/shard-1.h5/a",
                                          "my.former.tmp/checkpoint.h5"};
  for (const std::string& file : files) write(file);
  make_checkpoint(output.file("elsewhere"));
  fs::create_directory_symlink(output.file("elsewhere"), output.file("checkpoint-000006.tmp"));
  checkpoint::begin_folder(checkpoint::path_of(output.path(), 5));
  checkpoint::discard_folder(checkpoint::path_of(output.path(), 5));
  for (const std::string& file : files) BOOST_TEST(sft::io::read_file(output.file(file)) == file);
  BOOST_TEST(fs::exists(output.file("checkpoint-000006.tmp/checkpoint.h5")));

  // What is in the way of a save moves to another name.
  write("checkpoint-000008/model.safetensors");  // as another trainer leaves it
  for (const std::int64_t step : {7, 8}) {
    const std::string folder = checkpoint::path_of(output.path(), step);
    checkpoint::begin_folder(folder);
    make_checkpoint(checkpoint::temporary_path(folder));
    checkpoint::commit_folder(folder);
    BOOST_TEST(fs::exists(checkpoint::index_path(folder)));
  }
  BOOST_TEST(sft::io::read_file(output.file("checkpoint-000007.tmp.kept")) == "checkpoint-000007.tmp");
  BOOST_TEST(fs::exists(output.file("checkpoint-000008.tmp.kept/notes.txt")));
  BOOST_TEST(fs::exists(output.file("checkpoint-000008.kept/model.safetensors")));

  // A checkpoint that is pruned leaves what a user put into its folder.
  write("checkpoint-000008/results.json");
  checkpoint::retire_folder(checkpoint::path_of(output.path(), 8));
  BOOST_TEST(sft::io::read_file(output.file("checkpoint-000008/results.json")) == "checkpoint-000008/results.json");
  BOOST_TEST(!fs::exists(output.file("checkpoint-000008/checkpoint.h5")));
}

BOOST_AUTO_TEST_CASE(shard_files_have_names_of_their_own_and_go_with_their_checkpoint) {
  const sft::test::TemporaryFolder output;
  const std::string folder = checkpoint::path_of(output.path(), 8);
  make_checkpoint(folder);
  const std::string prefix = checkpoint::new_shard_prefix(8);
  BOOST_TEST(prefix.starts_with("shard-000008-"));
  BOOST_TEST(prefix != checkpoint::new_shard_prefix(8));
  const std::vector<std::string> own = {checkpoint::shard_file_name(prefix, 3), "shard-00003.h5", "shard-123456.h5"};
  const std::vector<std::string> others = {"shard-.h5",
                                           "shard-x.h5",
                                           "shard-1-2-3.h5",
                                           "shard-000008-0123456789abcdef.h5",
                                           "shard-000008-0123456789abcdeg-00003.h5",
                                           "shard-00003.h5.bak"};
  for (const auto& names : {own, others}) {
    for (const std::string& name : names) std::ofstream(folder + "/" + name) << name;
  }
  checkpoint::retire_folder(folder);
  for (const std::string& name : own) BOOST_TEST(!fs::exists(folder + "/" + name), name);
  for (const std::string& name : others) BOOST_TEST(fs::exists(folder + "/" + name), name);
}

BOOST_AUTO_TEST_CASE(resuming_from_what_is_no_checkpoint_is_refused) {
  const sft::test::TemporaryFolder output;
  const auto error = [&](const std::string& wanted) {
    return data_error_of([&] { (void)find(output.path(), wanted); });
  };
  make_checkpoint(checkpoint::path_of(output.path(), 9));
  make_checkpoint(output.file("checkpoint-000010.tmp"));
  fs::create_directory(output.file("empty"));
  BOOST_TEST(mentions(error(output.file("gone")), {output.file("gone"), "no such folder"}));
  BOOST_TEST(mentions(error(output.file("checkpoint-000010.tmp")), {"checkpoint-000010.tmp", "never finished"}));
  BOOST_TEST(mentions(error(output.file("empty")), {"empty", "no checkpoint.h5"}));
  BOOST_TEST(mentions(error(output.path()), {"did you mean", "checkpoint-000009"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)checkpoint::read_header(output.file("empty")); }),
                      {"empty", "no complete checkpoint"}));
}

BOOST_AUTO_TEST_CASE(every_member_of_a_position_is_in_attributes_and_in_messages) {
  checkpoint::Position position;
  int number = 0;
  const auto fill = [&](const char* name, auto& member, checkpoint::Presence /*presence*/) {
    using Member = std::decay_t<decltype(member)>;
    ++number;
    if constexpr (std::is_same_v<Member, std::string>) {
      member = name;
    } else if constexpr (std::is_same_v<Member, std::optional<double>>) {
      member = 0.5 + number;
    } else if constexpr (std::is_same_v<Member, sft::config::RowOrder>) {
      member = sft::config::RowOrder::trl;
    } else if constexpr (std::is_same_v<Member, std::vector<checkpoint::Ancestor>>) {
      member = {{"abc", 3}, {"def", 9}};
    } else if constexpr (std::is_same_v<Member, std::vector<checkpoint::Writer>>) {
      member = {{.step = 0, .run_id = "", .sft_version = "0.1.0", .mesh = "1 x 2 (a x b)", .num_hosts = 1},
                {.step = 7, .run_id = "def", .sft_version = "0.2", .mesh = "2 x 2", .num_hosts = 3, .batch_rows = 64}};
    } else {
      member = static_cast<Member>(number);
    }
  };
  checkpoint::for_each_member(position, fill);
  BOOST_TEST(number > 25);
  const std::string text = checkpoint::to_json_text(position);
  BOOST_TEST(text != checkpoint::to_json_text({}));

  const sft::test::TemporaryFolder folder;
  {
    sft::io::Hdf5File file = sft::io::Hdf5File::create(folder.file("all.h5"));
    checkpoint::write_position(file, position);
    file.close();
  }
  const checkpoint::Position read = checkpoint::read_position(sft::io::Hdf5File::open(folder.file("all.h5")));
  for (const checkpoint::Position& found : {checkpoint::position_of_json(text), read}) {
    BOOST_TEST(checkpoint::to_json_text(found) == text);
    BOOST_TEST(found.decisions.num_high_losses == position.decisions.num_high_losses);
    BOOST_TEST((found.decisions == position.decisions));
    BOOST_TEST(found.lineage.ancestors.at(1).last_step == 9);
    BOOST_TEST(found.writers.at(0).batch_rows == 0);
    BOOST_TEST(found.writers.at(0).mesh == "1 x 2 (a x b)");
    BOOST_TEST(found.writers.at(1).batch_rows == 64);
    BOOST_TEST(found.writers.at(1).mesh == "2 x 2");
    BOOST_TEST(found.is_model_only);
  }
}

BOOST_AUTO_TEST_CASE(the_order_of_rows_of_a_run_is_found_before_it_is_resumed) {
  using Order = sft::config::RowOrder;
  const sft::test::TemporaryFolder output;
  sft::config::Config config;
  config.train.output_dir = output.path();
  config.checkpoint.resume_from_checkpoint = "auto";
  BOOST_TEST(!checkpoint::header_of_resume(config));
  const std::string first = checkpoint::path_of(output.path(), 1), second = checkpoint::path_of(output.path(), 2);
  make_checkpoint(first);  // says nothing of it
  BOOST_TEST((checkpoint::header_of_resume(config)->position.row_order == Order::endless));
  const auto say = [&](const char* name) {
    fs::remove_all(second);
    make_checkpoint(second, "2025-01-02T00:00:00.000000Z");
    sft::io::Hdf5File::extend(checkpoint::index_path(second)).write_string("row_order", name);
  };
  say("trl");
  BOOST_TEST((checkpoint::header_of_resume(config)->position.row_order == Order::trl));
  config.checkpoint.resume_from_checkpoint = first;
  BOOST_TEST((checkpoint::header_of_resume(config)->position.row_order == Order::endless));
  say("other");
  config.checkpoint.resume_from_checkpoint = "auto";
  BOOST_TEST(!checkpoint::header_of_resume(config));  // reading it to go on says what is wrong
  BOOST_TEST(mentions(data_error_of([&] { (void)checkpoint::read_header(second); }), {"row_order", "other"}));
  config.checkpoint.resume_from_checkpoint = "none";
  BOOST_TEST(!checkpoint::header_of_resume(config));
}
