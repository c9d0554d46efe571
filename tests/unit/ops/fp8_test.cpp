// SPDX-License-Identifier: Apache-2.0
// Matrices of 8-bit floats. fp8_codes.txt and fp8_linear.txt are PyTorch's: tests/tools/peers/fp8.py made them.

#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();

std::ifstream open(const char* name) {
  std::ifstream file(std::filesystem::path(SFT_SOURCE_DIR) / "tests/unit/ops" / name);
  BOOST_TEST_REQUIRE(file.is_open(), name);
  return file;
}

const char* name_of_format(Fp8Format format) { return format == Fp8Format::e4m3 ? "e4m3" : "e5m2"; }

/// The codes of all bf16 numbers, by their bits.
std::vector<std::uint8_t> codes_of_pytorch(Fp8Format format) {
  std::ifstream file = open("fp8_codes.txt");
  std::vector<std::uint8_t> codes(65536);
  std::string name;
  for (unsigned first = 0, code = 0; file >> name >> std::hex >> first >> code;) {
    if (name == name_of_format(format)) std::fill(codes.begin() + first, codes.end(), static_cast<std::uint8_t>(code));
  }
  return codes;
}

/// The number of a code, by the definition of the format.
double number_of(std::uint8_t code, Fp8Format format) {
  const int mantissa_bits = format == Fp8Format::e4m3 ? 3 : 2, bias = format == Fp8Format::e4m3 ? 7 : 15;
  const int exponent = (code & 0x7f) >> mantissa_bits, mantissa = code & ((1 << mantissa_bits) - 1);
  if ((code & 0x7f) == 0x7f || (format == Fp8Format::e5m2 && exponent == 31)) return nan;
  const double size = exponent == 0 ? std::ldexp(mantissa, 1 - bias - mantissa_bits)
                                    : std::ldexp(mantissa + (1 << mantissa_bits), exponent - bias - mantissa_bits);
  return (code & 0x80) != 0 ? -size : size;
}

double largest_of(Fp8Format format) { return format == Fp8Format::e4m3 ? 448.0 : 57344.0; }

/// A matrix of 8-bit floats with its memory.
struct OwnedFp8 {
  OwnedFp8(std::int64_t lines, std::int64_t terms, Fp8Format format, Fp8Tiles tiles)
      : memory(DType::uint8, {num_fp8_codes(lines, terms) / fp8_line_codes(terms), fp8_line_codes(terms)}),
        scales(DType::float32, {fp8_scale_shape(tiles, lines, terms)[0], fp8_scale_shape(tiles, lines, terms)[1]}),
        matrix(memory->rows(0, lines).columns(0, terms), *scales, format, tiles) {
    for (std::int64_t i = 0; i < memory->num_elements(); ++i) memory->as<std::uint8_t>()[i] = 0x55;
  }

  [[nodiscard]] std::uint8_t code(std::int64_t line, std::int64_t term) const {
    return memory->as<std::uint8_t>()[line * memory->shape[1] + term];
  }
  [[nodiscard]] double scale_at(std::int64_t line, std::int64_t term) const {
    switch (matrix.tiles) {
      case Fp8Tiles::whole:
        return get(*scales, 0, 0);
      case Fp8Tiles::vectors:
        return get(*scales, term / fp8_tile, line);
      case Fp8Tiles::blocks:
        return get(*scales, line / fp8_tile, term / fp8_tile);
    }
    return nan;
  }
  [[nodiscard]] double number(std::int64_t line, std::int64_t term) const {
    return number_of(code(line, term), matrix.format) * scale_at(line, term);
  }
  /// Line by line.
  [[nodiscard]] std::vector<double> numbers() const {
    std::vector<double> all;
    for (std::int64_t l = 0; l < matrix.codes.shape[0]; ++l) {
      for (std::int64_t t = 0; t < matrix.codes.shape[1]; ++t) all.push_back(number(l, t));
    }
    return all;
  }
  /// Whether lines end with zeros, and nothing lies behind the last.
  [[nodiscard]] bool ends_with_zeros() const {
    bool is_right = true;
    for (std::int64_t l = 0; l < memory->shape[0]; ++l) {
      const bool is_line = l < matrix.codes.shape[0];
      for (std::int64_t t = is_line ? matrix.codes.shape[1] : 0; t < memory->shape[1]; ++t) {
        is_right = is_right && code(l, t) == (is_line ? 0 : 0x55);
      }
    }
    return is_right;
  }

