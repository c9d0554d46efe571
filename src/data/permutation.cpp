#include "data/permutation.hpp"

#include <numeric>
#include <utility>

namespace sft::data {

namespace {

/// The output function of SplitMix64: a bijection that scrambles a counter.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  SplitMix64(std::uint64_t seed, std::uint64_t stream) : state_(scramble(scramble(seed + golden_) + stream)) {}

  /// Uniform in [0, bound): draws that would favour small values are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t biased = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t draw = next();
    while (draw < biased) draw = next();
    return draw % bound;
  }

 private:
  std::uint64_t next() { return scramble(state_ += golden_); }

  static constexpr std::uint64_t golden_ = 0x9e3779b97f4a7c15u;
  std::uint64_t state_;
};

}  // namespace

std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream) {
  std::vector<std::int64_t> permutation(static_cast<std::size_t>(size));
  std::iota(permutation.begin(), permutation.end(), 0);
  SplitMix64 generator(seed, stream);
  for (std::size_t i = permutation.size(); i > 1; --i) {
    std::swap(permutation[i - 1], permutation[generator.below(i)]);
  }
  return permutation;
}

}  // namespace sft::data
