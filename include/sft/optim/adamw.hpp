// SPDX-License-Identifier: Apache-2.0
#pragma once
// AdamW on the rank shard. It owns its state: the two moments and, where they are not in memory, the master weights.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/offloaded_shard.hpp"
#include "sft/parallel/unit_storage.hpp"

namespace sft::optim {

struct Window;
class OffloadedState;

/// What the state of AdamW is made of, and where it lies.
struct StateForm {
  DType moments = DType::float32;  ///< or bf16
  bool moments_in_file = false;
  bool master_in_file = false;       ///< the float32 weights: then UnitStorage has none
  bool rounds_parameters = false;    ///< UnitStorage's parameters are bf16 alone
  std::uint64_t rounding_seed = 42;  ///< of stochastic rounding, where anything is bf16
  /// Of a window of state in a file, at most; a multiple of parallel::alignment_elements. 4 MiB of float32 are enough
  /// for the full speed of a disk.
  std::int64_t window_elements = std::int64_t{1} << 20;
};

/// The form that a validated configuration asks for.
[[nodiscard]] StateForm state_form(const config::Config& config);

/// torch.optim.AdamW (Loshchilov & Hutter 2019) over the rank shard; only matrices decay. Nothing here is collective.
/// Everything but open_file() and what must follow it is pure: planning lays it out without a device.
///
/// State in a file is in memory a window at a time, a unit shard or a part of it: read ahead of its use, and written
/// while the next one is worked on and the next step has begun.
class AdamW {
 public:
  /// References outlive it.
  AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map, const StateForm& form = {});
  ~AdamW();
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// Takes the moments from `arena`, or windows of what lies in a file from `pinned`; call with sizing arenas, then
  /// with real ones.
  void lay_out(device::Arena& arena, device::Arena& pinned);

  // (rank_shard_elements), cut as the parameters are; empty when they lie in a file.
  [[nodiscard]] Tensor exp_avg() const { return exp_avg_; }
  [[nodiscard]] Tensor exp_avg_sq() const { return exp_avg_sq_; }

  /// Bytes of this rank's file; 0: there is none.
  [[nodiscard]] std::uint64_t file_bytes() const;
  /// Makes the file in `folder`, all zeros, before the first use of what lies in it. Only where file_bytes() > 0.
  /// Throws a data Error where the disk refuses. Local.
  void open_file(const std::string& folder);
  /// Of an open file: whether it is read and written past the system's file cache.
  [[nodiscard]] bool is_file_direct() const;
  // What lies in the file, for whoever loads or saves it between steps; null when it lies in memory.
  [[nodiscard]] parallel::OffloadedShard* master_in_file();
  [[nodiscard]] parallel::OffloadedShard* exp_avg_in_file();
  [[nodiscard]] parallel::OffloadedShard* exp_avg_sq_in_file();
  /// The order of units in a step. Descending is that of a backward pass.
  enum class Order { ascending, descending };
  /// Starts reading what the next step needs first. Nothing else may touch the file until then.
  void read_ahead(Order order = Order::ascending);
  /// Waits for the file, whatever became of its transfers: before the arenas go.
  void drain() noexcept;

  /// Step `step` (1-based) of all units, one after the other, with gradients scaled by `gradient_scale`; parameters,
  /// moments and the low-precision copy change. What is bf16 is rounded at random, the same way on any mesh and in any
  /// run: by the seed, the step and the element's number in its logical tensor.
  void step(const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step, double learning_rate,
            double gradient_scale);

  // The same step in parts: begin_step, step_unit for each unit in that order, end_step.
  void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order);
  /// Units without trainable parameters may be left out.
  void step_unit(int unit, const parallel::UnitStorage& storage, ops::Backend& backend);
  /// Throws std::logic_error when a unit was left out or came out of order.
  void end_step();

 private:
  static constexpr std::size_t not_in_file = static_cast<std::size_t>(-1);

  [[nodiscard]] parallel::OffloadedShard* shard_in_file(std::size_t part);
  /// The part of the window that lies in the file, or that of `in_memory`.
  [[nodiscard]] Tensor part_of(std::size_t window, std::size_t part, const Tensor& in_memory) const;
  void step_window(std::size_t window, const parallel::UnitStorage& storage, ops::Backend& backend) const;
  /// Number `position` in the step's order.
  [[nodiscard]] std::size_t window_at(std::size_t position) const;

  const config::Optimizer& optimizer_;
  const parallel::ShardMap& shard_map_;
  const StateForm form_;
  const std::vector<Window> windows_;
  Tensor exp_avg_, exp_avg_sq_;
  // Of the step that is under way.
  ops::AdamW hyper_{};
  std::uint64_t rounding_key_ = 0;
  Order order_ = Order::ascending;
  std::size_t next_ = 0;                  ///< position in the order
  std::unique_ptr<OffloadedState> file_;  ///< null: all is in memory
  std::size_t master_part_ = not_in_file, exp_avg_part_ = not_in_file, exp_avg_sq_part_ = not_in_file;
};

}  // namespace sft::optim
