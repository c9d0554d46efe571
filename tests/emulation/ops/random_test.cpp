// SPDX-License-Identifier: Apache-2.0
// The same random numbers as on the CPU: bits drawn alike, normal ones within rounding.
#include <boost/test/unit_test.hpp>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(random_numbers)

namespace {

constexpr std::uint64_t seed = 0x1234567890abcdefU;
const std::vector<std::int64_t> first_indices = {0, 4, 7, (std::int64_t{1} << 40) + 3};
const std::vector<std::int64_t> sizes = with_large<std::int64_t>({0, 1, 6, 64, 2500}, {300001});

}  // namespace

BOOST_AUTO_TEST_CASE(fill_uniform_and_normal) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : flat_layouts) {
      for (const std::int64_t first : first_indices) {
        for (const std::int64_t size : sizes) {
          const std::string what = text_of(dtype) + " from " + std::to_string(first) + ", " + std::to_string(size);
          Twin x(dtype, {size}, layout), y(dtype, {size}, layout);
          check("fill_uniform " + what, {out(x, {})},
                [&](Backend& ops, auto of) { ops.fill_uniform(of(x), seed, first, 0.3F); });
          const Tolerance few_ulps =
              dtype == DType::bf16 ? Tolerance{.of_itself = 0.008} : Tolerance{.of_largest = 1e-7, .of_itself = 1e-6};
          check("fill_normal " + what, {out(y, few_ulps)},
                [&](Backend& ops, auto of) { ops.fill_normal(of(y), seed, first, 0.02F); });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(add_uniform) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : flat_layouts) {
      for (const std::int64_t first : first_indices) {
        for (const std::int64_t size : sizes) {
          Twin x = Twin(dtype, {size}, layout).normal(1);
          check("add_uniform " + text_of(dtype) + " from " + std::to_string(first) + ", " + std::to_string(size),
                {out(x)}, [&](Backend& ops, auto of) { ops.add_uniform(of(x), seed, first, 0.3F); });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout) {
  for (const DType from : compute_dtypes) {
    for (const DType to : compute_dtypes) {
      for (const Layout layout : flat_layouts) {
        for (const std::int64_t first : {first_indices.front(), first_indices.back()}) {
          for (const std::int64_t size : sizes) {
            const std::string what = "dropout " + text_of(from) + " to " + text_of(to) + " from " +
                                     std::to_string(first) + ", " + std::to_string(size);
            Twin x = Twin(from, {size}, layout).normal(1), y(to, {size}, layout),
                 sum = Twin(to, {size}, layout).normal(2);
            check(what, {in(x), out(y, {}), out(sum)}, [&](Backend& ops, auto of) {
              ops.dropout(of(y), of(x), 0.1F, seed, first, false);
              ops.dropout(of(sum), of(x), 0.6F, seed, first, true);
            });
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_of_columns) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const std::int64_t first : {first_indices.front(), first_indices.back()}) {
        Twin x = Twin(dtype, {37, 24}, layout).normal(1), y(dtype, {37, 24});
        check("dropout of columns " + text_of(dtype) + " from " + std::to_string(first), {in(x), out(y, {})},
              [&](Backend& ops, auto of) { ops.dropout(of(y), of(x), 0.3F, seed, first, false); });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_in_place) {
  Twin x = Twin(DType::bf16, {1000}).normal(1);
  check("dropout in place", {out(x, {})}, [&](Backend& ops, auto of) { ops.dropout(of(x), of(x), 0.5F, 7, 8, false); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
