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

/// Where a part of the state lies between steps.
enum class StatePlace {
  device,  ///< where the ops work
  host,    ///< pinned memory of the node: on GPUs
  file,
};

/// What the state of AdamW is made of, and where it lies.
struct StateForm {
  DType moments = DType::float32;  ///< or bf16
  StatePlace moments_place = StatePlace::device;
  StatePlace master_place = StatePlace::device;  ///< of the weights that it updates: with file UnitStorage has none
  bool rounds_parameters = false;                ///< UnitStorage's parameters are bf16 alone
  std::uint64_t rounding_seed = 42;              ///< of stochastic rounding, where anything is bf16
  /// Of a window of state that lies elsewhere, at most; a multiple of parallel::alignment_elements. 4 MiB of float32
  /// are enough for the full speed of a disk, and of the link of a GPU.
  std::int64_t window_elements = std::int64_t{1} << 20;
};

/// The form that a validated configuration asks for on devices of `kind`. What a CPU works on lies in the memory of the
/// node anyway.
[[nodiscard]] StateForm state_form(const config::Config& config, device::Kind kind);

/// torch.optim.AdamW (Loshchilov & Hutter 2019) over the rank shard; only matrices decay. Nothing here is collective.
/// Everything but open() and what must follow it is pure: planning lays it out without a device.
///
/// The ops meet state that lies elsewhere a window at a time, a unit shard or a part of it: read ahead of its use, and
/// written back while the next one is worked on; to a file also while the next step has begun.
class AdamW {
 public:
  /// References outlive it.
  AdamW(const config::Optimizer& optimizer, const parallel::ShardMap& shard_map, const StateForm& form = {});
  ~AdamW();
  AdamW(const AdamW&) = delete;
  AdamW& operator=(const AdamW&) = delete;

  /// Takes the moments, and windows of what lies elsewhere, from the device's memory, or from pinned memory of the
  /// node: moments that lie there, windows of a file. Call with sizing arenas, then with real ones.
  void lay_out(device::Arena& arena, device::Arena& pinned);

  [[nodiscard]] const StateForm& form() const { return form_; }

  // (rank_shard_elements), cut as the parameters are, in the device's memory or, with StatePlace::host, the node's;
  // empty when they lie in a file.
  [[nodiscard]] Tensor exp_avg() const { return exp_avg_; }
  [[nodiscard]] Tensor exp_avg_sq() const { return exp_avg_sq_; }

  /// Bytes of this rank's file; 0: there is none.
  [[nodiscard]] std::uint64_t file_bytes() const;
  /// Makes what moves state that lies elsewhere, before the first use of it: where file_bytes() > 0, a file of zeros in
  /// `folder`. `storage` has the master weights, `compute_stream` carries the ops. References outlive this. Throws a
  /// data Error where the disk refuses. Local.
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder);
  /// Of an open file: whether it is read and written past the system's file cache.
  [[nodiscard]] bool is_file_direct() const { return is_file_direct_; }
  // What lies in the file, for whoever loads or saves it between steps, in memory of any kind; null when it lies in
  // memory itself.
  [[nodiscard]] parallel::OffloadedShard* master_in_file();
  [[nodiscard]] parallel::OffloadedShard* exp_avg_in_file();
  [[nodiscard]] parallel::OffloadedShard* exp_avg_sq_in_file();
  /// The order of units in a step. Descending is that of a backward pass.
  enum class Order { ascending, descending };
  /// Starts reading what the next step needs first. Nothing else may touch what lies elsewhere until then.
  void read_ahead(Order order = Order::ascending);
  /// Waits for what is on its way, whatever became of it: before the arenas go.
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
  /// Master weights or a moment: where they lie, and their number among what lies there.
  struct Part {
    StatePlace place = StatePlace::device;
    std::size_t number = 0;
  };

  [[nodiscard]] OffloadedState& state_at(StatePlace place) const;
  /// Calls visit(state) for what lies elsewhere.
  template <class Visit>
  void for_each_offloaded(const Visit& visit) const;
  [[nodiscard]] parallel::OffloadedShard* shard_in_file(const Part& part) const;
  /// The part of the window in its buffer, or that of `in_memory`.
  [[nodiscard]] Tensor part_of(std::size_t window, const Part& part, const Tensor& in_memory) const;
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
  std::size_t next_ = 0;  ///< position in the order
  Part master_, first_moment_, second_moment_;
  std::unique_ptr<OffloadedState> in_host_, in_file_;  ///< null: nothing lies there
  bool is_file_direct_ = false;
};

}  // namespace sft::optim
