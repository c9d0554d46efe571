// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention spans as lists of tiles in device memory, where the kernels read them, and the calls of attention.

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

#include "ops/cuda/attention_calls.hpp"
#include "ops/cuda/cudnn/documents.hpp"
#include "ops/cuda/cudnn/rectangles.hpp"
#include "ops/cuda/planning.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cuda {

/// Hands out the part of the workspace that holds attention plans, and at its end a place for calls of a library to
/// work in. Plans may be of any number and size as long as they fit; a plan's memory is free again as soon as the plan
/// is destroyed: what is still queued reads it before a later plan, queued on the same stream, is written over it.
class PlanPool {
 public:
  /// A multiple of this many bytes is handed out at a time.
  static constexpr std::size_t granularity_bytes = plan_granularity_bytes;

  /// Device memory of the caller that outlives the pool, aligned to granularity_bytes.
  PlanPool(void* memory, std::size_t capacity_bytes)
      : memory_(static_cast<std::byte*>(memory)), capacity_bytes_(capacity_bytes) {}
  PlanPool(const PlanPool&) = delete;
  PlanPool& operator=(const PlanPool&) = delete;

  /// The first free place of this size; std::logic_error where there is none. Plans of the same sizes, made and
  /// destroyed in the same order, get the same places.
  [[nodiscard]] void* take(std::size_t bytes);
  void give_back(void* place) noexcept;

  /// The end of the pool, for one call at a time, which takes nothing more: always the same place for as many bytes,
  /// and no plan gets it from now on. Null where plans are in the way; and for good once a later plan found no room
  /// beside it, and got it.
  [[nodiscard]] std::byte* working_place(std::size_t bytes);
  /// False once a plan got it.
  [[nodiscard]] bool has_working_place() const { return has_working_place_; }

 private:
  [[nodiscard]] std::size_t end_of_plans() const { return used_.empty() ? 0 : used_.rbegin()->second; }

  std::byte* memory_;
  std::size_t capacity_bytes_;     ///< of plans and calls
  std::size_t working_bytes_ = 0;  ///< at the end, that no plan is to get
  bool has_working_place_ = true;
  std::map<std::size_t, std::size_t> used_;  ///< begin -> end, bytes from memory_
};

/// Tiles and ranges of both sides, as attention_calls.hpp says, on the host.
struct TileLists {
  std::vector<AttentionTile> query_tiles, key_tiles;
  std::vector<AttentionRange> key_ranges, query_ranges;  ///< that query tiles see; that see key tiles
  std::int32_t window = 0;                               ///< of both sides; 0 also where that of the spans hides no key

  /// Throws std::logic_error where a span is neither of the two kinds that schedules have (causal square, full
  /// rectangle), lies outside the rows, or overlaps another in an illegal way, or where windows differ.
  TileLists(const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries, std::int64_t num_keys);
};

/// What lists of a plan have room for: what it is made of, or that of others for other documents, too.
enum class PlanRoom { for_itself, for_others };

/// Entries that a list of a plan with room for others, over `num_rows` rows, has room for where it has `num_entries`,
/// `num_whole` of which it has for any documents: as many as for other documents, about. Pure.
[[nodiscard]] std::size_t rounded_entries(std::size_t num_entries, std::int64_t num_whole, std::int64_t num_rows);

/// The plan of the CUDA backend. Does not outlive the pool. Kernels are launched for all tiles that there is room for:
/// those behind the last have no rows, and blocks of threads that get one leave at once. So with room for others
/// launches are the same for documents of any lengths, as long as their lists find the same room.
class TilePlan final : public AttentionPlan {
 public:
  /// Queues the upload on `stream`, on which the attention is called too. `spans` are read before it returns. Throws
  /// std::logic_error as TileLists does, and where the pool is too small.
  TilePlan(PlanPool& pool, const std::vector<sequence::AttentionSpan>& spans, std::int64_t num_queries,
           std::int64_t num_keys, PlanRoom room, cudaStream_t stream);
  ~TilePlan() override { pool_.give_back(memory_); }

  /// Those of launches: where the lists lie, and for how many tiles. Empty where a library takes rectangles, tails, or
  /// a part of what queries see: what it is called with lies on the host.
  [[nodiscard]] std::vector<std::uint64_t> launch_words() const override;

  [[nodiscard]] const AttentionSide& queries() const { return queries_; }
  [[nodiscard]] const AttentionSide& keys() const { return keys_; }
  /// For cuDNN; null where the spans are not for it.
  [[nodiscard]] cudnn::Documents* documents() const { return documents_.get(); }
  /// The same for calls that merge.
  [[nodiscard]] cudnn::Rectangles* rectangles() const { return rectangles_.get(); }
  /// What queries see beside their documents() or rectangles(), as a plan of its own for calls that merge; null:
  /// nothing, or there are none of these.
  [[nodiscard]] const TilePlan* rest() const { return rest_.get(); }
  void set_documents(std::unique_ptr<cudnn::Documents> documents, std::unique_ptr<TilePlan> rest) {
    documents_ = std::move(documents);
    rest_ = std::move(rest);
  }
  void set_rectangles(std::unique_ptr<cudnn::Rectangles> rectangles, std::unique_ptr<TilePlan> rest) {
    rectangles_ = std::move(rectangles);
    rest_ = std::move(rest);
  }

 private:
  PlanPool& pool_;
  void* memory_ = nullptr;
  AttentionSide queries_{}, keys_{};
  std::unique_ptr<cudnn::Documents> documents_;
  std::unique_ptr<cudnn::Rectangles> rectangles_;
  std::unique_ptr<TilePlan> rest_;
};

// The calls check their arguments as the CPU backend does, pick the kernels for them and queue these on `stream`; see
// ops::Backend for what they compute and when they throw. kernels: those for GPUs of one compute capability run
// where they can.

void attention_forward(const AttentionForward& attention, AttentionKernels kernels, cudaStream_t stream);
void attention_backward(const AttentionBackward& attention, AttentionKernels kernels, cudaStream_t stream);

}  // namespace sft::ops::cuda
