// SPDX-License-Identifier: Apache-2.0
#include "collectives.hpp"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reduce.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "slice.hpp"
#include "steps.hpp"

namespace sft::comm {

namespace {

template <class Memory>
auto* memory_of(const BasicTensor<Memory>& tensor) {
  return tensor.template as<std::byte>();
}

/// The other ranks of `group`, starting behind this one so that not all send to the same rank first.
std::vector<int> peers_of(const Group& group) {
  std::vector<int> peers;
  for (int distance = 1; distance < group.size(); ++distance) {
    peers.push_back((group.rank() + distance) % group.size());
  }
  return peers;
}

/// Recursive doubling: in each of log2(size) rounds the ranks exchange all they have with a partner. Few messages, for
/// small slices. Both partners add the same two numbers, so all ranks get the same bits. The ranks beyond the largest
/// power of two hand their part to a partner first and receive the result last.
void append_doubling_reduction(std::vector<Steps::Step>& steps, const Group& group, const Slice& slice, DType dtype,
                               ReduceOp op, std::byte* staging, LocalWork& work) {
  const int rank = group.rank();
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(group.size())));
  const int outsider = rank + power;  // partner of a rank inside the power of two
  const Contributions both{.rank = 0, .size = 2, .slots = staging, .slot_bytes = slice.bytes, .own = slice.begin};
  const auto reduce_staged = [=, &work](Transfers&) {
    work.reduce(slice.begin, both, num_elements(slice.bytes, dtype), dtype, op);
  };
  if (rank >= power) {
    steps.push_back([=](Transfers& transfers) { transfers.send(slice.begin, slice.bytes, rank - power); });
    steps.push_back([=](Transfers& transfers) { transfers.receive(slice.begin, slice.bytes, rank - power); });
    return;
  }
  if (outsider < group.size()) {
    steps.push_back([=](Transfers& transfers) { transfers.receive(staging, slice.bytes, outsider); });
    steps.push_back(reduce_staged);
  }
  for (int distance = 1; distance < power; distance *= 2) {
    steps.push_back([=](Transfers& transfers) {
      transfers.receive(staging, slice.bytes, rank ^ distance);
      transfers.send(slice.begin, slice.bytes, rank ^ distance);
    });
    steps.push_back(reduce_staged);
  }
  if (outsider < group.size()) {
    steps.push_back([=](Transfers& transfers) { transfers.send(slice.begin, slice.bytes, outsider); });
  }
}

/// Every rank reduces its piece and sends the result to everyone: two exchanges, twice the bytes.
void append_piecewise_reduction(std::vector<Steps::Step>& steps, const Group& group, const Slice& slice, DType dtype,
                                ReduceOp op, const Contributions& contributions, LocalWork& work) {
  std::byte* own = slice.piece(group.rank());
  const std::size_t own_bytes = slice.bytes_of_piece(group.rank());
  steps.push_back([=](Transfers& transfers) {
    for (const int peer : peers_of(group)) transfers.receive(contributions.slot(peer), own_bytes, peer);
    for (const int peer : peers_of(group)) transfers.send(slice.piece(peer), slice.bytes_of_piece(peer), peer);
  });
  steps.push_back([=, &work](Transfers& transfers) {
    work.reduce(own, contributions.with_own(own), num_elements(own_bytes, dtype), dtype, op);
    for (const int peer : peers_of(group)) transfers.receive(slice.piece(peer), slice.bytes_of_piece(peer), peer);
    for (const int peer : peers_of(group)) transfers.send(own, own_bytes, peer);
  });
}

/// Every rank receives its piece of `full` from all others, as much at a time as a staging slot holds, and calls
/// add(begin, count, parts) for every run of bytes of it.
template <class Add>
void append_scatter(std::vector<Steps::Step>& steps, const Group& group, std::byte* full, std::size_t piece_bytes,
                    const Contributions& contributions, const Add& add) {
  const auto piece = [=](int r) { return full + r * piece_bytes; };
  for (std::size_t begin = 0; begin < piece_bytes; begin += contributions.slot_bytes) {
    const std::size_t count = std::min(contributions.slot_bytes, piece_bytes - begin);
    steps.push_back([=](Transfers& transfers) {
      for (const int peer : peers_of(group)) transfers.receive(contributions.slot(peer), count, peer);
      for (const int peer : peers_of(group)) transfers.send(piece(peer) + begin, count, peer);
    });
    steps.push_back([=](Transfers&) { add(begin, count, contributions.with_own(piece(group.rank()) + begin)); });
  }
}

