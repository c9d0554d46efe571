// SPDX-License-Identifier: Apache-2.0
// Kernels that memory should bound: each moves what its formula says, in whole sectors.
#include <boost/test/unit_test.hpp>
#include <initializer_list>
#include <string>

#include "emulation/traffic/measure.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/views/tensor.hpp"
#include "tools/benchmarks/op_bytes.hpp"

namespace sft::ops::testing {

namespace {

namespace bytes_of = bench::bytes_of;
using Count = std::int64_t;
constexpr DType bf16 = DType::bf16, float32 = DType::float32;

Count size(DType dtype) { return static_cast<Count>(size_of(dtype)); }

std::string text(std::initializer_list<Count> shape, DType dtype) {
  std::string result;
  for (const Count n : shape) result += (result.empty() ? "" : " x ") + std::to_string(n);
  return result + (dtype == bf16 ? " bf16" : " float32");
}

/// Of Qwen2.5-0.5B and Qwen3-8B.
constexpr Count hidden_sizes[] = {896, 4096};
constexpr DType dtypes[] = {bf16, float32};

/// Partial sums: `rows` rows are written and read again.
Count partials_bytes(Count rows, Count columns) { return 8 * rows * columns; }

/// Bytes left unused of the sectors that hold a row of float32, for each number: kernels in bf16 write 8 numbers a
/// lane, 16 bytes at a time.
Count halves(DType dtype) { return dtype == bf16 ? 4 : 0; }

/// What embedding_backward moves to sort the tokens, and to read them sorted, up to a tile of them: the pairs are made;
/// each pass counts digits, makes places of the counts and moves the pairs; the sums read them, and the ids at the ends
/// of pieces once more.
Count sort_bytes(Count T, Count V) {
  constexpr Count piece_tokens = 32, count_bytes = 1024;
  Count bytes = 8 * T + 8 * T + 4 * (2 * (T / piece_tokens) - 1);
  for (Count ids = V; ids > 0; ids >>= 8) bytes += 20 * T + 4 * count_bytes;
  return bytes;
}

}  // namespace

BOOST_FIXTURE_TEST_SUITE(memory_bound, FreesTensors)

BOOST_AUTO_TEST_CASE(norms) {
  for (const Count C : hidden_sizes) {
    for (const DType dtype : dtypes) {
      const Count T = 64, s = size(dtype);
      const std::string shape = text({T, C}, dtype);
      const Count weights = s * (T - 1) * C;  // every row reads the weight
      const auto rows = [&] { return make(dtype, {T, C}); };
      const auto floats = [](Count count) { return make(float32, {count}); };
      {
        const Tensor y = rows(), x = rows(), rstd = floats(T), weight = make(dtype, {C});
        check_traffic("rms_norm_forward", shape, {bytes_of::rms_norm_forward(s, s, T, C), 0, weights},
                      [&](Backend& ops) {
                        ops.run(RmsNormForward{y, rstd, x, weight, 1e-5F});
                      });
      }
      {
        const Tensor x = rows(), y = rows(), delta = rows(), rstd = floats(T), weight = make(dtype, {C});
        check_traffic(
            "add_rms_norm_forward", shape, {bytes_of::add_rms_norm_forward(s, s, s, T, C), 0, weights},
            [&](Backend& ops) {
              ops.run(AddRmsNormForward{
                  .sum = x, .y = y, .rstd = rstd, .x = x, .delta = delta, .weight = weight, .epsilon = 1e-5F});
            });
      }
      {
        const Tensor x = rows(), y = rows(), rstd = floats(T), weight = make(dtype, {C});
        check_traffic("rms_norm_apply", shape, {bytes_of::rms_norm_apply(s, s, T, C), 0, weights},
                      [&](Backend& ops) { ops.run(RmsNormApply{.y = y, .x = x, .rstd = rstd, .weight = weight}); });
      }
      {
        const Tensor x = rows(), dy = rows(), dx = rows(), rstd = floats(T), weight = make(dtype, {C});
        const Tensor dweight = floats(C);
        const Count num_partials = cuda::rms_norm_backward_partials(T, C);
        check_traffic(
            "rms_norm_backward", shape,
            {bytes_of::rms_norm_backward(s, s, s, T, C), partials_bytes(num_partials, C),
             s * (num_partials - 1) * C + halves(dtype) * num_partials * C},
            [&](Backend& ops) {
              ops.run(RmsNormBackward{
                  .dx = dx, .dweight = dweight, .dy = dy, .x = x, .rstd = rstd, .weight = weight, .dresidual = dx});
            });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(embedding) {
  for (const Count C : hidden_sizes) {
    for (const DType dtype : dtypes) {
      const Count T = 64, V = 128, s = size(dtype);
      const std::string shape = text({T, C}, dtype);
      {
        const Tensor tokens = make_ids(T), table = make(dtype, {V, C}), out = make(dtype, {T, C});
        check_traffic("embedding_forward", shape, {bytes_of::embedding_forward(s, s, T, C)}, [&](Backend& ops) {
          ops.run(EmbeddingForward{out, tokens, table, 0});
        });
      }
      {
        const Tensor tokens = make_ids(T), dtable = make(float32, {V, C}), dout = make(dtype, {T, C});
        check_traffic("embedding_backward", shape, {bytes_of::embedding_backward(s, T, C), sort_bytes(T, V)},
                      [&](Backend& ops) {
                        ops.run(EmbeddingBackward{dtable, tokens, dout, 0});
                      });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rotations) {
  struct Heads {
    Count num, others, dim;  ///< rotated heads; heads of values beside them
  };
  for (const Heads heads : {Heads{16, 2, 64}, Heads{40, 8, 128}}) {
    for (const DType dtype : dtypes) {
      const Count T = 12, s = size(dtype), n = heads.num, D = heads.dim;
      const std::string shape = text({T, n, D}, dtype);
      const auto rotated = [&] { return make(dtype, {T, (n + heads.others) * D}).columns(0, n * D).view({T, n, D}); };
      // Tables and weights are read by every warp, which has 32 vectors of pairs; those of tables by halves of sectors.
      const Count num_warps = T * n * D / 2 / (32 * 16 / s);
      const Count tables = num_warps * D * (4 + halves(dtype)) - 4 * T * D, weights = (num_warps - 1) * s * D;
      const auto table = [&] { return make(float32, {T, D / 2}); };
      if (dtype == float32) {
        const Tensor positions = make_ids(T), frequencies = make(DType::float64, {D / 2});
        const Tensor cosine = table(), sine = table();
        // Every row reads the frequencies.
        check_traffic("rope_table", text({T, D}, float32), {bytes_of::rope_table(T, D), 0, 4 * D * (T - 1)},
                      [&](Backend& ops) {
                        ops.run(WriteRopeTable{cosine, sine, positions, frequencies, {}});
                      });
      }
      {
        const Tensor x = rotated(), cosine = table(), sine = table();
        check_traffic("rope_forward", shape, {bytes_of::rope(s, T, n, D), 0, tables}, [&](Backend& ops) {
          ops.run(RopeForward{x, x, {cosine, sine}});
        });
      }
      {
        const Tensor x = rotated(), cosine = table(), sine = table();
        const Tensor rstd = make(float32, {T, n}), weight = make(dtype, {D});
        check_traffic(
            "norm_rope_forward", shape, {bytes_of::norm_rope_forward(s, s, T, n, D), 0, tables + weights},
            [&](Backend& ops) {
              ops.run(NormRopeForward{
                  .out = x, .rstd = rstd, .in = x, .weight = weight, .table = {cosine, sine}, .epsilon = 1e-6F});
            });
      }
      {
        const Tensor x = rotated(), dx = rotated(), cosine = table(), sine = table();
        const Tensor rstd = make(float32, {T, n}), weight = make(dtype, {D}), dweight = make(float32, {D});
        check_traffic("norm_rope_backward", shape,
                      {bytes_of::norm_rope_backward(s, s, T, n, D),
                       partials_bytes(cuda::norm_rope_backward_partials(T * n), D), tables + weights},
                      [&](Backend& ops) {
                        ops.run(NormRopeBackward{.din = dx,
                                                 .dweight = dweight,
                                                 .dout = dx,
                                                 .in = x,
                                                 .rstd = rstd,
                                                 .weight = weight,
                                                 .table = {cosine, sine}});
                      });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(biases) {
  for (const DType dtype : dtypes) {
    const Count T = 96, W = 1152, s = size(dtype);
    const std::string shape = text({T, W}, dtype);
    {
      const Tensor x = make(dtype, {T, W}), bias = make(dtype, {W});
      check_traffic("add_bias", shape, {bytes_of::add_bias(s, s, T, W), 0, s * (T - 1) * W}, [&](Backend&) {
        cuda::add_bias(view_of(x), cuda::Weight{bias.data, bias.dtype == DType::bf16}, nullptr);
        BOOST_TEST_REQUIRE(cudaStreamSynchronize(nullptr) == cudaSuccess);
      });
    }
    {
      const Tensor dy = make(dtype, {T, W}), dbias = make(float32, {W});
      const auto partials = static_cast<Count>(cuda::column_sums_bytes(T, W));
      check_traffic("bias_backward", shape,
                    {bytes_of::bias_backward(s, T, W), 2 * partials, halves(dtype) * partials / 4}, [&](Backend& ops) {
                      ops.run(BiasBackward{dbias, dy});
                    });
    }
  }
}

BOOST_AUTO_TEST_CASE(swiglu) {
  for (const Count F : {Count{4864}, Count{12288}}) {
    for (const DType dtype : dtypes) {
      const Count T = 8, s = size(dtype);
      const std::string shape = text({T, F}, dtype);
      {
        const Tensor gate_up = make(dtype, {T, 2 * F}), act = make(dtype, {T, F});
        check_traffic("gated_forward", shape, {bytes_of::gated_forward(s, T, F)}, [&](Backend& ops) {
          ops.run(GatedForward{act, gate_up});
        });
      }
      {
        const Tensor gate_up = make(dtype, {T, 2 * F}), dgate_up = make(dtype, {T, 2 * F});
        const Tensor act = make(dtype, {T, F}), dact = make(dtype, {T, F});
        check_traffic("gated_backward", shape, {bytes_of::gated_backward(s, T, F)}, [&](Backend& ops) {
          ops.run(GatedBackward{dgate_up, act, dact, gate_up});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(cross_entropy) {
  for (const DType dtype : dtypes) {
    const Count T = 3, V = 151936 / 8;  // of a rank of eight
    const std::string shape = text({T, V}, dtype);
    const Tensor logits = make(float32, {T, V}), max = make(float32, {T}), partials = make(float32, {3, T});
    const Tensor targets = make_ids(T), weights = make(float32, {T}), metrics = make(DType::float64, {4});
    const Tensor dlogits = dtype == bf16 ? make(bf16, {T, V}) : logits;
    const CrossEntropy chunk{logits, max, partials, targets, weights, 0};
    check_traffic("cross_entropy_max", shape, {bytes_of::cross_entropy_max(T, V)},
                  [&](Backend& ops) { ops.run(CrossEntropyMax{chunk}); });
    check_traffic("cross_entropy_partials", shape, {bytes_of::cross_entropy_partials(T, V)},
                  [&](Backend& ops) { ops.run(CrossEntropyPartials{chunk}); });
    // Weights and sums are read for the metrics and for the gradient, of which every warp has 128 columns of a row.
    check_traffic("cross_entropy_finish", shape,
                  {bytes_of::cross_entropy_finish(size(dtype), T, V), 8 * T, 3 * 32 * T * V / 128}, [&](Backend& ops) {
                    ops.run(CrossEntropyFinish{chunk, dlogits, 1e-3F, metrics});
                  });
  }
}

BOOST_AUTO_TEST_CASE(optimizer) {
  const Count N = 40000;
  struct Kinds {
    DType parameters, moments;
    bool has_copy;
  };
  for (const Kinds& kinds : {Kinds{float32, float32, false}, Kinds{float32, float32, true}, Kinds{float32, bf16, true},
                             Kinds{bf16, bf16, false}}) {
    const Tensor parameters = make(kinds.parameters, {N}), gradients = make(float32, {N});
    const Tensor first = make(kinds.moments, {N}), second = make(kinds.moments, {N});
    const Tensor copy = kinds.has_copy ? make(bf16, {N}) : Tensor();
    const std::string shape = text({N}, kinds.parameters) + ", moments " +
                              (kinds.moments == bf16 ? "bf16" : "float32") + (kinds.has_copy ? ", a copy" : "");
    const std::int64_t bytes = bytes_of::adamw(size(kinds.parameters), size(kinds.moments), kinds.has_copy ? 2 : 0, N);
    check_traffic("adamw", shape, {bytes}, [&](Backend& ops) {
      ops.run(Update{.parameters = parameters,
                     .gradients = gradients,
                     .state = {first, second},
                     .copy = copy,
                     .rule = AdamW{1e-4, 0.9, 0.999, 1e-8, 0.1, 0.1, 0.001}});
    });
  }
  const Tensor x = make(float32, {N}), sum = make(DType::float64, {1});
  const Count num_partials = (N + 4095) / 4096;
  check_traffic("sum_squares", text({N}, float32), {bytes_of::sum_squares(N), 16 * num_partials}, [&](Backend& ops) {
    ops.run(SumSquares{sum, x});
  });
}

BOOST_AUTO_TEST_CASE(fp8) {
  constexpr Count T = 256;
  for (const Count C : hidden_sizes) {
    for (const DType dtype : dtypes) {
      const Count s = size(dtype), num_blocks = T / 128 * (C / 128);
      const Tensor in = make(dtype, {T, C}), codes = make(DType::uint8, {T * C}), scales = make(float32, {T * C});
      for (const bool transpose : {false, true}) {
        const Count lines = transpose ? C : T, terms = transpose ? T : C;
        for (const Fp8Tiles tiles : {Fp8Tiles::whole, Fp8Tiles::vectors, Fp8Tiles::blocks}) {
          const auto [rows, columns] = fp8_scale_shape(tiles, lines, terms);
          const Fp8Matrix matrix(codes.view({lines, terms}), scales.rows(0, rows * columns).view({rows, columns}),
                                 Fp8Format::e4m3, tiles);
          const RoundToFp8 round{.out = matrix, .in = in, .transpose = transpose};
          const bool is_whole = tiles == Fp8Tiles::whole;
          const Count num_scales = is_whole ? 1 : tiles == Fp8Tiles::vectors ? rows * columns : num_blocks;
          const std::string shape = text({T, C}, dtype) + (is_whole                     ? ", one scale"
                                                           : tiles == Fp8Tiles::vectors ? ", vectors"
                                                                                        : ", blocks");
          check_traffic("round_to_fp8", shape + (transpose ? ", transposed" : ""),
                        {bytes_of::round_to_fp8(s, T * C, num_scales)}, [&](Backend& ops) { ops.run(round); });
          if (is_whole && dtype == float32) {
            const Tensor rows_of_codes = make(DType::uint8, {T, C});
            check_traffic("arrange_fp8",
                          std::to_string(T) + " x " + std::to_string(C) + (transpose ? ", transposed" : ""),
                          {bytes_of::arrange_fp8(T * C)}, [&](Backend& ops) {
                            ops.run(ArrangeFp8{.out = matrix.codes, .in = rows_of_codes, .transpose = transpose});
                          });
          }
          if (!transpose && tiles != Fp8Tiles::blocks) {
            const auto [turned_rows, turned_columns] = fp8_scale_shape(tiles, terms, lines);
            const Tensor turned_codes = make(DType::uint8, {C, T}),
                         turned_scales = make(float32, {turned_rows, turned_columns});
            const RoundToFp8 both{
                .out = matrix, .in = in, .turned = {turned_codes, turned_scales, Fp8Format::e4m3, tiles}};
            const Count num_of_both = is_whole ? 2 : num_scales + turned_rows * turned_columns;
            check_traffic("round_to_fp8", shape + ", both layouts",
                          {bytes_of::round_to_both_fp8(s, T * C, num_of_both)}, [&](Backend& ops) { ops.run(both); });
          }
          if (!transpose && tiles != Fp8Tiles::vectors) {
            const Fp8Run run{.codes = codes,
                             .in = in.view({T * C}),
                             .first = 0,
                             .lines = T,
                             .terms = C,
                             .scales = matrix.scales,
                             .tiles = tiles};
            const Count num_raised = is_whole ? 1 : num_blocks;  // scales that are there, and are read and written
            check_traffic("raise_fp8_scales", shape, {bytes_of::raise_fp8_scales(s, T * C), 8 * num_raised},
                          [&](Backend& ops) { ops.run(RaiseFp8Scales{run}); });
            check_traffic("round_fp8_run", shape, {bytes_of::round_fp8_run(s, T * C, num_raised)},
                          [&](Backend& ops) { ops.run(RoundFp8Run{run}); });
          }
          if (!is_whole || transpose) continue;
          // The scale is set before, and read where blocks raise it.
          check_traffic("find_fp8_scale", shape, {bytes_of::find_fp8_scale(s, T * C), 8}, [&](Backend& ops) {
            ops.run(FindFp8Scale{round.out, round.in, round.transpose});
          });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(elementary) {
  const Count N = 40000;
  for (const DType to : dtypes) {
    const Count s = size(to);
    const Tensor x = make(to, {N});
    check_traffic("fill", text({N}, to), {bytes_of::fill(s, N)}, [&](Backend& ops) { ops.run(Fill{x, 1.0F}); });
    check_traffic("fill_normal", text({N}, to), {bytes_of::fill(s, N)}, [&](Backend& ops) {
      ops.run(FillNormal{x, 1, 0, 1.0F});
    });
    check_traffic("fill_uniform", text({N}, to), {bytes_of::fill(s, N)}, [&](Backend& ops) {
      ops.run(FillUniform{x, 1, 0, 1.0F});
    });
    check_traffic("scale", text({N}, to), {bytes_of::scale(s, N)}, [&](Backend& ops) { ops.run(Scale{x, 0.5F}); });
    for (const DType from : dtypes) {
      const Tensor y = make(from, {N});
      const Tensor word = make(DType::uint8, {8});
      const std::string shape = text({N}, from) + " to " + (to == bf16 ? "bf16" : "float32");
      check_traffic("copy", shape, {bytes_of::copy(s, size(from), N)}, [&](Backend& ops) { ops.run(Copy{x, y}); });
      for (const bool accumulates : {false, true}) {
        check_traffic(
            "dropout", shape + (accumulates ? ", added" : ""), {bytes_of::dropout(s, size(from), accumulates, N)},
            [&](Backend& ops) {
              ops.run(Dropout{.out = x, .in = y, .probability = 0.1F, .seed = word, .accumulate = accumulates});
            });
      }
    }
  }
  const Tensor x = make(float32, {N}), y = make(float32, {N});
  check_traffic("add", text({N}, float32), {bytes_of::add(N)}, [&](Backend& ops) { ops.run(Add{x, y}); });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
