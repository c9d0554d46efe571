// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "ops/random_bits.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(elementary)

BOOST_AUTO_TEST_CASE(fill_sets_every_element_of_a_view_and_no_other) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    Owned x(dtype, {5, 37});
    backend->run(Fill{x->columns(3, 30), 0.5f});
    for (std::int64_t r = 0; r < 5; ++r) {
      for (std::int64_t c = 0; c < 37; ++c) {
        const bool inside = c >= 3 && c < 33;
        BOOST_TEST((inside ? get(*x, r, c) == 0.5 : std::isnan(get(*x, r, c))), label);
      }
    }
    Owned large(dtype, {40961});
    backend->run(Fill{*large, -2.0f});
    check_close(*large, std::vector<double>(40961, -2.0), 0.0, label);
  });
}

BOOST_AUTO_TEST_CASE(copy_converts_strided_rows) {
  on_every_backend_and_dtype([](TestBackend& backend, DType from, const std::string& label) {
    for (const DType to : compute_dtypes) {
      const Owned source = Owned(from, {7, 300}).normal(1);
      const Owned destination(to, {7, 400});
      backend->run(Copy{destination->columns(50, 200), source->columns(11, 200)});
      const Owned expected(to, {7, 200});
      for (std::int64_t r = 0; r < 7; ++r) {
        for (std::int64_t c = 0; c < 200; ++c) set(*expected, r, c, get(*source, r, c + 11));
      }
      check_close(destination->columns(50, 200), read(*expected), 0.0, label);
      BOOST_TEST(std::isnan(get(*destination, 3, 49)));
      BOOST_TEST(std::isnan(get(*destination, 3, 250)));
    }
  });
}

