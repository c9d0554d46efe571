// SPDX-License-Identifier: Apache-2.0
#include "apps/prepare/summary.hpp"

#include <boost/test/unit_test.hpp>

#include "sft/text/byte_tokenizer.hpp"

using sft::apps::preview_of;

namespace {

const sft::text::ByteTokenizer tokenizer;

/// "ab" and "cde" with an escape behind each other, and two tokens of padding.
const sft::rows::Row row = {.tokens = {'a', 'b', 'c', 'd', 'e', 0x1b, 256, 256},
                            .loss_weight = {0.0f, 1.0f, 0.0f, 0.25f, 0.25f, 1.0f, 0.0f, 0.0f},
                            .document_lengths = {2, 4}};

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_trained_on_stands_in_brackets_with_other_weights_than_one) {
  BOOST_TEST(preview_of(row, 0, 3, tokenizer, /*has_colour=*/false) ==
             "\nrow 1 of 3: 6 of 8 tokens, 4 trained on\n"
             "── document 1 of 2: 2 tokens, 1 trained on ──\na⟦b⟧\n"
             "── document 2 of 2: 4 tokens, 3 trained on ──\nc⟦0.25:de⟧⟦\\x1b⟧");
}

BOOST_AUTO_TEST_CASE(on_a_terminal_it_has_colours_of_its_own_alone) {
  BOOST_TEST(preview_of(row, 2, 3, tokenizer, /*has_colour=*/true) ==
             "\nrow 3 of 3: 6 of 8 tokens, 4 trained on\n"
             "── document 1 of 2: 2 tokens, 1 trained on ──\n\x1b[2ma\x1b[0m\x1b[32mb\x1b[0m\n"
             "── document 2 of 2: 4 tokens, 3 trained on ──\n\x1b[2mc\x1b[0m\x1b[33m0.25:de\x1b[0m"
             "\x1b[32m\\x1b\x1b[0m");
}
