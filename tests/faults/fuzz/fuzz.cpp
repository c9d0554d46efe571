// SPDX-License-Identifier: Apache-2.0
// Damages files at random and reads them with the project's readers, each in a process of its own. A reader may refuse
// the files with an error for the user, or give exactly what it gave before the damage. A changed content, a crash, a
// hang and any other exception are found and named, and fail the test.
//
//   fuzz KIND PATH [--seed S] [--first N] [--count N]
//
// KIND is packed, checkpoint, config, hub, records, template or tokenizer (readers.hpp); PATH is a sound folder or file
// of that kind, which stays as it is. Case i of a seed is always the same damage; --first I --count 1 does it again and
// leaves the damaged copy behind.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <string>
#include <vector>

#include "child.hpp"
#include "damage.hpp"
#include "readers.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"
#include "support/listed_error.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace sft;
using test::Outcome;

namespace {

struct Options {
  std::string kind, path;
  std::uint64_t seed = 1, first = 0, count = 1000;
};

Options parse(const std::vector<std::string>& words) {
  Options options;
  std::map<std::string, std::uint64_t*> numbers = {
      {"--seed", &options.seed}, {"--first", &options.first}, {"--count", &options.count}};
  if (words.size() < 2 || words.size() % 2 != 0) {
    throw_config_error("cannot use the command line", "it is no KIND PATH [--NAME NUMBER ...]", "see fuzz.cpp");
  }
  options.kind = words[0];
  options.path = words[1];
  for (std::size_t i = 2; i < words.size(); i += 2) {
    if (!numbers.contains(words[i])) throw_config_error("unknown option " + words[i], "see fuzz.cpp", "leave it out");
    *numbers.at(words[i]) = std::strtoull(words[i + 1].c_str(), nullptr, 10);
  }
  return options;
}

/// The files of a folder, or the one file, that `path` is; relative to it.
std::vector<std::string> list_files(const std::string& path) {
  if (!fs::is_directory(path)) return {""};
  std::vector<std::string> names;
  for (const fs::directory_entry& entry : fs::directory_iterator(path)) names.push_back(entry.path().filename());
  std::sort(names.begin(), names.end());
  return names;
}

/// Without the care for power cuts of io::write_file_atomically, which takes longer than the rest of a case; ext4 takes
/// it too for a file that is cut to nothing and written again.
void write_file(const std::string& path, const std::string& bytes) {
  fs::remove(path);
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << bytes;
  if (!file.flush()) throw_data_error("cannot write " + path, "the disk may be full", "free space");
}

/// One file of a copy, damaged and mended.
class Fuzzer {
 public:
  explicit Fuzzer(const Options& options)
      : options_(options), reader_(test::make_reader(options.kind)), copy_(folder_.file("copy")) {
    fs::copy(options.path, copy_, fs::copy_options::recursive);
    const Outcome sound = read();
    if (sound.kind != Outcome::Kind::done) {
      throw_data_error(options.path + " is not sound", sound.text, "give what the reader reads");
    }
    content_ = sound.text;
  }

  /// Whether no case failed.
  bool run() {
    for (std::uint64_t i = options_.first; i < options_.first + options_.count; ++i) run_case(i);
    std::cout << options_.kind << ":";
    for (const auto& [name, count] : counts_) std::cout << " " << count << " " << name << ",";
    std::cout << " " << num_failures_ << " failed\n";
    return num_failures_ == 0;
  }

 private:
  Outcome read() {
    return test::run_in_child([this] { return reader_.read(copy_); });
  }

  void run_case(std::uint64_t number) {
    std::mt19937_64 generator = test::make_generator(options_.seed, number);
    const std::vector<std::string> names = list_files(copy_);
    const std::string& name = names[std::uniform_int_distribution<std::size_t>(0, names.size() - 1)(generator)];
    const std::string file = name.empty() ? copy_ : copy_ + "/" + name;
    const std::string sound = io::read_file(file);
    std::string damaged = sound;
    const std::string description = test::damage(damaged, generator);
    write_file(file, damaged);
    judge(number, name + ": " + description, read());
    if (options_.count == 1) {
      const std::string kept = "damaged-" + options_.kind;
      fs::remove_all(kept);
      fs::copy(copy_, kept, fs::copy_options::recursive);
      std::cout << "the damaged copy is " << kept << "\n";
    }
    write_file(file, sound);
  }

  void judge(std::uint64_t number, const std::string& description, const Outcome& outcome) {
    const auto fail = [&](const std::string& why) {
      ++num_failures_;
      std::cout << "FAILED --seed " << options_.seed << " --first " << number << " --count 1: " << description << ": "
                << why << std::endl;
    };
    switch (outcome.kind) {
      case Outcome::Kind::done:
        if (outcome.text == content_) {
          ++counts_["without effect"];
        } else if (reader_.may_change) {
          ++counts_["legal"];
        } else {
          fail("other content was read without an error");
        }
        break;
      case Outcome::Kind::refused:
        ++counts_["refused"];
        if (outcome.text.find('\n') != std::string::npos && !test::is_listed_error(outcome.text)) {
          fail("the error has several lines: " + outcome.text);
        }
        break;
      case Outcome::Kind::failed:
        fail("no error for a user: " + outcome.text);
        break;
      case Outcome::Kind::crashed:
        fail("a crash: " + outcome.text);
        break;
      case Outcome::Kind::hung:
        fail("a hang");
        break;
    }
  }

  const Options options_;
  const test::Reader reader_;
  test::TemporaryFolder folder_;
  const std::string copy_;
  std::string content_;
  std::map<std::string, std::uint64_t> counts_;
  std::uint64_t num_failures_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] {
    Fuzzer fuzzer(parse({argv + 1, argv + argc}));
    return fuzzer.run() ? EXIT_SUCCESS : EXIT_FAILURE;
  });
}
