// SPDX-License-Identifier: Apache-2.0
#pragma once
// State of the optimizer that lies in a file, or in the node's memory while a GPU works on it: a few windows of it are
// in buffers, read ahead of their use and written behind it, while others are being worked on.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/parallel/offloaded_shard.hpp"
#include "sft/tensor/tensor.hpp"
#include "state_array.hpp"
#include "state_transfers.hpp"

namespace sft::optim {

/// Parts (the master weights, a moment ...) of a rank's state. Windows are taken in any order; ascending order is what
/// prefetch serves best. Everything before open() is pure. Local; errors are those of the transfers.
class OffloadedState {
 public:
  /// `arrays`: the parts, each with the same number of windows.
  explicit OffloadedState(std::vector<StateArray> arrays);

  /// Takes the buffers: memory that ops work in, and into which the transfers read.
  void lay_out(device::Arena& arena);
  [[nodiscard]] const std::vector<StateArray>& arrays() const { return arrays_; }
  [[nodiscard]] std::size_t num_buffers() const { return buffers_.size(); }
  /// What moves the state, from now on. Device and stream, which carries the ops, outlive it.
  void open(std::unique_ptr<StateTransfers> transfers, device::Device& device, device::Stream& compute_stream);

  /// Before the first prefetch of a step, and behind the last done(): see StateTransfers.
  void begin_step() { transfers_->begin_step(); }
  void end_step() { transfers_->end_step(); }
  /// Starts reading a window, unless it is on its way. Behind the oldest write where no buffer is free.
  void prefetch(std::size_t window);
  /// Ops queued from now on find the window in its buffer; it is read first if nobody has. In use until done().
  void use(std::size_t window);
  /// A part of the window in use, 1-D.
  [[nodiscard]] Tensor part(std::size_t window, std::size_t part);
  /// Starts writing the window back.
  void done(std::size_t window);
  /// Waits for all transfers, whatever became of them: before the memory goes.
  void drain() noexcept;

  /// A part as others load and save it where they cannot reach it themselves; not between prefetch() and done().
  [[nodiscard]] parallel::OffloadedShard& shard(std::size_t part) { return shards_[part]; }

 private:
  /// Read and written a window at a time, of which this part alone is in a buffer.
  class Shard : public parallel::OffloadedShard {
   public:
    Shard(OffloadedState& state, std::size_t part) : state_(state), part_(part) {}
    [[nodiscard]] DType dtype() const override { return array().dtype; }
    [[nodiscard]] std::int64_t num_elements() const override { return array().num_elements(); }
    void read(std::int64_t begin, const Tensor& values) override;
    void write(std::int64_t begin, const Tensor& values) override;
    void clear() override;

   private:
    [[nodiscard]] const StateArray& array() const { return state_.arrays_[part_]; }

    OffloadedState& state_;
    std::size_t part_;
  };

  static constexpr std::size_t no_window = static_cast<std::size_t>(-1), all_parts = static_cast<std::size_t>(-1);

  /// Memory of one window.
  struct Buffer {
    enum class Status { idle, reading, in_use, writing };
    std::vector<char*> parts;
    std::size_t window = no_window;
    std::size_t only_part = all_parts;  ///< that is read and written
    Status status = Status::idle;
    std::uint64_t used_at = 0;  ///< for the oldest
  };

  /// Null where the window is in none.
  [[nodiscard]] Buffer* find(std::size_t window);
  [[nodiscard]] Buffer& in_use(std::size_t window);
  [[nodiscard]] std::size_t number_of(const Buffer& buffer) const;
  /// One that takes a new window; its transfers are over, or come before those that read.
  [[nodiscard]] Buffer& free_buffer(std::size_t window);
  /// What the buffer holds of its window.
  [[nodiscard]] std::vector<StateTransfers::Transfer> transfers_of(const Buffer& buffer) const;
  [[nodiscard]] Tensor part_of(const Buffer& buffer, std::size_t part) const;
  void start_reading(std::size_t window, std::size_t only_part);
  void finish_reading(Buffer& buffer);
  void start_writing(Buffer& buffer);
  /// The part of the window, for a Shard, until another is viewed or the step begins.
  [[nodiscard]] Tensor view(std::size_t window, std::size_t part, bool modify);
  void close_view();
  /// Copies for a Shard, and waits for it.
  void copy(const Tensor& to, const Tensor& from);
  /// Calls visit(window, first element within it, count, elements before them) for the windows that hold the range.
  template <class Visit>
  static void for_each_window(const StateArray& array, std::int64_t begin, std::int64_t count, const Visit& visit);

  const std::vector<StateArray> arrays_;
  std::vector<Buffer> buffers_;
  std::vector<Shard> shards_;
  std::unique_ptr<StateTransfers> transfers_;  ///< null before open()
  device::Device* device_ = nullptr;
  device::Stream* compute_stream_ = nullptr;
  std::size_t viewed_window_ = no_window;
  bool is_view_modified_ = false;
  std::uint64_t clock_ = 0;
};

}  // namespace sft::optim
