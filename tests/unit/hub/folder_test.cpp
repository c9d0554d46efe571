// SPDX-License-Identifier: Apache-2.0
// Where models are found, and how folders are written.

#include "sft/hub/folder.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <boost/test/unit_test.hpp>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <thread>

#include "sft/io/files.hpp"
#include "support/error_text.hpp"
#include "unit/hub/hub_fixture.hpp"

using namespace sft;
namespace fs = std::filesystem;
using test::data_error_of;
using test::mentions;

namespace {

/// A hub cache with one model at one commit, and the environment that leads to it.
struct Cache {
  Cache() {
    const std::string repository = folder.file("hub/models--org--name");
    fs::create_directories(repository + "/snapshots/0123abcd");
    fs::create_directories(repository + "/refs/pr");
    test::write_bytes(repository + "/refs/main", "0123abcd\n");
    test::write_bytes(repository + "/refs/pr/1", "0123abcd");
    for (const char* name : {"HF_HUB_CACHE", "HUGGINGFACE_HUB_CACHE", "XDG_CACHE_HOME"}) ::unsetenv(name);
    ::setenv("HF_HOME", folder.path().c_str(), 1);
  }
  ~Cache() { ::unsetenv("HF_HOME"); }

  [[nodiscard]] std::string snapshot() const { return folder.file("hub/models--org--name/snapshots/0123abcd"); }

