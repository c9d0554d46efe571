// SPDX-License-Identifier: Apache-2.0
#include "support/by_turns.hpp"

#include <cstdint>
#include <span>

namespace sft::test {

std::vector<std::vector<double>> by_turns(const comm::Group& world,
                                          const std::vector<std::function<std::vector<double>()>>& works) {
  std::vector<std::vector<double>> results(works.size());
  std::vector<std::int64_t> sizes(works.size());
  for (std::size_t i = world.rank(); i < works.size(); i += world.size()) {
    results[i] = works[i]();
    sizes[i] = std::ssize(results[i]);
  }
  world.sum(std::span<std::int64_t>(sizes));
  for (std::size_t i = 0; i < works.size(); ++i) {
    results[i].resize(sizes[i]);
    world.sum(std::span<double>(results[i]));  // one rank's numbers and zeros: exact
  }
  return results;
}

}  // namespace sft::test