/// Every rank adds up its piece of `wire` in float32, rounds the sum, and sends it to everyone; `inout` = all sums.
void append_rounded_reduction(std::vector<Steps::Step>& steps, const Group& group, const Tensor& inout,
                              const Tensor& wire, const Contributions& contributions, LocalWork& work) {
  const std::size_t slice_bytes = contributions.slot_bytes * group.size();
  auto* sums = inout.as<float>();
  for (std::size_t begin = 0; begin < wire.size_bytes(); begin += slice_bytes) {
    const std::size_t bytes = std::min(slice_bytes, wire.size_bytes() - begin);
    const Slice slice{memory_of(wire) + begin, bytes, piece_bytes_of(bytes, group.size())};
    std::byte* own = slice.piece(group.rank());
    const std::size_t own_bytes = slice.bytes_of_piece(group.rank());
    float* own_sums = sums + num_elements(own - memory_of(wire), DType::bf16);
    steps.push_back([=](Transfers& transfers) {
      for (const int peer : peers_of(group)) transfers.receive(contributions.slot(peer), own_bytes, peer);
      for (const int peer : peers_of(group)) transfers.send(slice.piece(peer), slice.bytes_of_piece(peer), peer);
    });
    steps.push_back([=, &work](Transfers& transfers) {
      work.sum_bf16(own_sums, contributions.with_own(own), num_elements(own_bytes, DType::bf16), false);
      work.round_to_bf16(own, own_sums, num_elements(own_bytes, DType::bf16));
      for (const int peer : peers_of(group)) transfers.receive(slice.piece(peer), slice.bytes_of_piece(peer), peer);
      for (const int peer : peers_of(group)) transfers.send(own, own_bytes, peer);
    });
  }
  steps.push_back(
      [=, &work](Transfers&) { work.sum_bf16(sums, {.own = memory_of(wire)}, inout.num_elements(), false); });
}

/// A tensor of each rank in a call on a window, `begin` bytes into it.
std::vector<const void*> tensors_of(const WindowCall::Site& site, std::size_t begin) {
  std::vector<const void*> tensors;
  for (int r = 0; r < site.window.group().size(); ++r) tensors.push_back(site.tensor(r) + begin);
  return tensors;
}

/// The largest all-reduce in which every rank reduces everything, by recursive doubling; in larger ones, and in those
/// that travel as bf16, each rank reduces a piece.
constexpr std::size_t max_doubling_bytes = std::size_t{64} << 10;

}  // namespace

MpiCollectives::MpiCollectives(device::Device& device, std::unique_ptr<LocalWork> work)
    : device_(device), work_(std::move(work)) {
  reduce_scatter_staging_.last_use = device.make_event();
  all_reduce_staging_.last_use = device.make_event();
}

void MpiCollectives::set_staging(const StagingMemory& staging) {
  reduce_scatter_staging_.memory = staging.reduce_scatter;
  all_reduce_staging_.memory = staging.all_reduce;
}

device::Device::Block MpiCollectives::allocate_shared(const Group& group, MemoryUse use, std::size_t bytes) {
  if (group.size() == 1 || bytes == 0) return {};
  auto outcome = SharedWindow::Outcome::made;
  if (std::unique_ptr<SharedWindow> window = SharedWindow::make(group, use, bytes, outcome); window != nullptr) {
    windows_.push_back(std::move(window));
    return {windows_.back()->data(group.rank()), [](void*) {}};  // it is freed with the other ranks, at the end
  }
  if (outcome == SharedWindow::Outcome::other_node) {
    if (auto window = make_node_window(group, use, bytes, outcome); window != nullptr) {
      node_windows_.push_back(std::move(window));
      const SharedWindow& of_node = *node_windows_.back()->window;
      return {of_node.data(of_node.group().rank()), [](void*) {}};
    }
  }
  if (outcome != SharedWindow::Outcome::other_node && !std::exchange(has_warned_, true)) {
    const bool is_full = outcome == SharedWindow::Outcome::no_space;
    const std::string bytes_text = format_bytes(bytes) + " of a rank";
    log_warning("the ranks of a node exchange messages, which is slower than shared memory (" +
                (is_full ? std::string(SharedWindow::backing_folder()) + " has no room for " + bytes_text +
                               "): make it larger, such as with `docker run --shm-size`"
                         : "a rank may not map " + bytes_text + "): raise its limits, `ulimit -v` and `ulimit -f`"));
  }
  return {};
}

device::Device::Block MpiCollectives::allocate_own(const Group& /*group*/, std::size_t bytes) {
  return device_.allocate(bytes);
}

