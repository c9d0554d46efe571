// SPDX-License-Identifier: Apache-2.0
#include "checks.hpp"

#include <cstdint>
#include <limits>

#include "names.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

/// Bytes of device memory that a call reads or writes.
struct Buffer {
  const void* data;
  std::size_t bytes;
  bool is_written;
  const char* name;
};

bool overlap(const Buffer& a, const Buffer& b) {
  const auto begin = [](const Buffer& buffer) { return reinterpret_cast<std::uintptr_t>(buffer.data); };
  return a.bytes > 0 && b.bytes > 0 && begin(a) < begin(b) + b.bytes && begin(b) < begin(a) + a.bytes;
}

std::string why_unusable(const Buffer& buffer, std::size_t element_bytes, cudaStream_t stream) {
  if (buffer.bytes == 0) return {};
  const std::string name = std::string("the ") + buffer.name + " buffer ";
  if (buffer.data == nullptr) return name + "is null";
  if (reinterpret_cast<std::uintptr_t>(buffer.data) % element_bytes != 0) return name + "is not aligned to its type";
  if (memory_kind(stream, buffer.data, buffer.bytes) != MemoryKind::unknown) return {};
  return name + "of " + std::to_string(buffer.bytes) +
         " bytes is pageable host memory, or reaches out of its allocation, or was freed";
}

std::string why_unknown(const Call& call, int num_ranks) {
  const std::size_t element = size_of(call.type);
  if (element == 0) return "the data type is none";
  using Kind = Call::Kind;
  const bool is_reduction =
      call.kind == Kind::all_reduce || call.kind == Kind::reduce_scatter || call.kind == Kind::reduce;
  if (is_reduction && !can_fold(call.type, call.operation)) {
    return std::string(name_of(call.operation)) + " of " + name_of(call.type) + " is not emulated";
  }
  const bool has_root = call.kind == Kind::broadcast || call.kind == Kind::reduce;
  if (has_root && (call.root < 0 || call.root >= num_ranks)) return "root " + std::to_string(call.root) + " is no rank";
  constexpr auto most = std::numeric_limits<std::int64_t>::max();
  if (call.count > static_cast<std::uint64_t>(most) / element / static_cast<std::uint64_t>(num_ranks)) {
    return "a count of " + std::to_string(call.count) + " is out of range";
  }
  return {};
}

/// What the collective reads and writes on this rank; the size 0 where it does neither.
struct Buffers {
  Buffer send, receive;
};

Buffers buffers_of(const Collective& collective, int rank, int num_ranks) {
  const Call& call = collective.call;
  using Kind = Call::Kind;
  const std::size_t one = call.count * size_of(call.type), all = one * static_cast<std::size_t>(num_ranks);
  const bool is_root = call.root == rank;
  const std::size_t sent = call.kind == Kind::reduce_scatter ? all : call.kind == Kind::broadcast && !is_root ? 0 : one;
  const std::size_t received = call.kind == Kind::all_gather ? all : call.kind == Kind::reduce && !is_root ? 0 : one;
  return {{collective.send, sent, false, "send"}, {collective.receive, received, true, "receive"}};
}

/// Where the buffers lie when the call works in place: NCCL knows it by their addresses.
bool is_in_place(const Collective& collective, int rank) {
  const Call& call = collective.call;
  const auto send = reinterpret_cast<std::uintptr_t>(collective.send);
  const auto receive = reinterpret_cast<std::uintptr_t>(collective.receive);
  const std::size_t offset = static_cast<std::size_t>(rank) * call.count * size_of(call.type);
  if (call.kind == Call::Kind::all_gather) return send == receive + offset;
  if (call.kind == Call::Kind::reduce_scatter) return receive == send + offset;
  return send == receive;
}

std::string why_not_of_this_device(const Communicator& communicator, cudaStream_t stream) {
  if (communicator.state() == Communicator::State::finalized) return "a call after ncclCommFinalize";
  const int device = device_of(stream);
  if (device == communicator.device()) return {};
  return "a stream of device " + std::to_string(device) + " for a communicator of device " +
         std::to_string(communicator.device());
}

}  // namespace

std::string why_refused(const Communicator& communicator, cudaStream_t stream, const Collective& collective) {
  std::string why = why_not_of_this_device(communicator, stream);
  if (why.empty()) why = why_unknown(collective.call, communicator.size());
  if (!why.empty()) return why;
  const auto [send, receive] = buffers_of(collective, communicator.rank(), communicator.size());
  const std::size_t element = size_of(collective.call.type);
  why = why_unusable(send, element, stream);
  if (why.empty()) why = why_unusable(receive, element, stream);
  if (!why.empty()) return describe(collective.call) + ": " + why;
  if (overlap(send, receive) && !is_in_place(collective, communicator.rank())) {
    return describe(collective.call) + ": the buffers overlap, but not as in-place calls want it";
  }
  return {};
}

std::string why_refused(const Communicator& communicator, cudaStream_t stream, const Transfer& transfer) {
  std::string why = why_not_of_this_device(communicator, stream);
  if (why.empty()) why = why_unknown(transfer.call, communicator.size());
  if (!why.empty()) return why;
  if (transfer.peer < 0 || transfer.peer >= communicator.size()) {
    return "rank " + std::to_string(transfer.peer) + " is none of the communicator";
  }
  const std::size_t element = size_of(transfer.call.type);
  const char* name = transfer.is_send ? "send" : "receive";
  return why_unusable({transfer.data, transfer.call.count * element, !transfer.is_send, name}, element, stream);
}

std::string why_overlapping(const Communicator& communicator, const std::vector<Collective>& collectives,
                            const std::vector<Transfer>& transfers) {
  std::vector<std::vector<Buffer>> calls;
  for (const Collective& collective : collectives) {
    const auto [send, receive] = buffers_of(collective, communicator.rank(), communicator.size());
    calls.push_back({send, receive});
  }
  for (const Transfer& transfer : transfers) {
    const std::size_t bytes = transfer.call.count * size_of(transfer.call.type);
    calls.push_back({{transfer.data, bytes, !transfer.is_send, transfer.is_send ? "send" : "receive"}});
  }
  for (std::size_t i = 0; i < calls.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      for (const Buffer& a : calls[i]) {
        for (const Buffer& b : calls[j]) {
          if ((a.is_written || b.is_written) && overlap(a, b)) {
            return std::string("calls of one group share memory: a ") + a.name + " and a " + b.name + " buffer";
          }
        }
      }
    }
  }
  return {};
}

}  // namespace sft::emulation
