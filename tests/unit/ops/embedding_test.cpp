// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(embedding)

BOOST_AUTO_TEST_CASE(looks_up_its_part_of_the_vocabulary) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const std::int64_t columns : {8, 67, 512}) {
      const std::int64_t rows = 61, vocab_begin = 20, vocab_size = 30;
      const Owned tokens = Owned(DType::int32, {rows}).uniform(1, 0, 79);
      const Owned table = Owned(dtype, {vocab_size, columns}).normal(2), out(dtype, {rows, columns});
      const Owned wide_out(DType::float32, {rows, columns});
      backend->run(EmbeddingForward{*out, *tokens, *table, vocab_begin});
      backend->run(EmbeddingForward{*wide_out, *tokens, *table, vocab_begin});
      std::vector<double> expected;
      for (std::int64_t t = 0; t < rows; ++t) {
        const auto id = static_cast<std::int64_t>(get(*tokens, t, 0)) - vocab_begin;
        for (std::int64_t c = 0; c < columns; ++c) {
          expected.push_back(id >= 0 && id < vocab_size ? get(*table, id, c) : 0.0);
        }
      }
      check_close(*out, expected, 0.0, label);
      check_close(*wide_out, expected, 0.0, label + ", float32 out");
    }
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_repeated_tokens_add_up) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const std::int64_t columns : {8, 67, 512}) {
      const std::int64_t rows = 130, vocab_begin = 5, vocab_size = 9;
      const Owned tokens = Owned(DType::int32, {rows}).uniform(3, 0, 19);
      const Owned dout = Owned(dtype, {rows, columns}).normal(4);
      const Owned dtable = Owned(DType::float32, {vocab_size, columns}).normal(5);
      std::vector<double> expected = read(*dtable);
      for (std::int64_t t = 0; t < rows; ++t) {
        const auto id = static_cast<std::int64_t>(get(*tokens, t, 0)) - vocab_begin;
        if (id < 0 || id >= vocab_size) continue;
        for (std::int64_t c = 0; c < columns; ++c) expected[id * columns + c] += get(*dout, t, c);
      }
      backend->run(EmbeddingBackward{*dtable, *tokens, *dout, vocab_begin});
      check_close(*dtable, expected, 1e-6, label);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