  Owned memory, scales;
  Fp8Matrix matrix;
};

void round(TestBackend& backend, const OwnedFp8& out, const Tensor& in, bool transpose = false) {
  if (out.matrix.tiles == Fp8Tiles::whole) {
    backend->run(FindFp8Scale{.out = out.matrix, .in = in, .transpose = transpose});
  }
  backend->run(RoundToFp8{.out = out.matrix, .in = in, .transpose = transpose});
}

constexpr std::array formats{Fp8Format::e4m3, Fp8Format::e5m2};
constexpr std::array all_tiles{Fp8Tiles::whole, Fp8Tiles::vectors, Fp8Tiles::blocks};

std::string describe(const TestBackend& backend, Fp8Format format, Fp8Tiles tiles) {
  constexpr std::array names{"whole", "vectors", "blocks"};
  return backend.name() + " " + name_of_format(format) + " " + names.at(static_cast<std::size_t>(tiles));
}

/// fp8.py's numbers.
Owned spread(std::uint64_t seed, std::int64_t rows, std::int64_t columns) {
  Owned result(DType::float32, {rows, columns});
  for (std::int64_t i = 0; i < rows * columns; ++i) {
    std::uint64_t h = ((static_cast<std::uint64_t>(i) + 1) * 2654435761U + seed * 40503U) % (std::uint64_t{1} << 32U);
    h = (h ^ (h >> 15U)) * 2246822519U % (std::uint64_t{1} << 32U);
    const double value = static_cast<double>(h >> 16U) - 32768.0;
    set(*result, i / columns, i % columns, std::ldexp(value, -15 - static_cast<int>(h % 16)));
  }
  return result;
}

/// Numbers are as near as the format has them, and no scale could be smaller.
void check_scales(TestBackend& backend, const Tensor& in, Fp8Format format, Fp8Tiles tiles, bool transpose) {
  const std::int64_t lines = in.shape[transpose ? 1 : 0], terms = in.shape[transpose ? 0 : 1];
  const OwnedFp8 out(lines, terms, format, tiles);
  round(backend, out, in, transpose);
  std::map<std::pair<std::int64_t, std::int64_t>, std::pair<double, double>> of_tiles;  // the largest, and the scale
  std::int64_t num_far = 0;
  for (std::int64_t l = 0; l < lines; ++l) {
    for (std::int64_t t = 0; t < terms; ++t) {
      const double value = transpose ? get(in, t, l) : get(in, l, t), scale = out.scale_at(l, t);
      const std::int64_t tile_line = tiles == Fp8Tiles::whole ? 0 : tiles == Fp8Tiles::vectors ? l : l / fp8_tile;
      auto& [largest, its_scale] = of_tiles[{tile_line, tiles == Fp8Tiles::whole ? 0 : t / fp8_tile}];
      largest = std::max(largest, std::abs(value));
      its_scale = scale;
      // Half of the last digit, or of the least number.
      const double unit = format == Fp8Format::e4m3 ? 0x1p-4 : 0x1p-3;
      const double least = format == Fp8Format::e4m3 ? 0x1p-10 : 0x1p-17;
      const double allowed = std::max(unit * std::abs(value), least * scale);
      num_far += std::abs(out.number(l, t) - value) > allowed ? 1 : 0;
    }
  }
  BOOST_TEST(num_far == 0, describe(backend, format, tiles));
  std::int64_t num_wrong = 0;
  for (const auto& [tile, numbers] : of_tiles) {
    const auto& [largest, scale] = numbers;
    int exponent = 0;
    const bool is_power = std::frexp(scale, &exponent) == 0.5;
    num_wrong += is_power && largest <= largest_of(format) * scale && largest > largest_of(format) * scale / 2 ? 0 : 1;
  }
  BOOST_TEST(num_wrong == 0, describe(backend, format, tiles));
  BOOST_TEST(out.ends_with_zeros(), describe(backend, format, tiles));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8)