  test::TemporaryFolder folder;
};

std::string find_error(const std::string& name, const std::string& revision = "main") {
  return data_error_of([&] { static_cast<void>(hub::find_model_folder(name, revision)); });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(folder)

BOOST_AUTO_TEST_CASE(names_are_looked_up_in_the_cache) {
  const Cache cache;
  for (const char* revision : {"main", "0123abcd", "pr/1"}) {
    BOOST_TEST(hub::find_model_folder("org/name", revision) == cache.snapshot());
  }
  ::setenv("HF_HUB_CACHE", cache.folder.file("hub").c_str(), 1);
  ::setenv("HF_HOME", "/nowhere", 1);
  BOOST_TEST(hub::find_model_folder("org/name", "main") == cache.snapshot());
  ::unsetenv("HF_HUB_CACHE");
  BOOST_TEST(mentions(find_error("org/name"), {"/nowhere/hub"}));
  BOOST_TEST(hub::find_model_folder(cache.folder.path(), "main") == cache.folder.path());
}

BOOST_AUTO_TEST_CASE(what_is_not_there_comes_with_the_command_that_downloads_it) {
  const Cache cache;
  BOOST_TEST(
      mentions(find_error("org/other"), {"org/other", cache.folder.path(), "postprocess/fetch.py model org/other"}));
  BOOST_TEST(mentions(find_error("org/name", "v2"), {"at revision v2", "--revision v2"}));
  BOOST_TEST(mentions(find_error("org/name", "../snapshots"), {"cannot find"}));
  BOOST_TEST(mentions(find_error("a/b/c"), {"there is no such folder"}));
  BOOST_TEST(mentions(find_error("/no/such"), {"there is no such folder"}));
  test::write_bytes(cache.folder.file("file"), "");
  BOOST_TEST(mentions(find_error(cache.folder.file("file")), {"it is a file"}));
}

BOOST_AUTO_TEST_CASE(companions_are_copied_as_files_of_their_own) {
  const test::TemporaryFolder from, to;
  test::write_bytes(from.file("blob"), "{}");
  fs::create_symlink(from.file("blob"), from.file("tokenizer.json"));
  test::write_bytes(from.file("generation_config.json"), "{ }");
  fs::permissions(from.file("generation_config.json"), fs::perms::owner_read);
  test::write_bytes(from.file("model.safetensors"), "x");
  fs::create_directory(from.file("additional_chat_templates"));
  fs::create_symlink(from.file("blob"), from.file("additional_chat_templates/tool_use.jinja"));
  BOOST_TEST(hub::copy_companions(from.path(), to.path()).size() == 3U);
  for (const char* file : {"tokenizer.json", "additional_chat_templates/tool_use.jinja"}) {
    BOOST_TEST(fs::is_regular_file(fs::symlink_status(to.file(file))));
  }
  BOOST_TEST(io::read_file(to.file("tokenizer.json")) == "{}");
  BOOST_TEST(
      ((fs::status(to.file("generation_config.json")).permissions() & fs::perms::owner_write) != fs::perms::none));
  BOOST_TEST(!fs::exists(to.file("model.safetensors")));
}

BOOST_AUTO_TEST_CASE(a_folder_appears_whole) {
  const test::TemporaryFolder parent;
  const std::string target = parent.file("model");
  for (const char* content : {"old", "new"}) {
    hub::NewFolder made(target + "/", /*replaces=*/true);
    test::write_bytes(made.temporary() + "/config.json", content);
    made.finish();
    BOOST_TEST(io::read_file(target + "/config.json") == content);
  }
  {
    const hub::NewFolder given_up(target, /*replaces=*/true);
    test::write_bytes(given_up.temporary() + "/config.json", "half");
  }
  BOOST_TEST(io::read_file(target + "/config.json") == "new");
  BOOST_TEST(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()) == 1);
  BOOST_TEST(mentions(data_error_of([&] { const hub::NewFolder again(target, /*replaces=*/false); }),
                      {"it is there already"}));
  BOOST_TEST(hub::is_model_folder(target));
  BOOST_TEST(!hub::is_model_folder(parent.path()));
}

/// Writes a folder of three files, all with `content`, in place of what is there.
void replace_model(const std::string& target, const std::string& content) {
  hub::NewFolder made(target, /*replaces=*/true);
  for (const char* name : {"config.json", "model.safetensors", "tokenizer.json"}) {
    test::write_bytes(made.temporary() + "/" + name, content);
  }
  made.finish();
}

BOOST_AUTO_TEST_CASE(a_whole_folder_is_there_all_the_time) {
  const test::TemporaryFolder parent;
  for (const char* name : {"a", "b"}) fs::create_directory(parent.file(name));
  if (!io::exchange_paths(parent.file("a"), parent.file("b"))) return;
  const std::string target = parent.file("model");
  replace_model(target, "0");
  std::atomic<bool> is_done = false;
  std::int64_t num_absences = 0;
  std::thread watcher([&] {
    while (!is_done) num_absences += fs::exists(target + "/config.json") ? 0 : 1;
  });
  for (int repeat = 1; repeat < 300; ++repeat) replace_model(target, std::to_string(repeat));
  is_done = true;
  watcher.join();
  BOOST_TEST(num_absences == 0);
}

BOOST_AUTO_TEST_CASE(a_kill_at_any_moment_leaves_one_whole_folder) {
  const test::TemporaryFolder parent;
  const std::string target = parent.file("model");
  replace_model(target, "0");
  for (int trial = 0; trial < 100; ++trial) {
    const pid_t child = ::fork();
    BOOST_TEST_REQUIRE(child >= 0);
    if (child == 0) {
      for (int i = 0;; ++i) replace_model(target, std::to_string(1000 * trial + i));
    }
    ::usleep(static_cast<useconds_t>(200 + 97 * trial));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    const std::string content = io::read_file(target + "/config.json");
    for (const char* name : {"model.safetensors", "tokenizer.json"}) {
      BOOST_TEST_REQUIRE(io::read_file(target + "/" + name) == content);
    }
    hub::NewFolder::recover(target);
    BOOST_TEST_REQUIRE(io::read_file(target + "/config.json") == content);
  }
  replace_model(target, "end");
  BOOST_TEST(std::distance(fs::directory_iterator(target), fs::directory_iterator()) == 3);
  for (const fs::directory_entry& entry : fs::directory_iterator(parent.path())) {
    // An empty folder that a kill left without its mark goes with the next one.
    BOOST_TEST(entry.path().filename() == "model");
  }
}

BOOST_AUTO_TEST_CASE(a_folder_killed_between_two_names_comes_back) {
  const test::TemporaryFolder parent;
  const std::string target = parent.file("model");
  const auto make = [&](const std::string& folder, const char* content) {
    fs::create_directory(folder);
    test::write_bytes(folder + "/config.json", content);
    test::write_bytes(folder + "/.sft-unfinished", "");
  };
  make(target + ".former.tmp", "old");  // where names cannot be exchanged
  make(target + ".tmp", "new");
  hub::NewFolder::recover(target);
  BOOST_TEST(io::read_file(target + "/config.json") == "old");
  BOOST_TEST(std::distance(fs::directory_iterator(target), fs::directory_iterator()) == 1);
  BOOST_TEST(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()) == 1);
}

BOOST_AUTO_TEST_CASE(folders_of_others_are_set_aside) {
  const test::TemporaryFolder parent;
  const std::string target = parent.file("model");
  for (const char* name : {"model", "model.tmp"}) {
    fs::create_directory(parent.file(name));
    test::write_bytes(parent.file(name) + "/config.json", "{}");
    test::write_bytes(parent.file(name) + "/notes.txt", name);
  }
  hub::NewFolder::recover(target);
  BOOST_TEST(io::read_file(target + ".tmp/notes.txt") == "model.tmp");
  replace_model(target, "1");
  replace_model(target, "2");
  BOOST_TEST(io::read_file(target + ".kept/notes.txt") == "model");
  BOOST_TEST(io::read_file(target + ".tmp.kept/notes.txt") == "model.tmp");
  BOOST_TEST(io::read_file(target + "/config.json") == "2");
  BOOST_TEST(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()) == 3);
}

BOOST_AUTO_TEST_SUITE_END()
