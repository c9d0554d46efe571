// SPDX-License-Identifier: Apache-2.0
#pragma once
// State of the optimizer in a file: a few windows of it are in memory, read ahead of their use and written behind it,
// while others are being worked on.

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/io/direct_file.hpp"
#include "sft/parallel/offloaded_shard.hpp"
#include "sft/tensor/tensor.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// Parts (the master weights, a moment ...) of the state of one rank shard. Windows are taken in any order; ascending
/// order is what prefetch serves best. Everything before open() is pure. Local; errors of the file are data Errors.
class OffloadedState {
 public:
  /// `dtypes`: of the parts. `windows` outlive it.
  OffloadedState(const std::vector<Window>& windows, const std::vector<DType>& dtypes);

  /// Takes the windows' memory: host memory that the device copies from and to.
  void lay_out(device::Arena& arena);
  [[nodiscard]] std::uint64_t file_bytes() const { return file_bytes_; }
  /// Makes the file, of zeros, in `folder`.
  void open(const std::string& folder);
  [[nodiscard]] const io::DirectFile& file() const { return *file_; }

  /// Starts reading a window, unless it is on its way. Waits for the oldest write where no buffer is free.
  void prefetch(std::size_t window);
  /// Waits for a window, and reads it first if nobody has. It is in use until done().
  void use(std::size_t window);
  /// A part of the window in use, 1-D.
  [[nodiscard]] Tensor part(std::size_t window, std::size_t part);
  /// Starts writing the window back.
  void done(std::size_t window);
  /// Waits for all transfers, whatever became of them: before the memory goes.
  void drain() noexcept;

  /// A part as others load and save it; not between prefetch() and done().
  [[nodiscard]] parallel::OffloadedShard& shard(std::size_t part) { return shards_[part]; }

 private:
  /// Read and written a window at a time, of which this part alone is in memory.
  class Shard : public parallel::OffloadedShard {
   public:
    Shard(OffloadedState& state, std::size_t part) : state_(state), part_(part) {}
    [[nodiscard]] DType dtype() const override { return state_.dtypes_[part_]; }
    [[nodiscard]] std::int64_t num_elements() const override;
    void read(std::int64_t begin, const Tensor& values) override;
    void write(std::int64_t begin, const Tensor& values) override;
    void clear() override;

   private:
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
    io::TransferBatch batch;
  };

  [[nodiscard]] Buffer* find(std::size_t window);
  [[nodiscard]] Buffer& in_use(std::size_t window);
  /// One that takes a new window; its transfers are over.
  [[nodiscard]] Buffer& free_buffer(std::size_t window);
  void start_reading(std::size_t window, std::size_t only_part);
  void finish_reading(Buffer& buffer);
  void start_writing(Buffer& buffer);
  /// The part of the window, for a Shard, until another is viewed or the step begins.
  [[nodiscard]] Tensor view(std::size_t window, std::size_t part, bool modify);
  void close_view();
  [[nodiscard]] std::size_t part_bytes(std::size_t window, std::size_t part) const;
  /// Calls visit(window, first element within it, count, elements before them) for the windows that hold the range.
  template <class Visit>
  void for_each_window(std::int64_t begin, std::int64_t count, const Visit& visit) const;

  const std::vector<Window>& windows_;
  const std::vector<DType> dtypes_;
  std::vector<std::vector<std::uint64_t>> file_offsets_;  ///< of each window, of its parts
  std::uint64_t file_bytes_ = 0;
  std::deque<Buffer> buffers_;  ///< a deque: batches must not move
  std::vector<Shard> shards_;
  std::unique_ptr<io::DirectFile> file_;
  std::size_t viewed_window_ = no_window;
  bool is_view_modified_ = false;
  std::uint64_t clock_ = 0;
};

}  // namespace sft::optim