BOOST_AUTO_TEST_CASE(codes_are_those_of_pytorch_for_every_bf16_number) {
  constexpr std::int64_t rows = 256, columns = 256;
  for (const Fp8Format format : formats) {
    const std::vector<std::uint8_t> expected = codes_of_pytorch(format);
    on_every_backend([&](TestBackend& backend) {
      for (const DType dtype : compute_dtypes) {
        const Owned wide(dtype, {rows, columns + 8});
        const Tensor in = wide->columns(3, columns);
        for (std::int64_t i = 0; i < rows * columns; ++i) {
          const std::int64_t at = i / columns * in.stride0 + i % columns;
          const auto bits = static_cast<std::uint16_t>(i);
          if (dtype == DType::bf16) {
            in.as<BFloat16>()[at] = {bits};
          } else {
            in.as<float>()[at] = float_of(BFloat16{bits});
          }
        }
        for (const bool transpose : {false, true}) {
          const OwnedFp8 out(transpose ? columns : rows, transpose ? rows : columns, format, Fp8Tiles::whole);
          set(*out.scales, 0, 0, 1.0);
          backend->run(RoundToFp8{.out = out.matrix, .in = in, .transpose = transpose});
          std::int64_t num_wrong = 0;
          for (std::int64_t i = 0; i < rows * columns; ++i) {
            const std::int64_t r = i / columns, c = i % columns;
            const std::uint8_t code = transpose ? out.code(c, r) : out.code(r, c);
            num_wrong += code != expected[static_cast<std::size_t>(i)] ? 1 : 0;
          }
          BOOST_TEST(num_wrong == 0, describe(backend, format, Fp8Tiles::whole) << ' ' << name_of(dtype));
        }
      }
    });
  }
}

