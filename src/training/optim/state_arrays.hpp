// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arrays that an optimizer works on, wherever they lie: ops meet them a window at a time, a unit shard or a part of
// it. What lies elsewhere is read ahead of its use, and written back while the next window is worked on; to a file also
// while the next step has begun.

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "sft/optim/optimizer.hpp"
#include "sft/parallel/shard_map.hpp"
#include "sft/transfer/windows.hpp"

namespace sft::optim {

/// Numbers that a step reads and writes, the master weights or a kind of state: a flat array, cut into windows that are
/// in memory at a time.
struct StateArray {
  DType dtype = DType::float32;
  StateLocation place = StateLocation::device;
  std::vector<parallel::ShardRange> windows;  ///< neighbours, from 0 on; a window may have nothing of it

  [[nodiscard]] std::int64_t num_elements() const {
    return windows.empty() ? 0 : windows.back().begin + windows.back().count;
  }
};

class StateArrays {
 public:
  using Order = Optimizer::Order;

  /// `units`: of the windows, ascending, as many as each array has. `master`: the weights, whose memory is that of
  /// UnitStorage; `state`: what the optimizer keeps beside them.
  StateArrays(std::vector<parallel::UnitIndex> units, StateArray master, std::vector<StateArray> state);
  ~StateArrays();
  StateArrays(const StateArrays&) = delete;
  StateArrays& operator=(const StateArrays&) = delete;

  // As those of Optimizer.
  void lay_out(device::Arena& arena, device::Arena& pinned);
  [[nodiscard]] std::uint64_t file_bytes() const;
  void open(device::Device& device, device::Stream& compute_stream, const parallel::UnitStorage& storage,
            const std::string& folder);
  [[nodiscard]] bool is_file_direct() const { return is_file_direct_; }
  [[nodiscard]] transfer::OffloadedShard* master_in_file() { return shard_in_file(master_); }
  void zero(ops::Backend& backend);
  void read_ahead(Order order);
  void drain() noexcept;

  // The state of this number, between steps: one of these has it.
  [[nodiscard]] Tensor in_memory(std::size_t number) const { return state_[number].memory; }
  [[nodiscard]] transfer::OffloadedShard* in_file(std::size_t number) { return shard_in_file(state_[number]); }

  /// Calls work(window) for the windows of the unit, which come next in the order of the step: read_ahead() began it.
  void for_each_window(parallel::UnitIndex unit, const std::function<void(std::size_t window)>& work);
  /// The master weights in the window that is worked on; below, its state in array `number`.
  [[nodiscard]] Tensor master(std::size_t window, const parallel::UnitStorage& storage) const;
  [[nodiscard]] Tensor state(std::size_t window, std::size_t number) const;
  /// Throws std::logic_error when a unit was left out or came out of order.
  void end_step();

 private:
  /// An array: where it lies, and its number among what lies there.
  struct Part {
    StateArray array;
    std::size_t number = 0;
    Tensor memory = {};  ///< (num_elements), of state that lies in memory
  };

  [[nodiscard]] transfer::Windows& state_at(StateLocation place) const;
  /// Calls visit(state) for what lies elsewhere.
  template <class Visit>
  void for_each_offloaded(const Visit& visit) const;
  [[nodiscard]] transfer::OffloadedShard* shard_in_file(const Part& part) const;
  /// The window in its buffer, or that of `memory`.
  [[nodiscard]] Tensor part_of(std::size_t window, const Part& part, const Tensor& memory) const;
  /// Number `position` in the step's order.
  [[nodiscard]] std::size_t window_at(std::size_t position) const;

  const std::vector<parallel::UnitIndex> units_;
  Part master_;
  std::vector<Part> state_;
  std::unique_ptr<transfer::Windows> in_host_, in_file_;  ///< null: nothing lies there
  Order order_ = Order::ascending;                        ///< of the step that is under way
  std::size_t next_ = 0;                                  ///< position in it
  bool is_file_direct_ = false;
};

/// Makes x zero, of any dtype; codes are a multiple of four.
void fill_zero(ops::Backend& backend, const Tensor& x);

}  // namespace sft::optim
