// SPDX-License-Identifier: Apache-2.0
#include "prepare/record_reader.hpp"

#include <barrier>
#include <boost/test/unit_test.hpp>
#include <fstream>
#include <limits>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "prepare/input_spans.hpp"
#include "support/temporary_folder.hpp"

using sft::prepare::ByteRange;
using sft::prepare::InputSpan;
using sft::prepare::RawRecord;
using sft::prepare::RecordReader;

BOOST_AUTO_TEST_SUITE(record_reader)

namespace {

constexpr auto ignore_progress = [](std::int64_t) {};

/// Lines of 0 to 20 characters, some with spaces before, of white space alone, or with a carriage return.
std::string some_lines(unsigned seed, bool ends_last_line) {
  std::mt19937 random(seed);
  std::string text;
  for (int i = 0; i < 15; ++i) {
    const std::string own(random() % 20, static_cast<char>('a' + i % 26));
    text += std::string(random() % 4 == 0 ? random() % 6 : 0, ' ') + own + (random() % 5 == 0 ? "\r\n" : "\n");
  }
  return text + (ends_last_line ? "the last\n" : "the last");
}

/// Text and line of every record; of a range, lines are counted on from `first_line`.
using Records = std::vector<std::pair<std::string, std::int64_t>>;
std::int64_t read_into(Records& records, RecordReader&& reader, std::int64_t first_line) {
  for (RawRecord record; reader.next(record);) records.emplace_back(record.text, first_line + record.line);
  return first_line + reader.num_lines();
}

/// The records of a text that is read in ranges which end at these places, and at its end.
Records read_in_ranges(const std::string& path, const std::vector<std::int64_t>& borders) {
  Records records;
  ByteRange range;
  std::int64_t line = 0;
  for (const std::int64_t border : borders) {
    range.end = border;
    line = read_into(records, RecordReader(path, range, ignore_progress), line);
    range = {.begin = border};
  }
  static_cast<void>(read_into(records, RecordReader(path, range, ignore_progress), line));
  return records;
}

/// One of several threads, each of which is a process of the team.
class ThreadOfTeam : public sft::prepare::Team {
 public:
  ThreadOfTeam(std::vector<std::string>& messages, std::barrier<>& meeting, int rank)
      : messages_(messages), meeting_(meeting), rank_(rank) {}
  [[nodiscard]] int rank() const override { return rank_; }
  [[nodiscard]] int size() const override { return static_cast<int>(messages_.size()); }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text) const override {
    messages_[rank_] = text;
    meeting_.arrive_and_wait();
    return messages_;
  }

 private:
  std::vector<std::string>& messages_;
  std::barrier<>& meeting_;
  int rank_;
};

/// What the last of so many ranks gets.
std::vector<InputSpan> divide(const std::vector<std::string>& files, int num_ranks) {
  std::vector<std::string> messages(num_ranks);
  std::barrier<> meeting(num_ranks);
  std::vector<InputSpan> spans;
  std::vector<std::jthread> threads;
  for (int rank = 0; rank < num_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::vector<InputSpan> own =
          sft::prepare::divide_inputs({sft::prepare::InputGroup{files}}, ThreadOfTeam(messages, meeting, rank));
      if (rank + 1 == num_ranks) spans = std::move(own);
    });
  }
  threads.clear();  // joins
  return spans;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_record_is_in_the_range_where_its_line_begins) {
  const sft::test::TemporaryFolder folder;
  const std::string path = folder.file("lines.jsonl");
  for (unsigned seed = 0; seed < 4; ++seed) {
    const std::string text = some_lines(seed, seed % 2 == 0);
    std::ofstream(path, std::ios::binary) << text;
    Records whole;
    static_cast<void>(read_into(whole, RecordReader(path, ignore_progress), 0));
    BOOST_TEST_REQUIRE(whole.size() > 5U);
    for (std::int64_t size = 1; size <= std::ssize(text); ++size) {
      std::vector<std::int64_t> borders;
      for (std::int64_t border = size; border < std::ssize(text); border += size) borders.push_back(border);
      BOOST_TEST_REQUIRE((read_in_ranges(path, borders) == whole), "seed " << seed << ", ranges of " << size);
      BOOST_TEST_REQUIRE((read_in_ranges(path, {size}) == whole), "seed " << seed << ", border at " << size);
    }
  }
}