SharedWindow* MpiCollectives::window_of(const Group& group, MemoryUse use, const Tensor& tensor) const {
  for (const auto& window : windows_) {
    if (window->group() == group && window->use() == use && window->holds(memory_of(tensor), tensor.size_bytes())) {
      return window.get();
    }
  }
  return nullptr;
}

const NodeWindow* MpiCollectives::node_window_of(const Group& group, MemoryUse use, const Tensor& tensor) const {
  for (const auto& of : node_windows_) {
    if (of->group == group && of->window->use() == use && of->window->holds(memory_of(tensor), tensor.size_bytes())) {
      return of.get();
    }
  }
  return nullptr;
}

Contributions MpiCollectives::received_into(const Staging& staging, const Group& group) {
  Contributions all{.rank = group.rank(), .size = group.size(), .slots = memory_of(staging.memory)};
  if (group.size() == 1) {  // nobody sends
    all.slot_bytes = std::numeric_limits<std::size_t>::max();
    return all;
  }
  constexpr std::size_t line_bytes = 64;
  const std::size_t lines = staging.memory.size_bytes() / line_bytes / (group.size() - 1);
  SFT_ENSURE(lines > 0,
             "set_staging() comes before the first reduction, and each rank has a line of the staging memory");
  all.slot_bytes = lines * line_bytes;
  return all;
}

void MpiCollectives::push(Staging& staging, std::unique_ptr<device::Pending> steps, device::Stream& stream) {
  stream.wait(*staging.last_use);
  stream.push(std::move(steps));
  staging.last_use->record(stream);
}

void MpiCollectives::run(const Group& group, const Call& call, device::Stream& stream) {
  std::visit([&](const auto& of) { start(group, of, stream); }, call);
}

void MpiCollectives::start(const Group& group, const AllReduce& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  const ReduceOp op = call.op;
  if (group.size() == 1) return;
  if (SharedWindow* window = window_of(group, MemoryUse::reduced, inout); window != nullptr) {
    return all_reduce_in_window(*window, call, stream);
  }
  Staging& staging = all_reduce_staging_;
  const bool is_small = inout.size_bytes() <= max_doubling_bytes;
  if (const NodeWindow* of = node_window_of(group, MemoryUse::reduced, inout);
      of != nullptr && (!is_small || !call.wire.empty())) {
    return push(staging, make_node_call(*of, call, staging.memory), stream);
  }
  const Contributions contributions = received_into(staging, group);
  const std::size_t size = group.size();

  const std::size_t slice_bytes = is_small ? staging.memory.size_bytes() : contributions.slot_bytes * size;
  std::vector<Steps::Step> steps;
  if (!call.wire.empty()) {
    steps.push_back(rounding(call.wire, inout));
    append_rounded_reduction(steps, group, inout, call.wire, contributions, *work_);
    return push(staging, std::make_unique<Steps>(group, "all_reduce", std::move(steps)), stream);
  }
  for (std::size_t begin = 0; begin < inout.size_bytes(); begin += slice_bytes) {
    const std::size_t bytes = std::min(slice_bytes, inout.size_bytes() - begin);
    const Slice slice{memory_of(inout) + begin, bytes, piece_bytes_of(bytes, size)};
    if (is_small) {
      append_doubling_reduction(steps, group, slice, inout.dtype, op, memory_of(staging.memory), *work_);
    } else {
      append_piecewise_reduction(steps, group, slice, inout.dtype, op, contributions, *work_);
    }
  }
  push(staging, std::make_unique<Steps>(group, "all_reduce", std::move(steps)), stream);
}

Steps::Step MpiCollectives::rounding(const Tensor& wire, const Tensor& from) {
  return [=, this](Transfers&) { work_->round_to_bf16(memory_of(wire), from.as<float>(), from.num_elements()); };
}