BOOST_AUTO_TEST_CASE(scales_are_the_least_powers_of_two_that_nothing_exceeds) {
  constexpr std::int64_t rows = 150, columns = 300;
  on_every_backend([&](TestBackend& backend) {
    for (const DType dtype : compute_dtypes) {
      Owned in = Owned(dtype, {rows, columns}).normal(7);
      for (std::int64_t c = 0; c < columns; ++c) {  // sizes from 2^-30 on
        for (std::int64_t r = 0; r < rows; ++r)
          set(*in, r, c, std::ldexp(get(*in, r, c), static_cast<int>(c % 31) - 30));
      }
      for (const Fp8Format format : formats) {
        for (const Fp8Tiles tiles : all_tiles) {
          for (const bool transpose : {false, true}) check_scales(backend, *in, format, tiles, transpose);
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(both_layouts_from_one_pass_are_those_of_two) {
  struct Dims {
    std::int64_t lines, terms;
  };
  on_every_backend([&](TestBackend& backend) {
    for (const auto& [lines, terms] : {Dims{150, 300}, {128, 256}, {1, 7}, {33, 16}, {5, 129}}) {
      for (const Fp8Tiles tiles : {Fp8Tiles::whole, Fp8Tiles::vectors}) {
        for (const Fp8Format format : formats) {
          for (const bool transpose : {false, true}) {
            const Owned in = Owned(DType::bf16, {transpose ? terms : lines, transpose ? lines : terms}).normal(6);
            const OwnedFp8 out(lines, terms, format, tiles), turned(terms, lines, format, tiles),
                expected(lines, terms, format, tiles), expected_turned(terms, lines, format, tiles);
            round(backend, expected, *in, transpose);
            round(backend, expected_turned, *in, !transpose);
            const RoundToFp8 both{.out = out.matrix, .in = *in, .transpose = transpose, .turned = turned.matrix};
            if (tiles == Fp8Tiles::whole) backend->run(FindFp8Scale{both.out, both.in, both.transpose});
            backend->run(both);
            for (const auto& [found, wanted] : {std::pair(&out, &expected), {&turned, &expected_turned}}) {
              BOOST_TEST(found->numbers() == wanted->numbers(), describe(backend, format, tiles));
              BOOST_TEST(read(*found->scales) == read(*wanted->scales), describe(backend, format, tiles));
              BOOST_TEST(found->ends_with_zeros(), describe(backend, format, tiles));
            }
          }
        }
      }
    }
  });
}

/// Rounded run by run, as gathers send numbers, and then arranged, codes and scales are those of the matrix.
BOOST_AUTO_TEST_CASE(runs_that_are_arranged_are_the_matrix_rounded_in_place) {
  struct Dims {
    std::int64_t rows, columns;
  };
  on_every_backend([&](TestBackend& backend) {
    for (const auto& [rows, columns] : {Dims{150, 300}, {128, 256}, {1, 7}, {33, 16}, {5, 129}, {400, 130}}) {
      for (const DType dtype : compute_dtypes) {
        for (const Fp8Tiles tiles : {Fp8Tiles::whole, Fp8Tiles::blocks}) {
          const Owned in = Owned(dtype, {rows, columns}).normal(5), flat(DType::uint8, {rows * columns});
          for (std::int64_t i = 0; i < rows; ++i) {  // sizes from 2^-12 on, and in the last blocks something infinite
            set(*in, i, 0, std::ldexp(get(*in, i, 0), static_cast<int>(i % 13) - 12));
          }
          if (rows == 400) set(*in, rows - 1, columns - 1, -std::numeric_limits<double>::infinity());
          const auto [scale_rows, scale_columns] = fp8_scale_shape(tiles, rows, columns);
          const Owned scales = Owned(DType::float32, {scale_rows, scale_columns}).fill(fp8_least_scale);
          const std::vector<std::int64_t> borders{0, rows * columns / 3, rows * columns / 3, rows * columns / 2,
                                                  rows * columns};
          for (const bool rounds : {false, true}) {  // all scales before the first code
            for (std::size_t i = 0; i + 1 < borders.size(); ++i) {
              const std::int64_t begin = borders[i], count = borders[i + 1] - begin;
              const Fp8Run run{.codes = flat->rows(begin, count),
                               .in = in->view({rows * columns}).rows(begin, count),
                               .first = begin,
                               .lines = rows,
                               .terms = columns,
                               .scales = *scales,
                               .tiles = tiles};
              if (rounds) {
                backend->run(RoundFp8Run{run});
              } else {
                backend->run(RaiseFp8Scales{run});
              }
            }
          }
          for (const bool transpose : {false, true}) {
            const std::int64_t lines = transpose ? columns : rows, terms = transpose ? rows : columns;
            const OwnedFp8 expected(lines, terms, Fp8Format::e4m3, tiles), found(lines, terms, Fp8Format::e4m3, tiles);
            round(backend, expected, *in, transpose);
            const bool has_blocks = tiles == Fp8Tiles::blocks;
            backend->run(ArrangeFp8{.out = found.matrix.codes,
                                    .in = flat->view({rows, columns}),
                                    .transpose = transpose,
                                    .out_scales = has_blocks ? *found.scales : Tensor(),
                                    .in_scales = has_blocks ? *scales : Tensor()});
            std::int64_t num_wrong = 0;
            for (std::int64_t l = 0; l < lines; ++l) {
              for (std::int64_t t = 0; t < terms; ++t) {
                const double scale = has_blocks ? found.scale_at(l, t) : get(*scales, 0, 0);
                num_wrong += found.code(l, t) != expected.code(l, t) || scale != expected.scale_at(l, t) ? 1 : 0;
              }
            }
            BOOST_TEST(num_wrong == 0, describe(backend, Fp8Format::e4m3, tiles)
                                           << ' ' << rows << " x " << columns << ": " << num_wrong);
            BOOST_TEST(found.ends_with_zeros(), backend.name() << ' ' << rows << " x " << columns);
          }
        }
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(zeros_have_a_scale_and_what_is_not_finite_spoils_its_tile) {
  constexpr std::int64_t rows = 3, columns = 256;
  on_every_backend([&](TestBackend& backend) {
    for (const double bad : {nan, std::numeric_limits<double>::infinity(), -std::numeric_limits<double>::infinity()}) {
      Owned in = Owned(DType::bf16, {rows, columns}).fill(0.0);
      set(*in, 1, 130, bad);
      set(*in, 2, 5, 0x1p-133);  // the least that bf16 has
      for (const Fp8Format format : formats) {
        const OwnedFp8 out(rows, columns, format, Fp8Tiles::vectors),
            other(rows, columns, Fp8Format::e4m3, Fp8Tiles::vectors);
        round(backend, out, *in);
        round(backend, other, *in);
        for (const std::int64_t line : {0, 1, 2}) BOOST_TEST(out.scale_at(line, 0) == 0x1p-126);
        BOOST_TEST(std::isinf(out.scale_at(1, 128)));
        BOOST_TEST(out.number(0, 7) == 0.0);
        for (const std::int64_t column : {128, 130, 255}) BOOST_TEST(std::isnan(out.number(1, column)));
        BOOST_TEST(out.number(1, 127) == 0.0);
        const Owned c = Owned(DType::float32, {rows, rows}).fill(0.0);
        backend->run(Fp8Matmul{.a = out.matrix, .b = other.matrix, .c = *c});
        BOOST_TEST(std::isnan(get(*c, 1, 1)));
        BOOST_TEST(get(*c, 0, 0) == 0.0);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(products_are_those_of_the_numbers) {
  struct Case {
    std::int64_t m, n, k;
    bool transpose_a, transpose_b, accumulate, has_bias;  ///< what is rounded lies transposed
    DType c_dtype;
    Fp8Tiles a, b;
  };
  using enum Fp8Tiles;
  const std::vector<Case> cases{
      {150, 140, 300, false, true, false, true, DType::bf16, vectors, blocks},
      {150, 140, 300, false, true, false, false, DType::float32, whole, whole},
      {70, 300, 260, false, false, false, false, DType::bf16, vectors, blocks},
      {270, 130, 150, true, false, true, false, DType::float32, vectors, vectors},
      {270, 130, 150, true, false, true, true, DType::bf16, whole, whole},
      {33, 1, 700, false, true, true, false, DType::float32, vectors, blocks},
      {1, 65, 5, true, true, false, true, DType::float32, blocks, vectors},
      {600, 530, 20, false, true, false, false, DType::float32, vectors, blocks},
  };
  on_every_backend([&](TestBackend& backend) {
    for (const Case& test : cases) {
      const auto& [m, n, k, transpose_a, transpose_b, accumulate, has_bias, c_dtype, a_tiles, b_tiles] = test;
      const Owned a_in = Owned(DType::float32, {transpose_a ? k : m, transpose_a ? m : k}).normal(1),
                  b_in = Owned(DType::float32, {transpose_b ? n : k, transpose_b ? k : n}).normal(2);
      const OwnedFp8 a(m, k, Fp8Format::e5m2, a_tiles), b(n, k, Fp8Format::e4m3, b_tiles);
      round(backend, a, *a_in, transpose_a);
      round(backend, b, *b_in, !transpose_b);
      const Owned bias = Owned(c_dtype, {n}).normal(3), wide = Owned(c_dtype, {m, n + 5}).normal(4);
      const Tensor c = wide->columns(2, n);
      std::vector<double> expected = naive::matmul(a.numbers(), b.numbers(), m, n, k, false, true);
      const std::vector<double> before = read(c);
      for (std::size_t i = 0; i < expected.size(); ++i) {
        if (accumulate) expected[i] += before[i];
        if (has_bias) expected[i] += get(*bias, 0, static_cast<std::int64_t>(i) % n);
      }
      backend->run(Fp8Matmul{
          .a = a.matrix, .b = b.matrix, .c = c, .accumulate = accumulate, .bias = has_bias ? *bias : Tensor()});
      check_close(c, expected, tolerance_of(c_dtype), backend.name() + " fp8 product");
      BOOST_TEST(get(*wide, 0, 1) != 0.0);  // what lies beside c stays
    }
  });
}

// As a model's are whose heads work in groups.
BOOST_AUTO_TEST_CASE(columns_of_a_product_have_the_same_bits_whatever_is_beside_them) {
  constexpr std::int64_t n = 96;
  on_every_backend([&](TestBackend& backend) {
    for (const auto& [m, k] : {std::pair{70, 300}, {7, 40}, {92, 40}, {40, 92}}) {
      const Owned a_in = Owned(DType::float32, {m, k}).normal(1), b_in = Owned(DType::float32, {n, k}).normal(2),
                  bias = Owned(DType::float32, {n}).normal(3);
      const OwnedFp8 a(m, k, Fp8Format::e4m3, Fp8Tiles::whole), b(n, k, Fp8Format::e4m3, Fp8Tiles::whole);
      round(backend, a, *a_in);
      round(backend, b, *b_in);
      for (const bool has_bias : {false, true}) {
        const Owned whole(DType::float32, {m, n}), in_groups(DType::float32, {m, n});
        backend->run(Fp8Matmul{.a = a.matrix, .b = b.matrix, .c = *whole, .bias = has_bias ? *bias : Tensor()});
        for (const std::int64_t columns : {48, 24, 8, 4, 2}) {
          for (std::int64_t first = 0; first < n; first += columns) {
            Fp8Matrix lines = b.matrix;
            lines.codes = b.matrix.codes.rows(first, columns);
            backend->run(Fp8Matmul{.a = a.matrix,
                                   .b = lines,
                                   .c = in_groups->columns(first, columns),
                                   .bias = has_bias ? bias->rows(first, columns) : Tensor()});
          }
          BOOST_TEST((read(*in_groups) == read(*whole)),
                     backend.name() << " " << m << " x " << k << ", " << columns << " columns, bias " << has_bias);
        }
      }
    }
  });
}

/// y, dx and dw as the model forms them, beside a torch.autograd.Function.
BOOST_AUTO_TEST_CASE(a_linear_layer_is_that_of_pytorch) {
  std::ifstream file = open("fp8_linear.txt");
  std::string word;
  std::int64_t tokens = 0, columns_in = 0, columns = 0;
  file >> word >> tokens >> columns_in >> columns;
  const Owned x = spread(1, tokens, columns_in), w = spread(2, columns, columns_in), dy = spread(3, tokens, columns);
  std::string line;
  std::getline(file, line);
  int num_results = 0;
  while (std::getline(file, line)) {
    std::istringstream numbers(line);
    std::string kind, name;
    double norm = 0.0, away = 0.0;
    numbers >> kind >> name >> norm >> away;
    std::vector<double> expected;
    for (double number = 0.0; numbers >> number;) expected.push_back(number);
    BOOST_TEST_REQUIRE(expected.size() > 20);
    ++num_results;
    const bool blockwise = kind == "blockwise";
    const Fp8Tiles blocks = blockwise ? Fp8Tiles::blocks : Fp8Tiles::whole;
    const Fp8Tiles vectors = blockwise ? Fp8Tiles::vectors : Fp8Tiles::whole;
    on_every_backend([&](TestBackend& backend) {
      const bool is_y = name == "y", is_dx = name == "dx", is_dw = name == "dw";
      const std::int64_t lines_a = is_dw ? columns : tokens, lines_b = is_y ? columns : columns_in,
                         terms = is_y    ? columns_in
                                 : is_dx ? columns
                                         : tokens;
      const OwnedFp8 a(lines_a, terms, is_y ? Fp8Format::e4m3 : Fp8Format::e5m2, vectors),
          b(lines_b, terms, Fp8Format::e4m3, is_dw ? vectors : blocks);
      round(backend, a, is_y ? *x : *dy, is_dw);
      round(backend, b, is_dw ? *x : *w, !is_y);
      const Owned c(DType::float32, {lines_a, lines_b});
      backend->run(Fp8Matmul{.a = a.matrix, .b = b.matrix, .c = *c});
      const std::vector<double> found = read(*c);
      double squares = 0.0, worst = 0.0;
      for (const double number : found) squares += number * number;
      for (std::size_t i = 0; i < expected.size(); ++i) {
        worst = std::max(worst, std::abs(found[997 * i] - expected[i]));
      }
      // float32 sums of 300 terms; what the rounding itself moves is `away`, 3 to 5 % of the norm.
      BOOST_TEST(worst <= 1e-5, backend.name() << ' ' << line.substr(0, 15) << ": " << worst);
      BOOST_TEST(std::abs(std::sqrt(squares) - norm) <= 1e-6 * norm, backend.name() << ' ' << line.substr(0, 15));
    });
    BOOST_TEST(away > 0.01);
  }
  BOOST_TEST(num_results == 6);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
