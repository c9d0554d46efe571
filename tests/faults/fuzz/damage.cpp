// SPDX-License-Identifier: Apache-2.0
#include "damage.hpp"

#include <algorithm>

namespace sft::test {

namespace {

class Damager {
 public:
  Damager(std::string& bytes, std::mt19937_64& generator) : bytes_(bytes), generator_(generator) {}

  std::string flip_bits() {
    const std::size_t count = 1 + below(4);
    std::string text = "bits flipped at";
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t place = choose_place();
      bytes_[place] = static_cast<char>(bytes_[place] ^ (1 << below(8)));
      text += " " + std::to_string(place);
    }
    return text;
  }
  std::string zero_run() {
    const auto [begin, size] = choose_run();
    std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(begin), size, '\0');
    return describe("zeros over", begin, size);
  }
  std::string randomize_run() {
    const auto [begin, size] = choose_run();
    for (std::size_t i = begin; i < begin + size; ++i) bytes_[i] = random_byte();
    return describe("random bytes over", begin, size);
  }
  std::string misplace_run() {
    const auto [begin, size] = choose_run();
    const std::size_t source = below(bytes_.size() - size + 1);
    const std::string run = bytes_.substr(source, size);
    bytes_.replace(begin, size, run);
    return describe("bytes from " + std::to_string(source) + " on over", begin, size);
  }
  std::string truncate() {
    bytes_.resize(choose_place());
    return "cut to " + std::to_string(bytes_.size()) + " bytes";
  }
  std::string append() {
    const std::size_t count = run_size();
    const bool is_random = below(2) == 0;
    for (std::size_t i = 0; i < count; ++i) bytes_ += is_random ? random_byte() : '\0';
    return std::to_string(count) + (is_random ? " random bytes appended" : " zeros appended");
  }

  std::size_t below(std::size_t bound) { return std::uniform_int_distribution<std::size_t>(0, bound - 1)(generator_); }

 private:
  static constexpr std::size_t edge_bytes = 4096;

  char random_byte() { return static_cast<char>(below(256)); }
  /// Small sizes are as likely as large ones.
  std::size_t run_size() { return 1 + below(std::size_t{1} << (1 + below(12))); }
  std::size_t choose_place() {
    const std::size_t edge = std::min(edge_bytes, bytes_.size());
    switch (below(6)) {
      case 0:
        return below(edge);
      case 1:
        return bytes_.size() - 1 - below(edge);
      default:
        return below(bytes_.size());
    }
  }
  std::pair<std::size_t, std::size_t> choose_run() {
    const std::size_t begin = choose_place();
    return {begin, std::min(run_size(), bytes_.size() - begin)};
  }
  static std::string describe(const std::string& what, std::size_t begin, std::size_t size) {
    return what + " bytes " + std::to_string(begin) + " to " + std::to_string(begin + size);
  }

  std::string& bytes_;
  std::mt19937_64& generator_;
};

}  // namespace

std::mt19937_64 make_generator(std::uint64_t seed, std::uint64_t case_number) {
  std::seed_seq words{static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32),
                      static_cast<std::uint32_t>(case_number), static_cast<std::uint32_t>(case_number >> 32)};
  return std::mt19937_64(words);
}

std::string damage(std::string& bytes, std::mt19937_64& generator) {
  if (bytes.empty()) return Damager(bytes, generator).append();
  Damager damager(bytes, generator);
  switch (damager.below(8)) {
    case 0:
    case 1:
      return damager.flip_bits();
    case 2:
    case 3:
      return damager.zero_run();
    case 4:
      return damager.randomize_run();
    case 5:
      return damager.misplace_run();
    case 6:
      return damager.truncate();
    default:
      return damager.append();
  }
}

}  // namespace sft::test
