// SPDX-License-Identifier: Apache-2.0
#pragma once
// What updates the trainable parameters of a rank and keeps state for it: the trainer knows no more of an optimizer
// than this. docs/architecture.md says what a new one takes.

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/device/arena.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/stored_layout.hpp"
#include "sft/parallel/unit_storage.hpp"
#include "sft/transfer/offloaded_shard.hpp"

namespace sft::parallel {
class MatrixExchange;
class ShardReduction;
}  // namespace sft::parallel

namespace sft::optim {

/// Where a part of the state lies between steps.
enum class StateLocation {
  device,  ///< where the ops work
  host,    ///< pinned memory of the node: on GPUs
  file,
};

/// How an optimizer keeps its state, and where.
struct StateForm {
  DType moments = DType::float32;  ///< or bf16: of the numbers that it keeps for each parameter
  StateLocation moments_location = StateLocation::device;
  StateLocation master_location =
      StateLocation::device;         ///< of the weights that it updates: with file UnitStorage has none
  bool rounds_parameters = false;    ///< UnitStorage's parameters are bf16 alone
  std::uint64_t rounding_seed = 42;  ///< of stochastic rounding, where anything is bf16
  /// The most elements of a window of state that lies elsewhere; a multiple of parallel::alignment_elements. 4 MiB of
  /// float32 are enough for the full speed of a disk, and of the link of a GPU.
  std::int64_t window_elements = std::int64_t{1} << 20;
};

/// The form that a configuration asks for on devices of `kind`. What a CPU works on lies in the memory of the
/// node anyway.
[[nodiscard]] StateForm state_form(const config::ValidConfig& config, device::Kind kind);

/// A part of the state that a checkpoint holds.
struct StateEntry {
  std::string name;                             ///< of the entry: "exp_avg"
  Tensor tensor;                                ///< flat, as long as the layout says; or empty:
  transfer::OffloadedShard* in_file = nullptr;  ///< where it lies instead
  /// Which tensors it has; lives as long as the optimizer.
  const parallel::StoredLayout* layout = &parallel::as_parameters();
};

/// How a step meets those of the other ranks that share the parameters.
struct StepCollectives {
  parallel::MatrixExchange& matrices;
  parallel::ShardReduction& reduction;
};

/// Nothing here is collective but share, where max_shared_bytes() > 0 or needs_whole() is true of any parameter.
/// Everything but open() and what must follow it is pure: planning lays it out without a device.
class Optimizer {
 public:
  virtual ~Optimizer() = default;

  /// Takes the state, and windows of what lies elsewhere, from the device's memory, or from pinned memory of the node:
  /// state that lies there, windows of a file. Call with sizing arenas, then with real ones.
  virtual void lay_out(device::Arena& arena, device::Arena& pinned) = 0;
  /// Where the weights lie that it updates.
  [[nodiscard]] virtual StateLocation master_location() const = 0;
  /// Bytes of this rank's file; 0: there is none.
  [[nodiscard]] virtual std::uint64_t file_bytes() const = 0;

  /// Makes what moves state that lies elsewhere, before the first use of it: where file_bytes() > 0, a file of zeros in
  /// `folder`. `storage` has the master weights, `compute_stream` carries the ops. References outlive this. Throws a
  /// data Error where the disk refuses. Local.
  virtual void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
                    const std::string& folder) = 0;
  /// Whether the open file is read and written past the system's file cache.
  [[nodiscard]] virtual bool is_file_direct() const = 0;

  // Between steps.
  /// The master weights in the file, in memory of any kind; null when they lie in memory itself.
  [[nodiscard]] virtual transfer::OffloadedShard* master_in_file() = 0;
  /// What a checkpoint holds of it beside the weights, in memory of this. Before lay_out() names and layouts alone.
  [[nodiscard]] virtual std::vector<StateEntry> state() = 0;
  /// The state of a run that begins.
  virtual void zero(ops::Backend& backend) = 0;

  /// The order of units in a step. Descending is that of a backward pass.
  enum class Order { ascending, descending };
  /// Starts reading what the next step needs first. Nothing else may touch what lies elsewhere until then.
  virtual void read_ahead(Order order) = 0;
  /// Waits for what is on its way, whatever became of it: before the arenas go.
  virtual void drain() noexcept = 0;

  /// Whether share() works on all of this matrix at once. Pure.
  [[nodiscard]] virtual bool needs_whole(parallel::UnitIndex unit, const parallel::Parameter& parameter) const;
  /// Bytes of the largest tensor that share() reduces over fsdp and tp; the same on all their ranks. 0: none. Pure.
  [[nodiscard]] virtual std::size_t max_shared_bytes() const { return 0; }
  /// What whole matrices and share() need, before the first step. Outlives this.
  virtual void use(const StepCollectives& exchange);

  // A step: begin_step, share, step_unit for each unit in that order, end_step. Parameters, state and the low-precision
  // copy change. What is bf16 is rounded at random, the same way on any mesh and in any run: by the seed, the step and
  // the element's number in its logical tensor.
  /// `step` is 1-based; gradients are scaled by `gradient_scale`.
  virtual void begin_step(std::int64_t step, double learning_rate, double gradient_scale, Order order) = 0;
  /// What has to be known of all gradients, those of other ranks too, before any unit is stepped: behind their sums,
  /// over tp too. It may overwrite gradients. May be left out where max_shared_bytes() is 0 and no matrix is needed
  /// whole. Collective over fsdp and tp elsewhere.
  virtual void share(const parallel::UnitStorage& storage, ops::Backend& backend);
  /// Units without trainable parameters may be left out.
  virtual void step_unit(parallel::UnitIndex unit, const parallel::UnitStorage& storage, ops::Backend& backend) = 0;
  /// Throws std::logic_error when a unit was left out or came out of order.
  virtual void end_step(const parallel::UnitStorage& storage, ops::Backend& backend) = 0;
};

/// The one that optimizer.optim names. References outlive it. Pure.
[[nodiscard]] std::unique_ptr<Optimizer> make_optimizer(const config::Optimizer& optimizer,
                                                        const parallel::ShardMap& shard_map,
                                                        const StateForm& form = {});

/// A whole step, of all units one after the other.
void step_all(Optimizer& optimizer, const parallel::UnitStorage& storage, ops::Backend& backend, std::int64_t step,
              double learning_rate, double gradient_scale);

}  // namespace sft::optim
