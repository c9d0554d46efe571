// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places in a private file on a fast disk, for a GPU: what is moved stops in pinned memory of the node on its way.
// Copies over the link run on two streams, beside the ops; the disk writes behind them and reads ahead of them.

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "sft/io/transfer_file.hpp"
#include "sft/transfer/file_mover.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::transfer {

/// The host waits for the disk where all buffers are on their way, and for the copy that leaves the GPU when the next
/// one is asked for: so it is never more than two writes ahead of the ops. Errors are those of io::TransferFile.
class StagedFileMover final : public Mover {
 public:
  /// One is copied while the disk works on the other.
  static constexpr std::size_t num_buffers = 2;
  /// Of all places together, each of so many bytes.
  [[nodiscard]] static std::uint64_t file_bytes(std::size_t place_bytes, std::size_t num_places);
  /// Pinned memory for the buffers.
  [[nodiscard]] static std::size_t staging_bytes(std::size_t place_bytes);

  /// A lane for each place. `staging`: staging_bytes() of pinned memory. `name`: what is moved, for timelines. Staging,
  /// device and compute stream outlive this.
  StagedFileMover(const FileMover::File& file, std::size_t place_bytes, std::size_t num_places, const Tensor& staging,
                  device::Device& device, device::Stream& compute, const std::string& name);
  ~StagedFileMover() override { drain(); }
  StagedFileMover(const StagedFileMover&) = delete;
  StagedFileMover& operator=(const StagedFileMover&) = delete;

  [[nodiscard]] const io::TransferFile& file() const { return file_; }

  void read(std::size_t lane, const std::vector<Move>& moves) override;
  void write(std::size_t lane, const std::vector<Move>& moves) override;
  void finish(std::size_t lane, device::Stream& stream) override;
  void reads_follow(std::size_t lane) override { finish(lane, *gate_); }
  void reads_follow(device::Event& event) override { gate_->wait(event); }
  void reads_follow_ops() override;
  void ops_follow_writes() override {}  // no op reaches a file
  void drain() noexcept override;

 private:
  /// Pinned memory of one place, and where its numbers are on their way.
  struct Buffer {
    enum class Status {
      idle,
      leaving,   ///< from the GPU to here
      writing,   ///< from here to the file
      reading,   ///< from the file to here
      arriving,  ///< from here to the GPU
    };
    char* memory = nullptr;
    Status status = Status::idle;
    std::size_t lane = 0, bytes = 0;
    std::vector<Move> moves;                 ///< to the GPU, once the file is read
    io::TransferBatch batch;                 ///< of the file
    std::unique_ptr<device::Event> copied;   ///< over the link
    std::unique_ptr<device::Event> is_free;  ///< the GPU's memory, for what arrives
    std::uint64_t used_at = 0;               ///< for the oldest
  };

  /// The one that the lane's numbers are in; null: none.
  [[nodiscard]] Buffer* find(std::size_t lane);
  /// The oldest, once it is idle, for these moves.
  [[nodiscard]] Buffer& take_buffer(std::size_t lane, const std::vector<Move>& moves);
  /// Has the disk write what left the GPU.
  void write_behind();
  void wait_for_file(Buffer& buffer);

  const std::size_t place_bytes_;
  device::Device& device_;
  device::Stream& compute_;
  std::unique_ptr<device::Stream> in_, out_;
  std::unique_ptr<device::Stream> gate_;  ///< carries nothing: where it is, reads may arrive
  std::unique_ptr<device::Event> computed_;
  std::array<Buffer, num_buffers> buffers_;
  io::TransferFile file_;
  std::uint64_t clock_ = 0;
};

}  // namespace sft::transfer
