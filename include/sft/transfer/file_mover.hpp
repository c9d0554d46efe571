// SPDX-License-Identifier: Apache-2.0
#pragma once
// Places in a private file on a fast disk. The host waits for the file, and for the ops before it writes what they
// made; the device's communication progresses meanwhile.

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sft/io/transfer_file.hpp"
#include "sft/transfer/mover.hpp"

namespace sft::transfer {

/// Room of `bytes` in the file and, where the cache is bypassed, in memory that is moved: whole blocks of the disk.
[[nodiscard]] std::size_t room_bytes(std::size_t bytes, io::FileCache cache = io::FileCache::bypassed);
/// Bytes of the file that has places of these sizes.
[[nodiscard]] std::uint64_t file_bytes(const std::vector<std::size_t>& place_bytes,
                                       io::FileCache cache = io::FileCache::bypassed);

/// Errors are those of io::TransferFile.
class FileMover final : public Mover {
 public:
  struct File {
    std::string folder;  ///< on whose disk it is made, of zeros
    io::FileUse use;
    io::FileCache cache = io::FileCache::bypassed;
  };

  /// `place_bytes`: sizes of the places. Where the cache is bypassed, what is moved begins at the beginning of its
  /// place, at an aligned address (io::direct_alignment_bytes), and its memory has room_bytes(). Device and compute
  /// stream outlive this.
  FileMover(const File& file, const std::vector<std::size_t>& place_bytes, std::size_t num_lanes,
            device::Device& device, device::Stream& compute);

  [[nodiscard]] const io::TransferFile& file() const { return file_; }

  void read(std::size_t lane, const std::vector<Move>& moves) override;
  void write(std::size_t lane, const std::vector<Move>& moves) override;
  void finish(std::size_t lane, device::Stream& /*stream*/) override { reads_follow(lane); }
  void reads_follow(std::size_t lane) override;
  void reads_follow(device::Event& event) override { event.synchronize(); }
  void reads_follow_ops() override { compute_.synchronize(); }
  void ops_follow_writes() override {}  // no op reaches a file
  void drain() noexcept override { file_.drain(); }

 private:
  /// A part of the file.
  struct Range {
    std::uint64_t begin;
    std::size_t bytes;
  };
  [[nodiscard]] Range range_of(const Move& move) const;

  io::FileCache cache_;
  std::vector<Range> places_;
  std::deque<io::TransferBatch> lanes_;  ///< a deque: they must not move
  device::Device& device_;
  device::Stream& compute_;
  io::TransferFile file_;
};

}  // namespace sft::transfer
