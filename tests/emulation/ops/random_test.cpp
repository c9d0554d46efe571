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

/// The seed in the memory of each backend.
Twin stored_seed() {
  return Twin(DType::uint8, {8}).filled([](std::int64_t byte, std::int64_t) {
    return static_cast<double>(seed >> (8 * byte) & 0xffU);
  });
}

}  // namespace

BOOST_AUTO_TEST_CASE(fill_uniform_and_normal) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : flat_layouts) {
      for (const std::int64_t first : first_indices) {
        for (const std::int64_t size : sizes) {
          const std::string what = text_of(dtype) + " from " + std::to_string(first) + ", " + std::to_string(size);
          Twin x(dtype, {size}, layout), y(dtype, {size}, layout);
          check("fill_uniform " + what, {out(x, {})}, [&](Backend& ops, auto of) {
            ops.run(FillUniform{of(x), seed, first, 0.3F});
          });
          const Tolerance few_ulps =
              dtype == DType::bf16 ? Tolerance{.of_itself = 0.008} : Tolerance{.of_largest = 1e-7, .of_itself = 1e-6};
          check("fill_normal " + what, {out(y, few_ulps)}, [&](Backend& ops, auto of) {
            ops.run(FillNormal{of(y), seed, first, 0.02F});
          });
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
                {out(x)}, [&](Backend& ops, auto of) {
                  ops.run(AddUniform{of(x), seed, first, 0.3F});
                });
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
            Twin word = stored_seed();
            check(what, {in(x), in(word), out(y, {}), out(sum)}, [&](Backend& ops, auto of) {
              ops.run(Dropout{.out = of(y), .in = of(x), .probability = 0.1F, .seed = of(word), .first_index = first});
              ops.run(Dropout{.out = of(sum),
                              .in = of(x),
                              .probability = 0.6F,
                              .seed = of(word),
                              .number = 13,
                              .part = 2,
                              .first_index = first,
                              .accumulate = true});
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
        Twin x = Twin(dtype, {37, 24}, layout).normal(1), y(dtype, {37, 24}), word = stored_seed();
        check(
            "dropout of columns " + text_of(dtype) + " from " + std::to_string(first), {in(x), in(word), out(y, {})},
            [&](Backend& ops, auto of) {
              ops.run(Dropout{.out = of(y), .in = of(x), .probability = 0.3F, .seed = of(word), .first_index = first});
            });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(dropout_in_place) {
  Twin x = Twin(DType::bf16, {1000}).normal(1), word = stored_seed();
  check("dropout in place", {in(word), out(x, {})}, [&](Backend& ops, auto of) {
    ops.run(Dropout{.out = of(x), .in = of(x), .probability = 0.5F, .seed = of(word), .first_index = 8});
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
