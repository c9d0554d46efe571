// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random damage to files: what disks, networks and interrupted copies do.

#include <cstdint>
#include <random>
#include <string>

namespace sft::test {

/// Fills a generator from a seed and the number of a case: each case can be made again alone.
[[nodiscard]] std::mt19937_64 make_generator(std::uint64_t seed, std::uint64_t case_number);

/// Changes `bytes` by flipped bits, zeroed, random or misplaced runs of bytes, a cut, or something appended; says how.
/// Every third place or so lies within the first or last 4 KiB, where formats keep what matters.
std::string damage(std::string& bytes, std::mt19937_64& generator);

}  // namespace sft::test
