// SPDX-License-Identifier: Apache-2.0
#pragma once
// Bytes of memory that each memory-bound op has to move: every input read once and every output written once, however
// the op is computed. Benchmarks hold the time of an op against them; a test counts what the kernels of the CUDA
// backend move (tests/emulation/traffic).
//
// T tokens, C hidden size, n heads of a token, D head dim, F MLP columns, V vocabulary rows, N elements, W columns;
// s bytes of an element of activations, w of one of weights, 4 of float32.

#include <cstdint>

namespace sft::bench::bytes_of {

using Count = std::int64_t;

constexpr Count rms_norm_forward(Count s, Count w, Count T, Count C) { return 2 * s * T * C + 4 * T + w * C; }
constexpr Count rms_norm_apply(Count s, Count w, Count T, Count C) { return rms_norm_forward(s, w, T, C); }
/// delta is of `d` bytes.
constexpr Count add_rms_norm_forward(Count s, Count d, Count w, Count T, Count C) {
  return (3 * s + d) * T * C + 4 * T + w * C;
}
/// With dresidual; dy is of `d` bytes.
constexpr Count rms_norm_backward(Count s, Count d, Count w, Count T, Count C) {
  return (3 * s + d) * T * C + 4 * T + (w + 8) * C;
}

/// Of tokens that all differ.
constexpr Count embedding_forward(Count s, Count w, Count T, Count C) { return (s + w) * T * C + 4 * T; }
/// Of tokens that all differ.
constexpr Count embedding_backward(Count s, Count T, Count C) { return (s + 8) * T * C + 4 * T; }

/// Positions of 4 bytes and frequencies of 8.
constexpr Count rope_table(Count T, Count D) { return 4 * T * D + 4 * T + 4 * D; }
constexpr Count rope(Count s, Count T, Count n, Count D) { return 2 * s * T * n * D + 4 * T * D; }
constexpr Count norm_rope_forward(Count s, Count w, Count T, Count n, Count D) {
  return 2 * s * T * n * D + 4 * T * (D + n) + w * D;
}
constexpr Count norm_rope_backward(Count s, Count w, Count T, Count n, Count D) {
  return 3 * s * T * n * D + 4 * T * (D + n) + (w + 8) * D;
}

/// Of N numbers, which have S scales.
constexpr Count find_fp8_scale(Count s, Count N) { return s * N + 4; }
/// To both layouts.
constexpr Count round_to_both_fp8(Count s, Count N, Count S) { return (s + 2) * N + 4 * S; }
/// Of runs: N numbers, in S blocks.
constexpr Count raise_fp8_scales(Count s, Count N) { return s * N; }
constexpr Count round_fp8_run(Count s, Count N, Count S) { return (s + 1) * N + 4 * S; }
constexpr Count arrange_fp8(Count N) { return 2 * N; }
constexpr Count round_to_fp8(Count s, Count N, Count S) { return (s + 1) * N + 4 * S; }

constexpr Count gated_forward(Count s, Count T, Count F) { return 3 * s * T * F; }
constexpr Count gated_backward(Count s, Count T, Count F) { return 6 * s * T * F; }

constexpr Count add_bias(Count s, Count w, Count T, Count W) { return 2 * s * T * W + w * W; }
constexpr Count bias_backward(Count s, Count T, Count W) { return s * T * W + 8 * W; }

constexpr Count cross_entropy_max(Count T, Count V) { return 4 * T * V + 4 * T; }
constexpr Count cross_entropy_partials(Count T, Count V) { return 8 * T * V + 20 * T; }
/// Of rows whose weight is not 0; dlogits are of `s` bytes. Four sums in float64.
constexpr Count cross_entropy_finish(Count s, Count T, Count V) { return (4 + s) * T * V + 24 * T + 64; }

/// n query heads and k of keys and values. Bound by arithmetic but for short documents.
constexpr Count attention_forward(Count s, Count T, Count n, Count k, Count D) {
  return 2 * s * T * (n + k) * D + 4 * T * n;
}
constexpr Count attention_backward(Count s, Count T, Count n, Count k, Count D) {
  return s * T * (3 * n + 4 * k) * D + 8 * T * n;
}
constexpr Count attention_delta(Count s, Count T, Count n, Count D) { return 2 * s * T * n * D + 4 * T * n; }

/// Parameters of `p` bytes, moments of `m`, a copy of `c` (0: none).
constexpr Count adamw(Count p, Count m, Count c, Count N) { return (2 * p + 4 * m + 4 + c) * N; }
/// Codes of both moments and a scale of each for 256 elements.
constexpr Count adamw_8bit(Count N) { return 16 * N + N / 16; }
/// The gradient four times, the parameter twice; vectors left out.
constexpr Count adafactor(Count N) { return 24 * N; }
constexpr Count sum_squares(Count N) { return 4 * N + 16; }
constexpr Count fill(Count s, Count N) { return s * N; }
constexpr Count scale(Count s, Count N) { return 2 * s * N; }
constexpr Count add(Count N) { return 12 * N; }
/// From elements of `from` bytes to such of `to`.
constexpr Count copy(Count to, Count from, Count N) { return (to + from) * N; }
/// And the seed.
constexpr Count dropout(Count to, Count from, bool accumulates, Count N) {
  return ((accumulates ? 2 : 1) * to + from) * N + 8;
}

}  // namespace sft::bench::bytes_of
