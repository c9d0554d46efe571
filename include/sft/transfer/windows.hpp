// SPDX-License-Identifier: Apache-2.0
#pragma once
// Arrays that lie in a file, or in the node's memory while a GPU works on them: a few windows of them are in buffers,
// read ahead of their use and written behind it, while others are being worked on.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/tensor/tensor.hpp"
#include "sft/transfer/mover.hpp"
#include "sft/transfer/offloaded_shard.hpp"

namespace sft::transfer {

/// A flat array, cut into windows that are in memory at a time.
struct WindowedArray {
  DType dtype = DType::float32;
  std::vector<std::int64_t> windows;  ///< their elements, from the first of the array on; a window may have none of it

  [[nodiscard]] std::int64_t num_elements() const;
};

/// Windows are taken in any order; ascending order is what prefetch serves best. Everything before open() is pure.
/// Local; errors are those of the mover.
class Windows {
 public:
  /// `arrays`: each with the same number of windows, which are moved together.
  explicit Windows(std::vector<WindowedArray> arrays);

  /// Takes the buffers: memory that ops work in, and into which the mover reads.
  void lay_out(device::Arena& arena);
  [[nodiscard]] std::size_t num_buffers() const { return buffers_.size(); }
  // The mover's places: those of all arrays in the first window, then in the next. Their sizes, and where they lie
  // when the arrays are in memory.
  [[nodiscard]] std::vector<std::size_t> place_bytes() const;
  [[nodiscard]] std::vector<Tensor> places(const std::vector<Tensor>& arrays) const;
  /// What moves them, from now on, with a lane for each buffer. Device and stream, which carries the ops, outlive it.
  void open(std::unique_ptr<Mover> mover, device::Device& device, device::Stream& compute);

  // Of arrays that ops reach themselves between steps:
  /// before the first prefetch of a step: what ops queued so far write is read;
  void begin_step() { mover_->reads_follow_ops(); }
  /// behind the last done(): ops queued from now on find what is written.
  void end_step() { mover_->ops_follow_writes(); }

  /// Starts reading a window, unless it is on its way. Behind the oldest write where no buffer is free.
  void prefetch(std::size_t window);
  /// Ops queued from now on find the window in its buffer; it is read first if nobody has. In use until done().
  void use(std::size_t window);
  /// What the window in use has of an array, 1-D.
  [[nodiscard]] Tensor part(std::size_t window, std::size_t array);
  /// Starts writing the window back.
  void done(std::size_t window);
  /// Waits for all transfers, whatever became of them: before the memory goes.
  void drain() noexcept;

  /// An array as others load and save it where they cannot reach it themselves; not between prefetch() and done().
  [[nodiscard]] OffloadedShard& shard(std::size_t array) { return shards_[array]; }

 private:
  /// Read and written a window at a time, of which this array alone is in a buffer.
  class Shard : public OffloadedShard {
   public:
    Shard(Windows& all, std::size_t number) : all_(all), number_(number) {}
    [[nodiscard]] DType dtype() const override { return array().dtype; }
    [[nodiscard]] std::int64_t num_elements() const override { return array().num_elements(); }
    void read(std::int64_t begin, const Tensor& values) override;
    void write(std::int64_t begin, const ConstTensor& values) override;
    void clear() override;

   private:
    [[nodiscard]] const WindowedArray& array() const { return all_.arrays_[number_]; }

    Windows& all_;
    std::size_t number_;
  };

  static constexpr std::size_t no_window = static_cast<std::size_t>(-1), all_arrays = static_cast<std::size_t>(-1);

  /// Memory of one window.
  struct Buffer {
    enum class Status { idle, reading, in_use, writing };
    std::vector<char*> parts;  ///< of the arrays
    std::size_t window = no_window;
    std::size_t only_array = all_arrays;  ///< that is read and written
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
  [[nodiscard]] std::vector<Move> moves_of(const Buffer& buffer) const;
  [[nodiscard]] Tensor part_of(const Buffer& buffer, std::size_t array) const;
  void start_reading(std::size_t window, std::size_t only_array);
  void finish_reading(Buffer& buffer);
  void start_writing(Buffer& buffer);
  /// The array's part of the window, for a Shard, until another is viewed or the step begins.
  [[nodiscard]] Tensor view(std::size_t window, std::size_t array, bool modify);
  void close_view();
  /// Copies for a Shard, and waits for it.
  void copy(const Tensor& to, const ConstTensor& from);
  /// Calls visit(window, first element within it, count, elements before them) for the windows that hold the range.
  template <class Visit>
  static void for_each_window(const WindowedArray& array, std::int64_t begin, std::int64_t count, const Visit& visit);

  const std::vector<WindowedArray> arrays_;
  std::vector<Buffer> buffers_;
  std::vector<Shard> shards_;
  std::unique_ptr<Mover> mover_;  ///< null before open()
  device::Device* device_ = nullptr;
  device::Stream* compute_ = nullptr;
  std::size_t viewed_window_ = no_window;
  bool is_view_modified_ = false;
  std::uint64_t clock_ = 0;
};

}  // namespace sft::transfer
