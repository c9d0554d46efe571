// SPDX-License-Identifier: Apache-2.0
#include "sft/io/files.hpp"
#include "sft/io/glob.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <system_error>

#include "sft/io/file_lock.hpp"
#include "sft/io/raw_file.hpp"
#include "support/error_text.hpp"
#include "support/file_size_limit.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using sft::test::data_error_of;
using sft::test::mentions;

BOOST_AUTO_TEST_SUITE(files)

BOOST_AUTO_TEST_CASE(a_written_file_reads_back_and_leaves_nothing_beside_it) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("text");
  const std::string text = std::string("one\ntwo\0three", 13);
  sft::io::write_file_atomically(path, "former");
  sft::io::write_file_atomically(path, text);
  BOOST_TEST(sft::io::read_file(path) == text);
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(an_empty_file_reads_as_no_text) {
  const sft::test::TemporaryFolder folder;
  sft::io::write_file_atomically(folder.file("empty"), "");
  BOOST_TEST(sft::io::read_file(folder.file("empty")).empty());
}

BOOST_AUTO_TEST_CASE(a_failed_write_keeps_the_former_file) {
  const sft::test::TemporaryFolder folder;
  sft::io::write_file_atomically(folder.file("text"), "former");
  const std::string error = [&] {
    const sft::test::FileSizeLimit limit(1);
    return data_error_of([&] { sft::io::write_file_atomically(folder.file("text"), "new"); });
  }();
  BOOST_TEST(mentions(error, {"cannot write", folder.file(".text.sft-tmp")}));
  BOOST_TEST(sft::io::read_file(folder.file("text")) == "former");
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(what_others_have_beside_a_file_is_never_written_to) {
  const sft::test::TemporaryFolder folder;
  fs::create_directory(folder.file("text.1.tmp"));
  std::ofstream(folder.file("text.tmp")) << "of the user";
  BOOST_TEST(sft::io::make_temporary_file(folder.file("text")) == folder.file("text.2.tmp"));
  fs::remove(folder.file("text.2.tmp"));
  sft::io::write_file_atomically(folder.file("text"), "new");
  BOOST_TEST(sft::io::read_file(folder.file("text")) == "new");
  BOOST_TEST(sft::io::read_file(folder.file("text.tmp")) == "of the user");
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 3);
}

