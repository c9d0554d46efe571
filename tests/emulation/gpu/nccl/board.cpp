// SPDX-License-Identifier: Apache-2.0
#include "board.hpp"

#include "names.hpp"

namespace sft::emulation {

namespace {

constexpr std::size_t header_bytes = 4096;

std::size_t state_bytes(int num_ranks) { return sizeof(RankState) * static_cast<std::size_t>(num_ranks); }

}  // namespace

std::string describe(const Call& call) {
  static constexpr const char* names[] = {"ncclAllReduce", "ncclAllGather", "ncclReduceScatter",
                                          "ncclBroadcast", "ncclReduce",    "ncclSend"};
  std::string text = names[static_cast<int>(call.kind)];
  text += " of " + std::to_string(call.count) + " " + name_of(call.type);
  using Kind = Call::Kind;
  if (call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter || call.kind == Kind::reduce) {
    text += std::string(" (") + name_of(call.operation) + ")";
  }
  if (call.root >= 0) text += ", root " + std::to_string(call.root);
  return text;
}

std::size_t Board::bytes(int num_ranks) {
  const auto n = static_cast<std::size_t>(num_ranks);
  return header_bytes + state_bytes(num_ranks) + n * slot_bytes + n * n * sizeof(Channel);
}

Board::Board(const SharedMemoryKey& key, int num_ranks) : num_ranks_(num_ranks), memory_(key, bytes(num_ranks)) {}

int Board::agree_on_size(int num_ranks) {
  auto& header = *reinterpret_cast<Header*>(memory_.data());
  std::int32_t wanted = 0;
  header.num_ranks.compare_exchange_strong(wanted, num_ranks);
  return wanted == 0 ? num_ranks : wanted;
}

RankState& Board::rank(int number) const { return reinterpret_cast<RankState*>(memory_.data() + header_bytes)[number]; }

std::byte* Board::slot(int rank) const {
  return memory_.data() + header_bytes + state_bytes(num_ranks_) + static_cast<std::size_t>(rank) * slot_bytes;
}

Channel& Board::channel(int from, int to) const {
  auto* channels = reinterpret_cast<Channel*>(slot(num_ranks_));
  return channels[from * num_ranks_ + to];
}

}  // namespace sft::emulation
