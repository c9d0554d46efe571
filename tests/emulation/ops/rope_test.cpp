// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(rotary)

namespace {

struct Case {
  std::int64_t tokens, heads, head_dim;
};
const std::vector<Case> cases = with_large<Case>({{0, 2, 8},
                                                  {1, 1, 2},
                                                  {3, 3, 6},
                                                  {2, 2, 10},
                                                  {5, 3, 16},
                                                  {4, 5, 64},
                                                  {3, 2, 80},
                                                  {2, 7, 96},
                                                  {3, 4, 128},
                                                  {2, 1, 254},
                                                  {2, 3, 256},
                                                  {61, 2, 16}},
                                                 {{700, 16, 64}, {300, 40, 128}});

std::string label(const std::string& op, DType dtype, Case c, Layout layout) {
  return op + " " + text_of(dtype) + " " + std::to_string(c.tokens) + " x " + std::to_string(c.heads) + " x " +
         std::to_string(c.head_dim) + ", gap " + std::to_string(layout.gap);
}

template <class F>
void for_each_case(F run) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const Case c : cases) run(dtype, c, layout);
    }
  }
}

/// The tables of c.tokens positions.
struct Tables {
  Twin cosine, sine;
  explicit Tables(Case c, Layout layout = {})
      : cosine(Twin(DType::float32, {c.tokens, c.head_dim / 2}, {.offset = layout.offset}).filled([](auto t, auto j) {
          return std::cos(static_cast<double>(3 * t + 1) / static_cast<double>(j + 1));
        })),
        sine(Twin(DType::float32, {c.tokens, c.head_dim / 2}, {.offset = layout.offset}).filled([](auto t, auto j) {
          return std::sin(static_cast<double>(3 * t + 1) / static_cast<double>(j + 1));
        })) {}
};

}  // namespace

BOOST_AUTO_TEST_CASE(tables) {
  for (const std::int64_t half : {1, 5, 32, 64}) {
    for (const std::int64_t tokens : {0, 1, 50}) {
      Twin positions = Twin(DType::int32, {tokens}).uniform(1, 0, 131071),
           frequencies = Twin(DType::float64, {half}).filled([&](std::int64_t j, std::int64_t) {
             return std::pow(1e6, -static_cast<double>(j) / static_cast<double>(half));
           }),
           cosine(DType::float32, {tokens, half}), sine(DType::float32, {tokens, half});
      const Tolerance tolerance{.of_largest = 3e-7};
      check("rope_table " + std::to_string(tokens) + " x " + std::to_string(half),
            {in(positions), in(frequencies), out(cosine, tolerance), out(sine, tolerance)}, [&](Backend& ops, auto of) {
              ops.run(WriteRopeTable{of(cosine), of(sine), of(positions), of(frequencies), {.factor = 1.3F}});
            });
      check(
          "rope_table that grows " + std::to_string(tokens) + " x " + std::to_string(half),
          {in(positions), in(frequencies), out(cosine, tolerance), out(sine, tolerance)}, [&](Backend& ops, auto of) {
            ops.run(WriteRopeTable{
                of(cosine), of(sine), of(positions), of(frequencies), {.factor = 1.3F, .beta = 0.1F, .length = 16384}});
          });
    }
  }
}

BOOST_AUTO_TEST_CASE(forward_and_backward) {
  for_each_case([](DType dtype, Case c, Layout layout) {
    Tables tables(c, layout);
    Twin x = Twin(dtype, {c.tokens, c.heads, c.head_dim}, layout).normal(1), y(dtype, {c.tokens, c.heads, c.head_dim}),
         dx(dtype, {c.tokens, c.heads, c.head_dim}, layout);
    check(label("rope", dtype, c, layout), {in(x), in(tables.cosine), in(tables.sine), out(y), out(dx)},
          [&](Backend& ops, auto of) {
            ops.run(RopeForward{of(y), of(x), {of(tables.cosine), of(tables.sine)}});
            ops.run(RopeBackward{of(dx), of(x), {of(tables.cosine), of(tables.sine)}});
          });
    check(label("rope in place", dtype, c, layout), {in(tables.cosine), in(tables.sine), out(x)},
          [&](Backend& ops, auto of) {
            ops.run(RopeForward{of(x), of(x), {of(tables.cosine), of(tables.sine)}});
          });
  });
}

BOOST_AUTO_TEST_CASE(the_first_dims_of_heads_alone) {
  for_each_case([](DType dtype, Case c, Layout layout) {
    for (const std::int64_t turned :
         {std::int64_t{2}, c.head_dim / 2 / 2 * 2, c.head_dim / 4 * 3 / 2 * 2, c.head_dim / 8 * 8}) {
      if (turned == 0) continue;
      Tables tables({c.tokens, c.heads, turned}, layout);
      Twin x = Twin(dtype, {c.tokens, c.heads, c.head_dim}, layout).normal(1);
      const auto table = [&](auto of) { return RopeTable{of(tables.cosine), of(tables.sine)}; };
      const std::string what = label("rope of " + std::to_string(turned) + " dims", dtype, c, layout);
      check(what, {in(tables.cosine), in(tables.sine), out(x)}, [&](Backend& ops, auto of) {
        ops.run(RopeForward{of(x), of(x), table(of)});
      });
      check(what + ", backward", {in(tables.cosine), in(tables.sine), out(x)}, [&](Backend& ops, auto of) {
        ops.run(RopeBackward{of(x), of(x), table(of)});
      });
    }
  });
}

