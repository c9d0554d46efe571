// SPDX-License-Identifier: Apache-2.0
// The memory that sft-prepare takes does not grow with the text it reads.
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace {

constexpr std::int64_t mib = 1024 * 1024;

/// Records of 4 KiB of text each.
void write_corpus(const std::string& path, std::int64_t num_bytes) {
  const std::string record = "{\"text\": \"" + std::string(4096, 'x') + "\"}\n";
  std::ofstream file(path);
  for (std::int64_t written = 0; written < num_bytes; written += std::ssize(record)) file << record;
}

/// Peak resident size of sft-prepare on that corpus.
std::int64_t peak_bytes(const std::string& corpus, const std::string& output, const std::string& strategy) {
  std::string program = boost::unit_test::framework::master_test_suite().argv[1];
  std::string words[] = {"--input", corpus, "--output", output, "--packing_strategy", strategy};
  char* arguments[] = {program.data(),  words[0].data(), words[1].data(), words[2].data(),
                       words[3].data(), words[4].data(), words[5].data(), nullptr};
  pid_t child = 0;
  BOOST_REQUIRE(::posix_spawn(&child, program.c_str(), nullptr, nullptr, arguments, environ) == 0);
  int status = -1;
  rusage usage{};
  BOOST_REQUIRE(::wait4(child, &status, 0, &usage) == child);
  BOOST_REQUIRE(status == 0);
  return usage.ru_maxrss * 1024;
}

void write_record(const std::string& path, std::int64_t num_bytes) {
  std::ofstream(path) << "{\"text\": \"" << std::string(static_cast<std::size_t>(num_bytes), 'x') << "\"}\n";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_record_takes_about_ten_times_its_bytes) {
  const sft::test::TemporaryFolder folder;
  write_record(folder.file("small.jsonl"), mib);
  write_record(folder.file("large.jsonl"), 33 * mib);
  const std::int64_t small = peak_bytes(folder.file("small.jsonl"), folder.file("small"), "bfd_split");
  const std::int64_t large = peak_bytes(folder.file("large.jsonl"), folder.file("large"), "bfd_split");
  BOOST_TEST_MESSAGE("1 MiB: " << small / mib << " MiB, 33 MiB: " << large / mib << " MiB");
  BOOST_TEST(large - small < 11 * 32 * mib);
}

BOOST_AUTO_TEST_CASE(sixteen_times_the_text_takes_the_memory_of_a_few_lengths_more) {
  const sft::test::TemporaryFolder folder;
  write_corpus(folder.file("small.jsonl"), 2 * mib);
  write_corpus(folder.file("large.jsonl"), 32 * mib);
  for (const std::string strategy : {"bfd", "bfd_split", "wrapped"}) {
    const std::int64_t small = peak_bytes(folder.file("small.jsonl"), folder.file("small-" + strategy), strategy);
    const std::int64_t large = peak_bytes(folder.file("large.jsonl"), folder.file("large-" + strategy), strategy);
    BOOST_TEST_MESSAGE(strategy << ": " << small / mib << " MiB, " << large / mib << " MiB");
    BOOST_TEST(large - small < 16 * mib);  // as tokens, the text of the large one takes 128 MiB
  }
}