BOOST_AUTO_TEST_CASE(only_plain_lines_can_be_divided) {
  const sft::test::TemporaryFolder folder;
  const auto is_divisible = [&](const std::string& bytes) {
    std::ofstream(folder.file("f"), std::ios::binary) << bytes;
    return RecordReader::is_divisible(folder.file("f"));
  };
  BOOST_TEST(is_divisible("{}\n"));
  BOOST_TEST(is_divisible("\xef\xbb\xbf\n {}"));
  BOOST_TEST(!is_divisible(" \n[{}]"));
  BOOST_TEST(!is_divisible("\xef\xbb\xbf["));
  BOOST_TEST(!is_divisible("\x1f\x8b{}"));
  BOOST_TEST(!is_divisible("\x28\xb5\x2f\xfd{}"));
  BOOST_TEST(!is_divisible(""));
  BOOST_TEST(!is_divisible(std::string(5000, ' ') + "{}"));
  BOOST_TEST(!RecordReader::is_divisible(folder.file("none")));
}

BOOST_AUTO_TEST_CASE(ranks_share_the_inputs_evenly) {
  const sft::test::TemporaryFolder folder;
  std::vector<std::string> files;
  for (const char* name : {"a.jsonl", "b.jsonl", "c.json", "d.json", "e.json"}) files.push_back(folder.file(name));
  const std::string record = "{\"text\": \"" + std::string(987, 'x') + "\"}";
  for (const auto& [file, count] : {std::pair{0, 6000}, std::pair{1, 1500}}) {
    std::ofstream lines(files[file]);
    for (int i = 0; i < count; ++i) lines << record << "\n";
  }
  for (const auto& [file, count] : {std::pair{2, 200}, std::pair{3, 3000}, std::pair{4, 300}}) {
    std::ofstream array(files[file]);
    for (int i = 0; i < count; ++i) array << (i == 0 ? "[" : ",\n") << record;
    array << "]";
  }
  for (const int num_ranks : {2, 3, 5}) {
    const std::vector<InputSpan> spans = divide(files, num_ranks);
    std::int64_t begin = 0, shared_bytes = 0;
    std::set<std::string> inputs;
    for (std::size_t i = 0; i < spans.size(); ++i) {
      inputs.insert(spans[i].input);
      const bool is_lines = spans[i].input == files[0] || spans[i].input == files[1];
      BOOST_TEST(spans[i].is_part == is_lines);
      BOOST_TEST((spans[i].reader == InputSpan::everyone) == (spans[i].input == files[3]));
      if (spans[i].reader == InputSpan::everyone) shared_bytes += spans[i].size_bytes;
      if (!is_lines) continue;
      BOOST_TEST(spans[i].range.begin == begin);
      const bool is_last = i + 1 == spans.size() || spans[i + 1].input != spans[i].input;
      BOOST_TEST(is_last == (spans[i].range.end == ByteRange().end));
      begin = is_last ? 0 : spans[i].range.end;
    }
    BOOST_TEST(inputs.size() == files.size());
    std::int64_t least = std::numeric_limits<std::int64_t>::max(), most = 0;
    for (int rank = 0; rank < num_ranks; ++rank) {
      const std::int64_t own = sft::prepare::num_bytes_read(spans, rank) - shared_bytes;
      least = std::min(least, own);
      most = std::max(most, own);
    }
    BOOST_TEST(most - least < most / 5);
  }
}

BOOST_AUTO_TEST_CASE(who_is_alone_reads_files_as_they_are) {
  const sft::test::TemporaryFolder folder;
  std::ofstream(folder.file("a.jsonl")) << std::string(1 << 20, '\n') << "{}\n";
  const std::vector<InputSpan> spans =
      sft::prepare::divide_inputs({sft::prepare::InputGroup{{folder.file("a.jsonl"), "-"}}}, sft::prepare::Team());
  BOOST_TEST_REQUIRE(spans.size() == 2U);
  BOOST_TEST(!spans[0].is_part);
  BOOST_TEST(spans[0].size_bytes == (1 << 20) + 3);
  BOOST_TEST(sft::prepare::num_bytes_read(spans, 0) == 0);  // nobody knows what comes from a pipe
}

BOOST_AUTO_TEST_SUITE_END()
