// SPDX-License-Identifier: Apache-2.0
// Matrices of 8-bit floats: codes and scales to the bit those of the CPU, and products of them.
#include <cuda_runtime_api.h>

#include <array>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <utility>
#include <vector>

#include "emulation/ops/support.hpp"
#include "ops/cuda/fp8_matmul.hpp"
#include "ops/cuda/planning.hpp"
#include "sft/core/error.hpp"
#include "sft/ops/factory.hpp"

namespace sft::ops::testing {

namespace {

using enum Fp8Tiles;

constexpr std::array tile_names{"whole", "vectors", "blocks"};
std::string name_of_tiles(Fp8Tiles tiles) { return tile_names.at(static_cast<std::size_t>(tiles)); }

/// A matrix of 8-bit floats on both devices, with the lines that products may read beyond its own.
struct Fp8Twin {
  Fp8Twin(std::int64_t lines, std::int64_t terms, Fp8Format format_in, Fp8Tiles tiles_in)
      : codes(DType::uint8, {num_fp8_codes(lines, terms) / fp8_line_codes(terms), fp8_line_codes(terms)}),
        scales(DType::float32,
               {fp8_scale_shape(tiles_in, lines, terms)[0], fp8_scale_shape(tiles_in, lines, terms)[1]}),
        num_lines(lines),
        num_terms(terms),
        format(format_in),
        tiles(tiles_in) {}

  template <class Of>
  [[nodiscard]] Fp8Matrix on(const Of& of) const {
    return {of(codes).rows(0, num_lines).columns(0, num_terms), of(scales), format, tiles};
  }
  /// As the model rounds.
  template <class Of>
  void round(Backend& ops, const Of& of, const Tensor& in, bool transpose) const {
    const RoundToFp8 call{.out = on(of), .in = in, .transpose = transpose};
    if (tiles == whole) ops.run(FindFp8Scale{call.out, call.in, call.transpose});
    ops.run(call);
  }