BOOST_AUTO_TEST_CASE(what_a_killed_process_was_writing_goes_with_the_next_write) {
  const sft::test::TemporaryFolder folder;
  std::ofstream(folder.file(".text.sft-tmp")) << "more than half of something";
  sft::io::write_file_atomically(folder.file("text"), "new");
  BOOST_TEST(sft::io::read_file(folder.file("text")) == "new");
  BOOST_TEST(std::distance(fs::directory_iterator(folder.path()), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(what_is_in_the_way_is_set_aside_under_a_free_name) {
  const sft::test::TemporaryFolder folder;
  for (const char* content : {"first", "second"}) {
    std::ofstream(folder.file("text")) << content;
    sft::io::set_aside(folder.file("text"), "the test needs its name");
  }
  BOOST_TEST(!fs::exists(folder.file("text")));
  BOOST_TEST(sft::io::read_file(folder.file("text.kept")) == "first");
  BOOST_TEST(sft::io::read_file(folder.file("text.1.kept")) == "second");
}

BOOST_AUTO_TEST_CASE(a_file_is_known_again_under_another_name_and_a_new_one_is_not) {
  const sft::test::TemporaryFolder folder;
  BOOST_TEST((sft::io::identity_of(folder.file("text")) == sft::io::FileIdentity{}));
  std::ofstream(folder.file("text")) << "one";
  const sft::io::FileIdentity first = sft::io::identity_of(folder.file("text"));
  fs::rename(folder.file("text"), folder.file("moved"));
  std::ofstream(folder.file("text")) << "another";
  BOOST_TEST((sft::io::identity_of(folder.file("moved")) == first));
  BOOST_TEST((sft::io::identity_of(folder.file("text")) != first));
}

BOOST_AUTO_TEST_CASE(globs_are_sorted_and_paths_are_themselves) {
  const sft::test::TemporaryFolder folder;
  for (const char* name : {"b-1.h5", "b-0.h5", "a.txt", "b[0].h5"}) {
    sft::io::write_file_atomically(folder.file(name), "");
  }
  const std::vector<std::string> two = {folder.file("b-0.h5"), folder.file("b-1.h5")};
  const std::vector<std::string> bracket = {folder.file("b[0].h5")};
  BOOST_TEST(sft::io::expand_glob(folder.file("b-*.h5")) == two);
  BOOST_TEST(sft::io::expand_glob(bracket.front()) == bracket);
  BOOST_TEST(sft::io::expand_glob(folder.file("none*")).empty());
  for (const std::string name : {"run[2]", "a*b", "q?", "back\\slash", "~", "[1-2]{a,b}"}) {
    std::filesystem::create_directories(folder.file(name));
    const std::vector<std::string> file = {folder.file(name + "/b-0.h5")};
    sft::io::write_file_atomically(file.front(), "");
    BOOST_TEST(sft::io::expand_glob(folder.file(name + "/b-*.h5")) == file);
  }
  std::filesystem::create_directories(folder.file("run2"));
  sft::io::write_file_atomically(folder.file("run2/b-1.h5"), "");
  BOOST_TEST(sft::io::expand_glob(folder.file("run[0-9]/b-*.h5")).size() == 1U);
}

BOOST_AUTO_TEST_CASE(globs_go_into_folders) {
  const sft::test::TemporaryFolder folder;
  for (const char* name :
       {"s [1]/a.h5", "s [1]/t/b.h5", "s [1]/t/u/c.h5", "s [1]/.x/d.h5", "s [1]/__y/e.h5", "s [1]/.f.h5"}) {
    fs::create_directories(fs::path(folder.file(name)).parent_path());
    sft::io::write_file_atomically(folder.file(name), "");
  }
  const auto found = [&](const std::string& pattern) {
    std::string names;
    for (const std::string& path : sft::io::expand_glob_in(folder.file("s [1]"), pattern))
      names += fs::path(path).stem();
    return names;
  };
  BOOST_TEST(found("**/*.h5") == "abc");
  BOOST_TEST(found("**") == "abc");
  BOOST_TEST(found("t/**/c.*") == "c");
  BOOST_TEST(found("**/t/*") == "bu");
  BOOST_TEST(found("*/*.h5") == "b");
  BOOST_TEST(found("__y/*") == "e");
  BOOST_TEST(found(".*/*.h5") == "d");
  BOOST_TEST(found("*.h5") == "a");
}

BOOST_AUTO_TEST_CASE(errors_name_the_path) {
  const sft::test::TemporaryFolder folder;
  BOOST_TEST(mentions(data_error_of([&] { (void)sft::io::read_file(folder.file("gone")); }),
                      {folder.file("gone"), "No such file"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)sft::io::read_file(folder.path()); }), {folder.path(), "folder"}));
  sft::io::write_file_atomically(folder.file("file"), "");
  BOOST_TEST(mentions(data_error_of([&] { sft::io::make_folders(folder.file("file/below")); }),
                      {folder.file("file/below"), "cannot make the folder"}));
  BOOST_TEST(mentions(data_error_of([&] { sft::io::sync_path(folder.file("gone")); }), {folder.file("gone")}));
}

BOOST_AUTO_TEST_CASE(a_pipe_is_no_file_and_hangs_nobody) {
  const sft::test::TemporaryFolder folder;
  const std::string pipe = folder.file("pipe");
  BOOST_REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  BOOST_TEST(mentions(data_error_of([&] { (void)sft::io::read_file(pipe); }), {pipe, "it is a pipe"}));
  BOOST_TEST(mentions(data_error_of([&] { (void)sft::io::RawFile::open(pipe); }), {pipe, "it is no file"}));
}

BOOST_AUTO_TEST_CASE(a_name_that_is_taken_is_not_taken_away) {
  const sft::test::TemporaryFolder folder;
  sft::io::write_file_atomically(folder.file("new"), "new");
  sft::io::write_file_atomically(folder.file("old"), "old");
  BOOST_TEST((sft::io::rename_to_free_name(folder.file("new"), folder.file("old")) == std::errc::file_exists));
  BOOST_TEST(sft::io::read_file(folder.file("old")) == "old");
  BOOST_TEST(!sft::io::rename_to_free_name(folder.file("new"), folder.file("free")));
  BOOST_TEST(sft::io::read_file(folder.file("free")) == "new");
  BOOST_TEST(!fs::exists(folder.file("new")));
}

BOOST_AUTO_TEST_CASE(one_at_a_time_holds_a_lock) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  {
    sft::io::FileLock first(path);
    BOOST_TEST(first.is_held());
    const sft::io::FileLock second(path);
    BOOST_TEST(!second.is_held());
    BOOST_TEST(second.is_held_by_another());
    BOOST_TEST(second.holder().starts_with("process " + std::to_string(::getpid()) + " on host "), second.holder());
  }
  sft::io::FileLock third(path);
  BOOST_TEST(third.is_held());
  third.remove();
  const sft::io::FileLock of_new_file(path);
  BOOST_TEST(of_new_file.is_held());
}

BOOST_AUTO_TEST_CASE(a_lock_is_looked_at_without_being_taken) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("lock");
  BOOST_TEST(!sft::io::state_of_lock(path).exists);
  BOOST_TEST(!fs::exists(path));
  {
    sft::io::FileLock lock(path);
    sft::io::LockState state = sft::io::state_of_lock(path);
    BOOST_TEST(state.exists);
    BOOST_TEST(state.is_held);
    BOOST_TEST(state.holder == lock.holder());
    BOOST_TEST(state.lines.empty());
    lock.add_line("done\nwithout a second line");
    lock.add_line("and gone");
    state = sft::io::state_of_lock(path);
    BOOST_TEST(state.lines == "done\nand gone\n");
    BOOST_TEST(state.holder == lock.holder());
  }
  const sft::io::LockState state = sft::io::state_of_lock(path);
  BOOST_TEST(state.exists);
  BOOST_TEST(!state.is_held);
  BOOST_TEST(state.holder.starts_with("process "));
  const sft::io::FileLock next(path);
  BOOST_TEST(next.is_held());
  BOOST_TEST(sft::io::state_of_lock(path).lines.empty());  // those of the holder before are gone
}

BOOST_AUTO_TEST_SUITE_END()
