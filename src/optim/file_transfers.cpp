// SPDX-License-Identifier: Apache-2.0
#include "file_transfers.hpp"

#include "sft/core/cast.hpp"

namespace sft::optim {

std::size_t room_bytes(const Window& window, DType dtype) {
  return round_up(static_cast<std::size_t>(window.count) * size_of(dtype), io::direct_alignment_bytes);
}

std::uint64_t file_bytes(const std::vector<Window>& windows, const std::vector<DType>& dtypes) {
  std::uint64_t bytes = 0;
  for (const Window& window : windows) {
    for (const DType dtype : dtypes) bytes += room_bytes(window, dtype);
  }
  return bytes;
}

FileTransfers::FileTransfers(const std::vector<Window>& windows, const std::vector<DType>& dtypes,
                             std::size_t num_buffers, device::Stream& compute_stream, const std::string& folder)
    : batches_(num_buffers), compute_stream_(compute_stream), file_(folder, file_bytes(windows, dtypes)) {
  std::uint64_t begin = 0;
  for (const Window& window : windows) {
    std::vector<Place>& places = places_.emplace_back();
    for (const DType dtype : dtypes) {
      places.push_back({begin, room_bytes(window, dtype)});
      begin += places.back().bytes;
    }
  }
}

void FileTransfers::start_reading(std::size_t buffer, const std::vector<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    const Place& place = place_of(piece);
    file_.read(batches_[buffer], place.begin, place.bytes, piece.memory.data);
  }
}

void FileTransfers::start_writing(std::size_t buffer, const std::vector<Piece>& pieces) {
  compute_stream_.synchronize();
  for (const Piece& piece : pieces) {
    const Place& place = place_of(piece);
    file_.write(batches_[buffer], place.begin, place.bytes, piece.memory.data);
  }
}

}  // namespace sft::optim
