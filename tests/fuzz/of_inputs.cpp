// SPDX-License-Identifier: Apache-2.0
// The readers of the program fuzz_inputs, which is linked without the rooms of the others.
#include "readers.hpp"

namespace sft::fuzz {

std::vector<Reader> all_readers() { return input_readers(); }

}  // namespace sft::fuzz