BOOST_AUTO_TEST_CASE(after_norm_forward) {
  for_each_case([](DType dtype, Case c, Layout layout) {
    for (const DType weight_dtype : {DType::float32, dtype}) {
      Tables tables(c, layout);
      Twin x = Twin(dtype, {c.tokens, c.heads, c.head_dim}, layout).normal(1),
           y(dtype, {c.tokens, c.heads, c.head_dim}, layout), rstd(DType::float32, {c.tokens, c.heads}),
           weight = Twin(weight_dtype, {c.head_dim}).normal(2, 0.2, 1);
      check(label("norm_rope_forward", dtype, c, layout),
            {in(x), in(tables.cosine), in(tables.sine), in(weight), out(y), out(rstd)}, [&](Backend& ops, auto of) {
              ops.run(NormRopeForward{.out = of(y),
                                      .rstd = of(rstd),
                                      .in = of(x),
                                      .weight = of(weight),
                                      .table = {of(tables.cosine), of(tables.sine)},
                                      .epsilon = 1e-6F});
            });
      check(label("norm alone", dtype, c, layout), {in(x), in(weight), out(y), out(rstd)}, [&](Backend& ops, auto of) {
        ops.run(NormRopeForward{
            .out = of(y), .rstd = of(rstd), .in = of(x), .weight = of(weight), .table = {}, .epsilon = 1e-6F});
      });
    }
  });
}

BOOST_AUTO_TEST_CASE(after_norm_backward) {
  for_each_case([](DType dtype, Case c, Layout layout) {
    Tables tables(c, layout);
    Twin x = Twin(dtype, {c.tokens, c.heads, c.head_dim}).normal(1),
         dy = Twin(dtype, {c.tokens, c.heads, c.head_dim}, layout).normal(3),
         dx(dtype, {c.tokens, c.heads, c.head_dim}, layout),
         rstd = Twin(DType::float32, {c.tokens, c.heads}).normal(4, 0.1, 1),
         weight = Twin(dtype, {c.head_dim}).normal(2, 0.2, 1), dweight = Twin(DType::float32, {c.head_dim}).normal(5);
    const std::string what = label("norm_rope_backward", dtype, c, layout);
    check(what, {in(x), in(dy), in(tables.cosine), in(tables.sine), in(rstd), in(weight), out(dx), out(dweight)},
          [&](Backend& ops, auto of) {
            ops.run(NormRopeBackward{.din = of(dx),
                                     .dweight = of(dweight),
                                     .dout = of(dy),
                                     .in = of(x),
                                     .rstd = of(rstd),
                                     .weight = of(weight),
                                     .table = {of(tables.cosine), of(tables.sine)}});
          });
    check(what + " of a norm alone", {in(x), in(dy), in(rstd), in(weight), out(dx), out(dweight)},
          [&](Backend& ops, auto of) {
            ops.run(NormRopeBackward{.din = of(dx),
                                     .dweight = of(dweight),
                                     .dout = of(dy),
                                     .in = of(x),
                                     .rstd = of(rstd),
                                     .weight = of(weight),
                                     .table = {}});
          });
    check(what + " in place, no dweight", {in(x), out(dy), in(tables.cosine), in(tables.sine), in(rstd), in(weight)},
          [&](Backend& ops, auto of) {
            ops.run(NormRopeBackward{.din = of(dy),
                                     .dweight = {},
                                     .dout = of(dy),
                                     .in = of(x),
                                     .rstd = of(rstd),
                                     .weight = of(weight),
                                     .table = {of(tables.cosine), of(tables.sine)}});
          });
  });
}

BOOST_AUTO_TEST_CASE(gradients_of_weights_over_many_heads) {
  const Case c{300, 3, 16};
  Tables tables(c);
  Twin x = Twin(DType::bf16, {c.tokens, c.heads, c.head_dim}).normal(1),
       dy = Twin(DType::bf16, {c.tokens, c.heads, c.head_dim}).normal(3),
       dx(DType::bf16, {c.tokens, c.heads, c.head_dim}),
       rstd = Twin(DType::float32, {c.tokens, c.heads}).normal(4, 0.1, 1),
       weight = Twin(DType::bf16, {c.head_dim}).normal(2, 0.2, 1),
       dweight = Twin(DType::float32, {c.head_dim}).normal(5);
  check("norm_rope_backward of many heads",
        {in(x), in(dy), in(tables.cosine), in(tables.sine), in(rstd), in(weight), out(dx), out(dweight)},
        [&](Backend& ops, auto of) {
          ops.run(NormRopeBackward{.din = of(dx),
                                   .dweight = of(dweight),
                                   .dout = of(dy),
                                   .in = of(x),
                                   .rstd = of(rstd),
                                   .weight = of(weight),
                                   .table = {of(tables.cosine), of(tables.sine)}});
        });
}

BOOST_AUTO_TEST_CASE(a_head_dim_that_is_odd_or_too_large_is_refused) {
  Backend& ops = Backends::get().gpu();
  for (const std::int64_t head_dim : {7, 258}) {
    Twin x(DType::float32, {2, 1, head_dim}), rstd(DType::float32, {2, 1}), weight(DType::float32, {head_dim}),
        table(DType::float32, {2, head_dim / 2});
    BOOST_CHECK_THROW(ops.run(NormRopeForward{.out = x.gpu(),
                                              .rstd = rstd.gpu(),
                                              .in = x.gpu(),
                                              .weight = weight.gpu(),
                                              .table = {table.gpu(), table.gpu()},
                                              .epsilon = 1e-6F}),
                      std::logic_error);
    BOOST_CHECK_THROW(ops.run(NormRopeBackward{.din = x.gpu(),
                                               .dweight = weight.gpu(),
                                               .dout = x.gpu(),
                                               .in = x.gpu(),
                                               .rstd = rstd.gpu(),
                                               .weight = weight.gpu(),
                                               .table = {table.gpu(), table.gpu()}}),
                      std::logic_error);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