void MpiCollectives::all_reduce_in_window(SharedWindow& window, const AllReduce& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  const ReduceOp op = call.op;
  const bool is_rounded = !call.wire.empty();
  const std::size_t size = window.group().size();
  const int rank = window.group().rank();
  const std::size_t bytes = inout.size_bytes();
  if (bytes <= max_doubling_bytes && !is_rounded) {
    std::byte* result = memory_of(all_reduce_staging_.memory);  // inout is read until the call is over
    SFT_ENSURE(bytes <= all_reduce_staging_.memory.size_bytes(), "set_staging() comes before the first reduction");
    const auto reduce_all = [=](const WindowCall::Site& site) {
      reduce_by_doubling(result, tensors_of(site, 0), inout.num_elements(), inout.dtype, op);
    };
    return push(
        all_reduce_staging_,
        std::make_unique<WindowCall>(window, "all_reduce", memory_of(inout), std::vector<WindowCall::Round>{reduce_all},
                                     [=] { std::memcpy(inout.data, result, bytes); }),
        stream);
  }
  // Rank r alone reads piece r of all ranks and writes its own; then all copy it from there.
  const Slice slice{memory_of(inout), bytes, piece_bytes_of(bytes, size)};
  const auto reduce_piece = [=](const WindowCall::Site& site) {
    const std::vector<const void*> parts = tensors_of(site, slice.piece(rank) - slice.begin);
    const std::int64_t count = num_elements(slice.bytes_of_piece(rank), inout.dtype);
    if (!is_rounded) return reduce(slice.piece(rank), parts, count, inout.dtype, op);
    auto* sums = reinterpret_cast<float*>(slice.piece(rank));
    sum_rounded(sums, parts, count, false);
    round_in_place(sums, count);
  };
  const auto copy_pieces = [=, this](const WindowCall::Site& site) {
    for (const int peer : peers_of(site.window.group())) {
      const std::size_t begin = slice.piece(peer) - slice.begin;
      work_->copy(slice.piece(peer), site.tensor(peer) + begin, slice.bytes_of_piece(peer));
    }
  };
  stream.push(std::make_unique<WindowCall>(window, "all_reduce", memory_of(inout),
                                           std::vector<WindowCall::Round>{reduce_piece, copy_pieces}));
}

void MpiCollectives::start(const Group& group, const AllGather& call, device::Stream& stream) {
  const Tensor full = call.full;
  const ConstTensor local = call.local;
  const std::size_t bytes = local.size_bytes();
  if (SharedWindow* window = window_of(group, MemoryUse::gathered, full); window != nullptr) {
    const auto write_own = [=, this](const WindowCall::Site& site) {
      for (int r = 0; r < group.size(); ++r) {
        SFT_ENSURE(site.tensor(r) == memory_of(full), "all ranks gather into the same memory");
      }
      std::byte* own = memory_of(full) + group.rank() * bytes;
      if (local.data != own) work_->copy(own, memory_of(local), bytes);
    };
    return stream.push(std::make_unique<WindowCall>(*window, "all_gather", memory_of(full),
                                                    std::vector<WindowCall::Round>{write_own}));
  }
  if (const NodeWindow* of = node_window_of(group, MemoryUse::gathered, full); of != nullptr) {
    return stream.push(make_node_call(*of, call, *work_));
  }
  const auto place = [=](int r) { return memory_of(full) + r * bytes; };
  const auto post = [=, this](Transfers& transfers) {
    for (const int peer : peers_of(group)) transfers.receive(place(peer), bytes, peer);
    for (const int peer : peers_of(group)) transfers.send(local.data, bytes, peer);
    if (local.data != place(group.rank())) work_->copy(place(group.rank()), memory_of(local), bytes);
  };
  stream.push(std::make_unique<Steps>(group, "all_gather", std::vector<Steps::Step>{post}));
}

void MpiCollectives::start(const Group& group, const ReduceScatterAdd& call, device::Stream& stream) {
  const Tensor local = call.local;
  const Tensor full = call.full;
  const std::size_t bytes = local.size_bytes();
  const bool is_rounded = !call.wire.empty() && group.size() > 1;
  if (SharedWindow* window = window_of(group, MemoryUse::reduced, full); window != nullptr) {
    const auto add_pieces = [=](const WindowCall::Site& site) {
      const std::vector<const void*> pieces = tensors_of(site, group.rank() * bytes);
      if (is_rounded) return sum_rounded(local.as<float>(), pieces, local.num_elements(), true);
      add_sum(local.as<float>(), pieces, local.num_elements());
    };
    return stream.push(std::make_unique<WindowCall>(*window, "reduce_scatter_add", memory_of(full),
                                                    std::vector<WindowCall::Round>{add_pieces}));
  }
  Staging& staging = reduce_scatter_staging_;
  if (const NodeWindow* of = node_window_of(group, MemoryUse::reduced, full); of != nullptr) {
    return push(staging, make_node_call(*of, call, staging.memory), stream);
  }
  std::vector<Steps::Step> steps;
  if (is_rounded) {
    steps.push_back(rounding(call.wire, full));
    append_scatter(steps, group, memory_of(call.wire), call.wire.size_bytes() / group.size(),
                   received_into(staging, group),
                   [=, this](std::size_t begin, std::size_t count, const Contributions& parts) {
                     work_->sum_bf16(local.as<float>() + num_elements(begin, DType::bf16), parts,
                                     num_elements(count, DType::bf16), true);
                   });
    return push(staging, std::make_unique<Steps>(group, "reduce_scatter_add", std::move(steps)), stream);
  }
  append_scatter(steps, group, memory_of(full), bytes, received_into(staging, group),
                 [=, this](std::size_t begin, std::size_t count, const Contributions& parts) {
                   work_->add_sum(reinterpret_cast<float*>(memory_of(local) + begin), parts,
                                  num_elements(count, DType::float32));
                 });
  push(staging, std::make_unique<Steps>(group, "reduce_scatter_add", std::move(steps)), stream);
}

