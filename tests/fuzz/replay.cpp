// SPDX-License-Identifier: Apache-2.0
// Without libFuzzer: gives each reader the seeds of its folder, and cuts and flips of them: what was once a finding
// stays mended, in every build.
//
//   fuzz_readers SEEDS_FOLDER

#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <sstream>
#include <string>
#include <vector>

#include "readers.hpp"
#include "sft/core/log.hpp"

namespace fs = std::filesystem;

namespace {

std::string bytes_of(const fs::path& path) {
  std::ostringstream text;
  text << std::ifstream(path, std::ios::binary).rdbuf();
  return std::move(text).str();
}

/// The seed; it cut at 16 places; and with another byte at each of 16.
std::vector<std::string> variants(const std::string& seed) {
  std::vector<std::string> all{seed};
  for (std::size_t i = 0; i < 16; ++i) {
    const std::size_t place = seed.size() * i / 16;
    all.push_back(seed.substr(0, place));
    if (place >= seed.size()) continue;
    std::string flipped = seed;
    flipped[place] = static_cast<char>(flipped[place] ^ (1 << i % 8));
    all.push_back(flipped);
  }
  return all;
}

}  // namespace

int main(int argc, char** argv) {
  sft::set_log_rank(1);
  int num_wrong = 0, num_read = 0;
  for (const sft::fuzz::Reader& reader : sft::fuzz::all_readers()) {
    const fs::path folder = fs::path(argv[argc - 1]) / reader.name;
    if (!fs::is_directory(folder)) {
      std::cout << "WRONG " << reader.name << " has no seeds in " << folder << "\n";
      ++num_wrong;
      continue;
    }
    std::vector<fs::path> seeds(fs::directory_iterator(folder), {});
    std::sort(seeds.begin(), seeds.end());
    for (const fs::path& seed : seeds) {
      for (const std::string& bytes : variants(bytes_of(seed))) {
        ++num_read;
        try {
          sft::fuzz::read(reader, bytes);
        } catch (const std::exception& error) {
          std::cout << "WRONG " << reader.name << ", made of " << seed << ": " << error.what() << "\n";
          ++num_wrong;
        }
      }
    }
  }
  std::cout << num_read << " inputs, " << num_wrong << " wrong\n";
  return num_wrong == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