BOOST_AUTO_TEST_CASE(conversion_rounds_to_nearest_even_and_keeps_nan_and_infinity) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t size = 1 << 16;
    const Owned source(DType::float32, {size});
    std::mt19937 generator(3);
    for (std::int64_t i = 0; i < size; ++i) {
      // Every upper half, with lower halves at, next to and away from the tie.
      const std::uint32_t low =
          i % 4 == 0 ? 0x8000u
                     : (i % 4 == 1 ? 0x7fffu : (i % 4 == 2 ? 0x8001u : static_cast<std::uint32_t>(generator()) >> 16));
      source->as<std::uint32_t>()[i] = static_cast<std::uint32_t>(i) << 16 | low;
    }
    const Owned destination(DType::bf16, {size});
    backend->run(Copy{*destination, *source});
    int num_wrong = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const float x = source->as<float>()[i];
      const BFloat16 y = destination->as<BFloat16>()[i];
      num_wrong += std::isnan(x) ? !std::isnan(float_of(y)) : y.bits != bf16_of(x).bits;
    }
    BOOST_TEST(num_wrong == 0, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(add_of_strided_rows) {
  on_every_backend([](TestBackend& backend) {
    const Owned a = Owned(DType::float32, {70, 400}).normal(1), b = Owned(DType::float32, {70, 300}).normal(2);
    const Tensor destination = a->columns(50, 250), source = b->columns(11, 250);
    const double outside = get(*a, 3, 49);
    std::vector<double> expected = read(destination);
    const std::vector<double> added = read(source);
    for (std::size_t i = 0; i < expected.size(); ++i) expected[i] += added[i];
    backend->run(Add{destination, source});
    check_close(destination, expected, 1e-7, backend.name());
    BOOST_TEST(get(*a, 3, 49) == outside);
    BOOST_CHECK_THROW(backend->run(Add{destination, *b}), std::logic_error);
  });
}

BOOST_AUTO_TEST_CASE(sums_are_rounded_once_to_the_dtype_of_the_destination) {
  on_every_backend([](TestBackend& backend) {
    for (const DType to : {DType::float32, DType::bf16}) {
      for (const DType from : {DType::float32, DType::bf16}) {
        const Owned a = Owned(to, {30, 70}).normal(1), b = Owned(from, {30, 70}).normal(2), sum(to, {30, 70});
        for (std::int64_t r = 0; r < 30; ++r) {
          for (std::int64_t c = 0; c < 70; ++c) set(*sum, r, c, get(*a, r, c) + get(*b, r, c));
        }
        backend->run(Add{*a, *b});
        BOOST_TEST((read(*a) == read(*sum)), backend.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(add_and_sum_squares) {
  on_every_backend([](TestBackend& backend) {
    for (const std::int64_t size : {1, 17, 5000, 300001}) {
      const Owned a = Owned(DType::float32, {size}).normal(4), b = Owned(DType::float32, {size}).normal(5);
      std::vector<double> sum = read(*a);
      double squares = 7.0;
      for (std::int64_t i = 0; i < size; ++i) {
        sum[i] = static_cast<float>(get(*a, i, 0) + get(*b, i, 0));
        squares += get(*b, i, 0) * get(*b, i, 0);
      }
      backend->run(Add{*a, *b});
      check_close(*a, sum, 1e-7, backend.name());
      const Owned result = Owned(DType::float64, {1}).fill(7.0);
      backend->run(SumSquares{*result, *b});
      check_close(*result, {squares}, 1e-6, backend.name());
    }
  });
}

BOOST_AUTO_TEST_CASE(sum_squares_does_not_hide_nan) {
  on_every_backend([](TestBackend& backend) {
    const Owned x = Owned(DType::float32, {70000}).fill(1.0);
    set(*x, 69999, 0, std::numeric_limits<double>::quiet_NaN());
    const Owned result = Owned(DType::float64, {1}).fill(0.0);
    backend->run(SumSquares{*result, *x});
    BOOST_TEST(std::isnan(get(*result, 0, 0)));
  });
}

BOOST_AUTO_TEST_CASE(divided_by_its_norm_a_vector_has_length_1) {
  on_every_backend([](TestBackend& backend) {
    for (const std::int64_t size : {1, 17, 300001}) {
      const Owned x = Owned(DType::float32, {size}).normal(4), squares = Owned(DType::float64, {1}).fill(0.0);
      std::vector<double> expected = read(*x);
      double sum = 0.0;
      for (const double value : expected) sum += value * value;
      for (double& value : expected) value /= std::sqrt(sum);
      backend->run(SumSquares{*squares, *x});
      backend->run(DivideByNorm{*x, *squares, 1e-7F});
      check_close(*x, expected, 1e-6, backend.name());
    }
    const Owned zeros = Owned(DType::float32, {5}).fill(0.0), squares = Owned(DType::float64, {1}).fill(0.0);
    backend->run(DivideByNorm{*zeros, *squares, 1e-7F});
    check_close(*zeros, std::vector<double>(5), 0.0, backend.name());
    const Owned tiny = Owned(DType::float32, {1}).fill(1e-9);
    backend->run(DivideByNorm{*tiny, *squares, 1e-7F});
    check_close(*tiny, {1e-2}, 1e-6, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(normal_numbers_have_the_right_moments) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t size = 400000;
    const Owned x(DType::float32, {size});
    backend->run(FillNormal{*x, 42, 0, 0.5f});
    double moments[5] = {};
    int beyond_two = 0;
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = get(*x, i, 0) / 0.5;
      for (int power = 1; power < 5; ++power) moments[power] += std::pow(value, power) / size;
      beyond_two += std::abs(value) > 2.0 ? 1 : 0;
    }
    BOOST_TEST(std::abs(moments[1]) < 0.01);
    BOOST_TEST(std::abs(moments[2] - 1.0) < 0.01);
    BOOST_TEST(std::abs(moments[3]) < 0.03);
    BOOST_TEST(std::abs(moments[4] - 3.0) < 0.08);
    BOOST_TEST(std::abs(beyond_two / double{size} - 0.0455) < 0.002);
  });
}

BOOST_AUTO_TEST_CASE(uniform_numbers_have_the_right_moments_and_bounds) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t size = 400000;
    const Owned x(DType::float32, {size});
    backend->run(FillUniform{*x, 42, 0, 0.5f});
    double moments[5] = {};
    for (std::int64_t i = 0; i < size; ++i) {
      const double value = get(*x, i, 0) / 0.5;
      BOOST_REQUIRE((value >= -1.0 && value < 1.0));
      for (int power = 1; power < 5; ++power) moments[power] += std::pow(value, power) / size;
    }
    BOOST_TEST(std::abs(moments[1]) < 0.005);
    BOOST_TEST(std::abs(moments[2] - 1.0 / 3) < 0.005);
    BOOST_TEST(std::abs(moments[3]) < 0.005);
    BOOST_TEST(std::abs(moments[4] - 0.2) < 0.005);
    const Owned slice(DType::float32, {3000});
    backend->run(FillUniform{*slice, 42, 12345, 0.5f});
    check_close(*slice, read(x->rows(12345, 3000)), 0.0, backend.name());
    const Owned sum = Owned(DType::float32, {3000}).fill(2.0);
    backend->run(AddUniform{*sum, 42, 12345, 0.5f});
    for (std::int64_t i = 0; i < 3000; ++i) set(*slice, i, 0, get(*slice, i, 0) + 2.0);
    check_close(*sum, read(*slice), 1e-6, backend.name());
  });
}

namespace {

/// Dropout with the seed of one of two micro-batches.
Dropout dropout_of(const Tensor& out, const ConstTensor& in, float probability, int micro_batch) {
  static const std::array<std::uint64_t, 2> seeds{5, 6};
  return {
      .out = out, .in = in, .probability = probability, .seed = ConstTensor(&seeds.at(micro_batch), DType::uint8, {8})};
}

}  // namespace

BOOST_AUTO_TEST_CASE(dropout_drops_a_share_and_scales_the_rest) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t rows = 300, columns = 333;
    for (const DType in_type : {DType::float32, DType::bf16}) {
      for (const DType out_type : {DType::float32, DType::bf16}) {
        const Owned in = Owned(in_type, {rows, columns}).fill(3.0), out = Owned(out_type, {rows, columns}).fill(7.0);
        const Dropout first = dropout_of(*out, *in, 0.25f, 0);
        backend->run(first);
        std::int64_t num_dropped = 0;
        for (const double value : read(*out)) {
          BOOST_REQUIRE((value == 0.0 || value == 4.0));
          num_dropped += value == 0.0 ? 1 : 0;
        }
        BOOST_TEST(std::abs(static_cast<double>(num_dropped) / (rows * columns) - 0.25) < 0.01);
        const Owned sum = Owned(out_type, {rows, columns}).fill(1.0);
        Dropout added = first;
        added.out = *sum;
        added.accumulate = true;
        backend->run(added);
        std::vector<double> expected = read(*out);
        for (double& value : expected) value += 1.0;
        BOOST_TEST((read(*sum) == expected));
        const Owned other(out_type, {rows, columns});
        backend->run(dropout_of(*other, *in, 0.25f, 1));
        BOOST_TEST((read(*other) != read(*out)));
        for (const bool by_number : {true, false}) {
          Dropout of_other_op = dropout_of(*other, *in, 0.25f, 0);
          (by_number ? of_other_op.number : of_other_op.part) = 1;
          backend->run(of_other_op);
          BOOST_TEST((read(*other) != read(*out)));
        }
        backend->run(dropout_of(*other, *in, 0.0f, 1));
        BOOST_TEST((read(*other) == read(*in)));
        constexpr std::int64_t first_row = 71, num_rows = 100;
        const Owned slice(out_type, {num_rows, columns});
        Dropout of_rows = dropout_of(*slice, in->rows(first_row, num_rows), 0.25f, 0);
        of_rows.first_index = first_row * columns;
        backend->run(of_rows);
        BOOST_TEST((read(*slice) == read(out->rows(first_row, num_rows))));
        constexpr std::int64_t first_column = 40, num_columns = 61;
        const Owned some(out_type, {rows, num_columns});
        Dropout of_columns = dropout_of(*some, in->columns(first_column, num_columns), 0.25f, 0);
        of_columns.first_index = first_column;
        backend->run(of_columns);
        BOOST_TEST((read(*some) == read(out->columns(first_column, num_columns))));
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(dropout_drops_the_elements_that_the_counters_say) {
  constexpr std::int64_t num_elements = 20011;
  const auto is_dropped = [](std::uint64_t index, float probability) {
    const PhiloxWords words = philox(seed_of_op(5, /*number=*/0, /*part=*/0), index / 4);
    const float number = uniform_of(std::array{words.a, words.b, words.c, words.d}.at(index % 4));
    return number < 2.0f * probability - 1.0f;
  };
  constexpr std::array probabilities{0.0f, 0x1p-24f, 0.05f, 0.3f, 0.5f, 0.9999999f};
  for (const float probability : probabilities) {
    const std::uint32_t first_kept = first_kept_word(probability);
    const float threshold = 2.0f * probability - 1.0f;
    BOOST_TEST(uniform_of(first_kept) >= threshold);
    BOOST_TEST((first_kept == 0 || uniform_of(first_kept - 1) < threshold));
  }
  on_every_backend([&](TestBackend& backend) {
    const Owned in = Owned(DType::float32, {num_elements}).fill(1.0), out = Owned(DType::float32, {num_elements});
    for (const float probability : probabilities) {
      for (const std::int64_t first_index : {std::int64_t{0}, std::int64_t{5}, (std::int64_t{4} << 32) - 4099}) {
        Dropout dropout = dropout_of(*out, *in, probability, 0);
        dropout.first_index = first_index;
        backend->run(dropout);
        const std::vector<double> values = read(*out);
        for (std::int64_t i = 0; i < num_elements; ++i) {
          const bool expected = is_dropped(static_cast<std::uint64_t>(first_index + i), probability);
          BOOST_REQUIRE_MESSAGE((values[i] == 0.0) == expected,
                                backend.name() << ", element " << i << " from " << first_index << ", " << probability);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(scaled_numbers_are_products) {
  on_every_backend([](TestBackend& backend) {
    for (const DType type : {DType::float32, DType::bf16}) {
      const Owned x = Owned(type, {70000}).fill(1.5);
      backend->run(Scale{*x, -2.0f});
      for (const double value : read(*x)) BOOST_REQUIRE(value == -3.0);
    }
  });
}

BOOST_AUTO_TEST_CASE(a_slice_of_normal_numbers_equals_the_whole) {
  on_every_backend([](TestBackend& backend) {
    const Owned whole(DType::float32, {20000}), other(DType::float32, {20000});
    backend->run(FillNormal{*whole, 7, 0, 1.0f});
    for (const auto& [begin, count] : {std::pair{0, 1}, {1, 3}, {1023, 2}, {1024, 1024}, {777, 16385}, {19999, 1}}) {
      const Owned slice(DType::float32, {count});
      backend->run(FillNormal{*slice, 7, begin, 1.0f});
      check_close(*slice, read(whole->rows(begin, count)), 0.0, backend.name());
    }
    const Owned low(DType::bf16, {20000}), rounded(DType::bf16, {20000});
    backend->run(FillNormal{*low, 7, 0, 1.0f});
    backend->run(Copy{*rounded, *whole});
    check_close(*low, read(*rounded), 0.0, backend.name());
    backend->run(FillNormal{*other, 8, 0, 1.0f});
    BOOST_TEST((read(*other) != read(*whole)));
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
