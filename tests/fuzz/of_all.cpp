// SPDX-License-Identifier: Apache-2.0
// The readers of the programs fuzz_readers and fuzz_all.
#include "readers.hpp"

namespace sft::fuzz {

std::vector<Reader> all_readers() {
  std::vector<Reader> all = input_readers();
  for (const auto& some : {checkpoint_readers(), run_readers()}) all.insert(all.end(), some.begin(), some.end());
  return all;
}

}  // namespace sft::fuzz
