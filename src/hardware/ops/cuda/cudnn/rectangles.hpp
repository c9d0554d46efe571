// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rectangles of an attention plan, as ring attention has them over the keys of other ranks: neighbouring queries that
// all see every one of some neighbouring keys. A library does these; the spans that are none are left to this program.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "ops/cuda/cudnn/working_memory.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cuda {

class PlanPool;

namespace cudnn {

struct Rectangle {
  std::int64_t q_begin, q_len, k_begin, k_len;
};

/// What queries see, in two parts.
struct SplitSpans {
  std::vector<Rectangle> rectangles;  ///< the largest, at most max_rectangles
  std::vector<sequence::AttentionSpan> rest;
};

/// Puts spans together that stand side by side, over the same keys or of the same queries. What is narrower than a tile
/// of a library on either side is no rectangle, nor is what a window cuts.
[[nodiscard]] SplitSpans split_rectangles(const std::vector<sequence::AttentionSpan>& spans);

/// Rectangles of one plan, and the lists by which a library is told of one at a time. Its memory is the pool's.
class Rectangles {
 public:
  /// Lists are uploaded on `stream`, on which attention is called too.
  Rectangles(PlanPool& pool, std::vector<Rectangle> rectangles, cudaStream_t stream)
      : pool_(pool), stream_(stream), rectangles_(std::move(rectangles)) {}
  ~Rectangles();
  Rectangles(const Rectangles&) = delete;
  Rectangles& operator=(const Rectangles&) = delete;

  [[nodiscard]] const std::vector<Rectangle>& list() const { return rectangles_; }
  /// In device memory: the number; and 0, then the number. Their upload is queued where they are not there. Throw
  /// std::logic_error where the pool is too small.
  [[nodiscard]] const std::int32_t* length(std::int64_t rows);
  [[nodiscard]] const std::int64_t* offsets(std::int64_t elements);

 private:
  PlanPool& pool_;
  cudaStream_t stream_;
  std::vector<Rectangle> rectangles_;
  std::map<std::int64_t, std::int32_t*> lengths_;
  std::map<std::int64_t, std::int64_t*> offsets_;  ///< by the end
};

}  // namespace cudnn
}  // namespace sft::ops::cuda