  Twin codes, scales;
  std::int64_t num_lines, num_terms;
  Fp8Format format;
  Fp8Tiles tiles;
};

/// Numbers of all sizes, some of them 0; with a NaN or something infinite in the middle where `is_spoilt`.
Twin&& spread(Twin&& twin, unsigned seed, bool is_spoilt = false) {
  std::mt19937 generator = random_of(seed);
  std::normal_distribution<double> distribution;
  std::uniform_int_distribution<int> exponents(-30, 3);
  const std::int64_t row = twin.cpu().shape[0] / 2, column = twin.cpu().row_elements() / 2;
  return std::move(twin).filled([&](std::int64_t r, std::int64_t c) -> double {
    if (is_spoilt && r == row && c == column) return seed % 2 == 0 ? NAN : -INFINITY;
    const int exponent = exponents(generator);
    return exponent == 3 ? 0.0 : std::ldexp(distribution(generator), exponent);
  });
}

struct Dims {
  std::int64_t lines, terms;
};

void compare_rounding(const Dims& dims, DType dtype, Fp8Format format, Fp8Tiles tiles, bool transpose,
                      const Layout& layout, bool is_spoilt = false) {
  const auto [lines, terms] = dims;
  Twin source = spread(Twin(dtype, {transpose ? terms : lines, transpose ? lines : terms}, layout), 3, is_spoilt);
  Fp8Twin rounded(lines, terms, format, tiles);
  check("round_to_fp8 " + text_of(dtype) + " " + std::to_string(lines) + " x " + std::to_string(terms) + " " +
            name_of_tiles(tiles) + (transpose ? " transposed" : ""),
        {in(source), out(rounded.codes, {}), out(rounded.scales, {})},
        [&](Backend& ops, auto of) { rounded.round(ops, of, of(source), transpose); });
}

/// Both layouts from one pass.
void compare_both(const Dims& dims, DType dtype, Fp8Tiles tiles, bool transpose, const Layout& layout) {
  const auto [lines, terms] = dims;
  Twin source = spread(Twin(dtype, {transpose ? terms : lines, transpose ? lines : terms}, layout), 5);
  Fp8Twin rounded(lines, terms, Fp8Format::e5m2, tiles), turned(terms, lines, Fp8Format::e5m2, tiles);
  check("round_to_fp8 to both, " + text_of(dtype) + " " + std::to_string(lines) + " x " + std::to_string(terms) + " " +
            name_of_tiles(tiles) + (transpose ? " transposed" : ""),
        {in(source), out(rounded.codes, {}), out(rounded.scales, {}), out(turned.codes, {}), out(turned.scales, {})},
        [&](Backend& ops, auto of) {
          const RoundToFp8 call{
              .out = rounded.on(of), .in = of(source), .transpose = transpose, .turned = turned.on(of)};
          if (tiles == whole) ops.run(FindFp8Scale{call.out, call.in, call.transpose});
          ops.run(call);
        });
}

/// Elements [first, first + count) of a matrix whose other elements raised some scales before.
void compare_run(const Dims& dims, std::int64_t first, std::int64_t count, DType dtype, Fp8Tiles tiles,
                 const Layout& layout, bool is_spoilt = false) {
  const auto [lines, terms] = dims;
  const auto [scale_rows, scale_columns] = fp8_scale_shape(tiles, lines, terms);
  Twin source = spread(Twin(dtype, {count, 1}, {.offset = layout.offset}), 3, is_spoilt),
       codes(DType::uint8, {count, 1}, {.offset = layout.offset}),
       scales = Twin(DType::float32, {scale_rows, scale_columns}).filled([](std::int64_t r, std::int64_t c) {
         return (r + c) % 2 == 0 ? 0x1p-126 : 0x1p-9;
       });
  check("run of " + std::to_string(count) + " from " + std::to_string(first) + ", " + text_of(dtype) + " " +
            std::to_string(lines) + " x " + std::to_string(terms) + " " + name_of_tiles(tiles),
        {in(source), out(codes, {}), out(scales, {})}, [&](Backend& ops, auto of) {
          const Fp8Run run{.codes = of(codes).view({count}),
                           .in = of(source).view({count}),
                           .first = first,
                           .lines = lines,
                           .terms = terms,
                           .scales = of(scales),
                           .tiles = tiles};
          ops.run(RaiseFp8Scales{run});
          ops.run(RoundFp8Run{run});
        });
}

void compare_arranging(const Dims& dims, bool transpose, const Layout& layout, Fp8Tiles tiles) {
  const auto [lines, terms] = dims;
  Twin source = Twin(DType::uint8, {transpose ? terms : lines, transpose ? lines : terms}, layout)
                    .filled([](std::int64_t r, std::int64_t c) { return static_cast<double>((7 * r + 13 * c) % 251); });
  Fp8Twin arranged(lines, terms, Fp8Format::e4m3, tiles);
  const auto [scale_rows, scale_columns] = fp8_scale_shape(blocks, source.cpu().shape[0], source.cpu().shape[1]);
  Twin scales = Twin(DType::float32, {scale_rows, scale_columns}).normal(4);
  const bool has_scales = tiles == blocks;
  check("arrange_fp8 " + std::to_string(lines) + " x " + std::to_string(terms) + (transpose ? " transposed" : ""),
        {in(source), in(scales), out(arranged.codes, {}), out(arranged.scales, {})}, [&](Backend& ops, auto of) {
          ops.run(ArrangeFp8{.out = arranged.on(of).codes,
                             .in = of(source),
                             .transpose = transpose,
                             .out_scales = has_scales ? of(arranged.scales) : Tensor(),
                             .in_scales = has_scales ? of(scales) : Tensor()});
        });
}

struct Product {
  std::int64_t m, n, k;
  Fp8Tiles a = whole, b = whole;
  DType c = DType::bf16;
  bool accumulate = false, has_bias = false;
  Layout layout = {};
  DType source = DType::bf16;
};

/// Whether the GPU multiplies with such scales.
bool has_products(Fp8Tiles tiles) {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  const int capability = 10 * major + minor;
  return tiles == whole ? capability >= 89 : capability == 90;
}

/// The product, rounded before on the same device. `cut`: by an engine with these limits on the GPU.
void compare_product(const Product& p, const ProductLimits* cut = nullptr) {
  if (!has_products(p.a)) return;
  Twin a_in = Twin(p.source, {p.m, p.k}).normal(1), b_in = Twin(p.source, {p.k, p.n}).normal(2),
       c = Twin(p.c, {p.m, p.n}, p.layout).normal(3), bias = Twin(p.source, {p.n}).normal(4);
  Fp8Twin a(p.m, p.k, Fp8Format::e5m2, p.a), b(p.n, p.k, Fp8Format::e4m3, p.b);
  const auto scratch = Backends::get().allocate(cuda::scratch_bytes);
  check("fp8_matmul " + std::to_string(p.m) + " x " + std::to_string(p.n) + " x " + std::to_string(p.k) + " " +
            name_of_tiles(p.a) + " " + name_of_tiles(p.b) + " " + text_of(p.c) + (p.accumulate ? " +=" : ""),
        {in(a_in), in(b_in), in(bias), out(a.codes, {}), out(a.scales, {}), out(b.codes, {}), out(b.scales, {}),
         out(c, tolerance_of_products(DType::bf16, p.c, p.k))},
        [&](Backend& ops, auto of) {
          a.round(ops, of, of(a_in), /*transpose=*/false);
          b.round(ops, of, of(b_in), /*transpose=*/true);
          const Fp8Matmul product{.a = a.on(of),
                                  .b = b.on(of),
                                  .c = of(c),
                                  .accumulate = p.accumulate,
                                  .bias = p.has_bias ? of(bias) : Tensor()};
          if (cut != nullptr && &ops == &Backends::get().gpu()) {
            cuda::Fp8MatmulEngine engine(static_cast<cudaStream_t>(ops.stream().native()), *cut);
            engine.run(product, {scratch.get(), cuda::scratch_bytes});
            ops.stream().synchronize();
          } else {
            ops.run(product);
          }
        });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8_rounding)

BOOST_AUTO_TEST_CASE(codes_and_scales) {
  const std::vector<Dims> sizes =
      with_large<Dims>({{1, 1}, {5, 19}, {128, 128}, {40, 264}, {264, 40}, {130, 300}}, {{4096, 4096}, {1003, 14336}});
  int number = 0;
  for (const DType dtype : compute_dtypes) {
    for (const Fp8Tiles tiles : {whole, vectors, blocks}) {
      for (const bool transpose : {false, true}) {
        for (const Dims& dims : sizes) {
          const Fp8Format format = ++number % 2 == 0 ? Fp8Format::e4m3 : Fp8Format::e5m2;
          compare_rounding(dims, dtype, format, tiles, transpose, layouts[static_cast<std::size_t>(number / 2 % 3)]);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(both_layouts) {
  for (const Dims& dims : with_large<Dims>({{1, 1}, {5, 19}, {128, 128}, {40, 264}, {130, 300}}, {{4096, 4096}})) {
    for (const DType dtype : compute_dtypes) {
      for (const Fp8Tiles tiles : {whole, vectors}) {
        for (const bool transpose : {false, true}) {
          for (const Layout& layout : layouts) compare_both(dims, dtype, tiles, transpose, layout);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_finite_spoils_its_tile) {
  for (const Fp8Tiles tiles : {whole, vectors, blocks}) {
    for (const bool transpose : {false, true}) {
      for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
        compare_rounding({160, 152}, DType::bf16, format, tiles, transpose, {}, /*is_spoilt=*/true);
      }
    }
  }
}

// Rounded with a scale that is given: all codes of both formats.
BOOST_AUTO_TEST_CASE(every_bf16_number) {
  for (const Fp8Format format : {Fp8Format::e4m3, Fp8Format::e5m2}) {
    for (const bool transpose : {false, true}) {
      Twin source = Twin(DType::bf16, {256, 256});
      for (std::int64_t i = 0; i < 65536; ++i) {
        const auto bits = static_cast<std::uint16_t>(i);
        std::memcpy(source.at(source.bytes(), i / 256, i % 256), &bits, sizeof bits);
      }
      Fp8Twin rounded(256, 256, format, whole);
      rounded.scales = Twin(DType::float32, {1, 1}).filled(1.0);
      check("every bf16 number", {in(source), in(rounded.scales), out(rounded.codes, {})}, [&](Backend& ops, auto of) {
        ops.run(RoundToFp8{.out = rounded.on(of), .in = of(source), .transpose = transpose});
      });
    }
  }
}

// That begin and end in the middle of rows and of blocks, or where vectors may.
BOOST_AUTO_TEST_CASE(runs) {
  struct Case {
    Dims dims;
    std::int64_t first, count;
  };
  for (const auto& [dims, first, count] : with_large<Case>({{{128, 128}, 0, 16384},
                                                            {{130, 264}, 64, 20'000},
                                                            {{264, 136}, 200 * 136 + 8, 63 * 136},
                                                            {{40, 300}, 301, 7'000},
                                                            {{300, 7}, 6, 1'500},
                                                            {{40, 18}, 0, 720},
                                                            {{129, 40}, 128 * 40 + 16, 8},
                                                            {{1, 1}, 0, 1}},
                                                           {{{4096, 4096}, 5'000'064, 9'000'000}})) {
    for (const DType dtype : compute_dtypes) {
      for (const Fp8Tiles tiles : {whole, blocks}) {
        for (const Layout& layout : flat_layouts) compare_run(dims, first, count, dtype, tiles, layout);
        compare_run(dims, first, count, dtype, tiles, {}, /*is_spoilt=*/true);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(arranged_codes) {
  for (const Dims& dims : {Dims{256, 128}, {128, 256}, {150, 300}, {1, 7}, {264, 136}, {33, 129}, {8, 8}, {3, 1000}}) {
    for (const bool transpose : {false, true}) {
      for (const Layout& layout : layouts) {
        for (const Fp8Tiles tiles : {whole, blocks}) compare_arranging(dims, transpose, layout, tiles);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(fp8_products)

BOOST_AUTO_TEST_CASE(of_aligned_rows) {
  for (const Product& product : with_large<Product>(
           {
               {.m = 24, .n = 32, .k = 48},
               {.m = 21, .n = 32, .k = 50, .c = DType::float32, .accumulate = true},
               {.m = 24, .n = 40, .k = 300, .a = vectors, .b = blocks, .has_bias = true},
               {.m = 132, .n = 136, .k = 520, .a = vectors, .b = blocks, .c = DType::float32, .source = DType::float32},
               {.m = 40, .n = 136, .k = 261, .a = vectors, .b = vectors, .c = DType::float32, .accumulate = true},
               {.m = 136, .n = 24, .k = 20, .a = blocks, .b = vectors, .layout = {.gap = 16}},
               {.m = 24, .n = 16, .k = 48, .c = DType::float32, .has_bias = true, .source = DType::float32},
           },
           {{.m = 1024, .n = 4096, .k = 4096},
            {.m = 1024, .n = 4096, .k = 4096, .a = vectors, .b = blocks},
            {.m = 4096, .n = 896, .k = 1024, .a = vectors, .b = vectors, .c = DType::float32, .accumulate = true}})) {
    compare_product(product);
  }
}

// Rows that the library does not write, scales that do not come in fours, c that is not aligned.
BOOST_AUTO_TEST_CASE(of_odd_sizes) {
  for (const Product& product : std::vector<Product>{
           {.m = 7, .n = 5, .k = 3},
           {.m = 1, .n = 1, .k = 1, .a = vectors, .b = blocks, .c = DType::float32},
           {.m = 27, .n = 40, .k = 140, .a = vectors, .b = blocks, .accumulate = true, .has_bias = true},
           {.m = 3, .n = 40, .k = 140, .a = vectors, .b = blocks},
           {.m = 27, .n = 37, .k = 140, .a = vectors, .b = vectors, .c = DType::float32, .accumulate = true},
           {.m = 130, .n = 139, .k = 33, .a = blocks, .b = vectors, .has_bias = true},
           {.m = 24, .n = 32, .k = 48, .accumulate = true, .layout = {.gap = 3, .offset = 1}},
           {.m = 24, .n = 32, .k = 48, .layout = {.offset = 1}},
           {.m = 24, .n = 32, .k = 148, .a = vectors, .b = blocks, .has_bias = true, .layout = {.gap = 3, .offset = 1}},
       }) {
    compare_product(product);
  }
}

// Products of one kind, of which one is made in scratch memory: the library works in as much as for the other.
BOOST_AUTO_TEST_CASE(of_one_kind_in_scratch_memory_and_not) {
  const Product direct{.m = 32, .n = 32, .k = 128, .a = vectors, .b = vectors, .c = DType::float32};
  Product in_scratch = direct;
  in_scratch.layout = {.gap = 3, .offset = 1};
  for (const Product& product : {direct, in_scratch, direct}) compare_product(product);
}

// What one product may not span, in blocks.
BOOST_AUTO_TEST_CASE(beyond_the_limits_of_the_library) {
  const ProductLimits rows{.max_rows = 36}, span{.max_span = 16'500};
  for (const ProductLimits* limits : {&rows, &span}) {
    compare_product({.m = 100, .n = 40, .k = 160, .c = DType::float32, .accumulate = true}, limits);
    compare_product({.m = 100, .n = 40, .k = 160, .a = vectors, .b = vectors, .c = DType::float32}, limits);
    compare_product({.m = 103, .n = 40, .k = 160, .a = vectors, .b = vectors, .has_bias = true}, limits);
  }
  const ProductLimits of_tiles{.max_span = 21'000};
  compare_product({.m = 100, .n = 264, .k = 160, .a = vectors, .b = blocks, .has_bias = true}, &of_tiles);
}

BOOST_AUTO_TEST_CASE(a_library_without_scales_of_tiles_is_refused) {
  for (const auto& [version, found] : {std::pair("120804", "12.8"), {"110803", "11.8"}, {"", ""}, {"130001", ""}}) {
    if (*version == 0) {
      unsetenv("SFT_EMULATED_CUBLAS_VERSION");
    } else {
      setenv("SFT_EMULATED_CUBLAS_VERSION", version, 1);
    }
    if (*found == 0) {
      BOOST_CHECK_NO_THROW(require_fp8_tiles());
      continue;
    }
    const std::string text = std::string("they begin with cuBLAS 12.9, and ") + found + " is loaded";
    BOOST_CHECK_EXCEPTION(require_fp8_tiles(), Error, [&](const Error& error) {
      return error.status() == ExitStatus::configuration && std::string(error.what()).find(text) != std::string::npos;
    });
  }
  unsetenv("SFT_EMULATED_CUBLAS_VERSION");
}

BOOST_AUTO_TEST_CASE(misuse_is_found) {
  Backend& ops = Backends::get().gpu();
  const auto on_gpu = [](const Twin& twin) { return twin.gpu(); };
  Twin c(DType::bf16, {8, 16});
  const Fp8Twin a(8, 32, Fp8Format::e5m2, whole), b(16, 32, Fp8Format::e4m3, whole),
      other(16, 32, Fp8Format::e5m2, whole), tiled(16, 32, Fp8Format::e4m3, blocks),
      shorter(16, 16, Fp8Format::e4m3, whole);
  for (const Fp8Twin* wrong : {&other, &tiled, &shorter, &a}) {
    BOOST_CHECK_THROW(ops.run(Fp8Matmul{.a = a.on(on_gpu), .b = wrong->on(on_gpu), .c = c.gpu()}), std::logic_error);
  }
  BOOST_CHECK_THROW(ops.run(FindFp8Scale{.out = tiled.on(on_gpu), .in = c.gpu()}), std::logic_error);
  BOOST_CHECK_THROW(ops.run(RoundToFp8{.out = b.on(on_gpu), .in = c.gpu()}), std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