void MpiCollectives::start(const Group& group, const ReduceScatter& call, device::Stream& stream) {
  const Tensor inout = call.inout;
  if (group.size() == 1) return;
  const std::size_t bytes = inout.size_bytes() / group.size();
  const std::size_t own_begin = group.rank() * bytes;
  std::byte* own = memory_of(inout) + own_begin;
  const bool is_rounded = !call.wire.empty();
  if (SharedWindow* window = window_of(group, MemoryUse::reduced, inout); window != nullptr) {
    // Rank r alone reads piece r of all ranks and writes its own.
    const auto reduce_piece = [=](const WindowCall::Site& site) {
      const std::vector<const void*> pieces = tensors_of(site, own_begin);
      const std::int64_t count = num_elements(bytes, inout.dtype);
      if (is_rounded) return sum_rounded(reinterpret_cast<float*>(own), pieces, count, false);
      reduce(own, pieces, count, inout.dtype, ReduceOp::sum);
    };
    return stream.push(std::make_unique<WindowCall>(*window, "reduce_scatter", memory_of(inout),
                                                    std::vector<WindowCall::Round>{reduce_piece}));
  }
  // That of all_reduce, whose first half this is: what units send into a reduce_scatter_add may be under way for long.
  Staging& staging = all_reduce_staging_;
  if (const NodeWindow* of = node_window_of(group, MemoryUse::reduced, inout); of != nullptr) {
    return push(staging, make_node_call(*of, call, staging.memory), stream);
  }
  std::vector<Steps::Step> steps;
  if (is_rounded) {
    steps.push_back(rounding(call.wire, inout));
    append_scatter(steps, group, memory_of(call.wire), call.wire.size_bytes() / group.size(),
                   received_into(staging, group),
                   [=, this](std::size_t begin, std::size_t count, const Contributions& parts) {
                     work_->sum_bf16(reinterpret_cast<float*>(own) + num_elements(begin, DType::bf16), parts,
                                     num_elements(count, DType::bf16), false);
                   });
    return push(staging, std::make_unique<Steps>(group, "reduce_scatter", std::move(steps)), stream);
  }
  append_scatter(steps, group, memory_of(inout), bytes, received_into(staging, group),
                 [=, this](std::size_t begin, std::size_t count, const Contributions& parts) {
                   work_->reduce(own + begin, parts, num_elements(count, inout.dtype), inout.dtype, ReduceOp::sum);
                 });
  push(staging, std::make_unique<Steps>(group, "reduce_scatter", std::move(steps)), stream);
}

void MpiCollectives::start(const Group& group, const Exchange& call, device::Stream& stream) {
  const Tensor send = call.send;
  const int to = call.to;
  const Tensor receive = call.receive;
  const int from = call.from;
  const auto post = [=](Transfers& transfers) {
    if (!receive.empty()) transfers.receive(receive.data, receive.size_bytes(), from);
    if (!send.empty()) transfers.send(send.data, send.size_bytes(), to);
  };
  stream.push(std::make_unique<Steps>(group, "exchange", std::vector<Steps::Step>{post}));
}

void MpiCollectives::start(const Group& group, const ExchangeAll& call, device::Stream& stream) {
  std::vector<Steps::Step> steps;
  steps.emplace_back([sends = std::vector<Message>(call.sends.begin(), call.sends.end()),
                      receives = std::vector<Message>(call.receives.begin(), call.receives.end())](Transfers& t) {
    for (const Message& m : receives) t.receive(m.tensor.data, m.tensor.size_bytes(), m.rank);
    for (const Message& m : sends) t.send(m.tensor.data, m.tensor.size_bytes(), m.rank);
  });
  stream.push(std::make_unique<Steps>(group, "exchange_all", std::move(steps)));
}

}  // namespace sft::comm
