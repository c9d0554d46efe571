// SPDX-License-Identifier: Apache-2.0
#pragma once
// State in a file, read and written past the system's file cache into host memory, on which the ops work. Here the host
// waits for the file, and for the ops before it writes what they made.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/io/direct_file.hpp"
#include "state_array.hpp"
#include "state_transfers.hpp"

namespace sft::optim {

/// Room of a window of an array, in the file and in a buffer: whole blocks of the disk.
[[nodiscard]] std::size_t room_bytes(const StateArray& array, std::size_t window);
/// Bytes of the file that holds these arrays.
[[nodiscard]] std::uint64_t file_bytes(const std::vector<StateArray>& arrays);

/// Errors are data Errors that name the folder.
class FileTransfers final : public StateTransfers {
 public:
  /// Makes the file, of zeros, in `folder`. `arrays`: the parts. The stream carries the ops; it outlives this.
  FileTransfers(const std::vector<StateArray>& arrays, std::size_t num_buffers, device::Stream& compute_stream,
                const std::string& folder);

  [[nodiscard]] const io::DirectFile& file() const { return file_; }

  void begin_step() override {}
  void end_step() override {}
  void start_reading(std::size_t buffer, const std::vector<Transfer>& transfers) override;
  void finish_reading(std::size_t buffer) override { file_.wait(batches_[buffer]); }
  void start_writing(std::size_t buffer, const std::vector<Transfer>& transfers) override;
  void finish_writing(std::size_t buffer) override { file_.wait(batches_[buffer]); }
  void drain() noexcept override { file_.drain(); }

 private:
  struct FileRange {
    std::uint64_t begin;
    std::size_t bytes;
  };
  [[nodiscard]] const FileRange& range_of(const Transfer& transfer) const {
    return ranges_[transfer.window][transfer.part];
  }

  std::vector<std::vector<FileRange>> ranges_;  ///< of each window, of its parts
  std::deque<io::TransferBatch> batches_;       ///< of each buffer; a deque: they must not move
  device::Stream& compute_stream_;
  io::DirectFile file_;
};

}  // namespace sft::optim
