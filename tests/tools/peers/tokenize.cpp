// SPDX-License-Identifier: Apache-2.0
// What tokenizer_ids.py compares with the reference library, and how long it takes.
//
//   tokenize FOLDER [--add_special_tokens] [--split_special_tokens] <TEXTS     one line of JSON a text
//   tokenize FOLDER --time [--threads N] <TEXTS                                to encode all of them once: seconds of
//   the
//                                                                             clock, and of processors over all threads
//
// TEXTS are texts of any bytes, each behind its length, 4 bytes, little-endian.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <vector>

#include "sft/core/program.hpp"
#include "sft/text/hub_tokenizer.hpp"

using namespace sft;

namespace {

std::vector<std::string> read_texts() {
  const std::string bytes{std::istreambuf_iterator<char>(std::cin), {}};
  std::vector<std::string> texts;
  for (std::size_t place = 0; place + 4 <= bytes.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, bytes.data() + place, sizeof size);
    texts.push_back(bytes.substr(place + 4, size));
    place += 4 + size;
  }
  return texts;
}

void print(const text::Tokenizer& tokenizer, const std::string& text, const text::EncodeOptions& options) {
  nlohmann::json line;
  try {
    const text::Encoding encoding = tokenizer.encode_with_offsets(text, options);
    line["ids"] = encoding.ids;
    line["is_same_without_offsets"] = tokenizer.encode(text, options) == encoding.ids;
    line["offsets"] = nlohmann::json::array();
    for (const text::ByteRange& range : encoding.offsets) line["offsets"].push_back({range.begin, range.end});
    line["decoded"] = tokenizer.decode(encoding.ids);
    line["decoded_without_special"] = tokenizer.decode(encoding.ids, /*skip_special_tokens=*/true);
  } catch (const Error& error) {
    line["error"] = error.what();
  }
  std::cout << line.dump() << '\n';
}

struct Times {
  double wall_s = 0.0;
  double processor_s = 0.0;  ///< summed over threads
};

/// To encode every text once, by `num_threads` threads.
Times measure(const text::Tokenizer& tokenizer, const std::vector<std::string>& texts, std::size_t num_threads) {
  const auto begin = std::chrono::steady_clock::now();
  const std::clock_t processor_begin = std::clock();
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < num_threads; ++t) {
    threads.emplace_back([&, t] {
      for (std::size_t i = t; i < texts.size(); i += num_threads) static_cast<void>(tokenizer.encode_markup(texts[i]));
    });
  }
  for (std::thread& thread : threads) thread.join();
  return {.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(),
          .processor_s = static_cast<double>(std::clock() - processor_begin) / CLOCKS_PER_SEC};
}

}  // namespace

int main(int argc, char** argv) {
  return run_alone([&] {
    const std::vector<std::string> words(argv + 1, argv + argc);
    const auto has = [&words](const char* option) {
      return std::find(words.begin(), words.end(), option) != words.end();
    };
    const std::unique_ptr<text::Tokenizer> tokenizer = text::load_tokenizer(words.at(0));
    const std::vector<std::string> texts = read_texts();
    if (has("--time")) {
      const auto threads = std::find(words.begin(), words.end(), "--threads");
      const std::size_t num_threads = threads == words.end() ? 1 : std::strtoull((threads + 1)->c_str(), nullptr, 10);
      const Times times = measure(*tokenizer, texts, num_threads);
      std::cout << times.wall_s << ' ' << times.processor_s << '\n';
      return EXIT_SUCCESS;
    }
    for (const std::string& text : texts) {
      print(*tokenizer, text,
            {.add_special_tokens = has("--add_special_tokens"), .split_special_tokens = has("--split_special_tokens")});
    }
    return EXIT_SUCCESS;
  });
}
