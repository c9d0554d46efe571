// SPDX-License-Identifier: Apache-2.0
#include "sft/io/files.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <system_error>

#include "sft/io/file_lock.hpp"
#include "sft/io/raw_file.hpp"
#include "support/error_text.hpp"
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
  fs::create_directory(folder.file("text.tmp"));  // in the way of the new one
  BOOST_TEST(mentions(data_error_of([&] { sft::io::write_file_atomically(folder.file("text"), "new"); }),
                      {"cannot create", folder.file("text.tmp")}));
  BOOST_TEST(sft::io::read_file(folder.file("text")) == "former");
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

BOOST_AUTO_TEST_SUITE_END()
