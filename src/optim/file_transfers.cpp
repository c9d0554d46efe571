// SPDX-License-Identifier: Apache-2.0
#include "file_transfers.hpp"

#include "sft/core/cast.hpp"

namespace sft::optim {

std::size_t room_bytes(const StateArray& array, std::size_t window) {
  return round_up(array.windows[window].count * size_of(array.dtype), io::direct_alignment_bytes);
}

std::uint64_t file_bytes(const std::vector<StateArray>& arrays) {
  std::uint64_t bytes = 0;
  for (const StateArray& array : arrays) {
    for (std::size_t window = 0; window < array.windows.size(); ++window) bytes += room_bytes(array, window);
  }
  return bytes;
}

FileTransfers::FileTransfers(const std::vector<StateArray>& arrays, std::size_t num_buffers,
                             device::Stream& compute_stream, const std::string& folder)
    : batches_(num_buffers), compute_stream_(compute_stream), file_(folder, file_bytes(arrays)) {
  std::uint64_t begin = 0;
  for (std::size_t window = 0; window < arrays.front().windows.size(); ++window) {
    std::vector<FileRange>& ranges = ranges_.emplace_back();
    for (const StateArray& array : arrays) {
      ranges.push_back({begin, room_bytes(array, window)});
      begin += ranges.back().bytes;
    }
  }
}

void FileTransfers::start_reading(std::size_t buffer, const std::vector<Transfer>& transfers) {
  for (const Transfer& transfer : transfers) {
    const FileRange& range = range_of(transfer);
    file_.read(batches_[buffer], range.begin, range.bytes, transfer.memory.data);
  }
}

void FileTransfers::start_writing(std::size_t buffer, const std::vector<Transfer>& transfers) {
  compute_stream_.synchronize();
  for (const Transfer& transfer : transfers) {
    const FileRange& range = range_of(transfer);
    file_.write(batches_[buffer], range.begin, range.bytes, transfer.memory.data);
  }
}

}  // namespace sft::optim
