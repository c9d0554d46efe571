// SPDX-License-Identifier: Apache-2.0
#pragma once
// The fixtures that make_reference.py wrote.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "support/engine_fixture.hpp"

namespace sft::test {

struct ReferenceFixture {
  config::Model model;
  std::int64_t max_length = 0;
  std::vector<rows::Row> rows;
  LogicalTensors parameters;
  double loss = 0.0;
  LogicalTensors gradients;
  std::vector<std::int32_t> logits_tokens;  ///< one document
  std::vector<double> logits;               ///< (T, V) of it
};

/// The same of llama.h5 with linear layers in fp8, `kind` as train.fp8 names it: loss and gradients of llama_fp8.h5,
/// which tests/tools/peers/fp8.py made.
[[nodiscard]] ReferenceFixture read_fp8_reference(const std::string& kind);

/// Reads tests/reference/fixtures/FAMILY.h5.
[[nodiscard]] ReferenceFixture read_reference(const std::string& family);

}  // namespace sft::test
