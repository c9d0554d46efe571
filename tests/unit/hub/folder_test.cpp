// SPDX-License-Identifier: Apache-2.0
// Where models are found, and how folders are written.

#include "sft/hub/folder.hpp"

#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <string>

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
  BOOST_TEST(hub::copy_companions(from.path(), to.path()).size() == 2U);
  BOOST_TEST(fs::is_regular_file(fs::symlink_status(to.file("tokenizer.json"))));
  BOOST_TEST(io::read_file(to.file("tokenizer.json")) == "{}");
  BOOST_TEST(
      ((fs::status(to.file("generation_config.json")).permissions() & fs::perms::owner_write) != fs::perms::none));
  BOOST_TEST(!fs::exists(to.file("model.safetensors")));
}

BOOST_AUTO_TEST_CASE(a_folder_appears_whole) {
  const test::TemporaryFolder parent;
  const std::string target = parent.file("model");
  for (const char* content : {"old", "new"}) {
    const std::string temporary = hub::begin_folder(target, /*replaces=*/true);
    test::write_bytes(temporary + "/config.json", content);
    hub::finish_folder(target + "/");
    BOOST_TEST(io::read_file(target + "/config.json") == content);
  }
  BOOST_TEST(std::distance(fs::directory_iterator(parent.path()), fs::directory_iterator()) == 1);
  BOOST_TEST(mentions(data_error_of([&] { static_cast<void>(hub::begin_folder(target, /*replaces=*/false)); }),
                      {"it is there already"}));
  BOOST_TEST(hub::is_model_folder(target));
  BOOST_TEST(!hub::is_model_folder(parent.path()));
}

BOOST_AUTO_TEST_SUITE_END()
