// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/call.hpp"

#include "sft/core/ensure.hpp"

namespace sft::comm {

namespace {

// What is asked of a call, for each kind of it.
struct Name {
  const char* operator()(const AllReduce&) const { return "all_reduce"; }
  const char* operator()(const AllGather&) const { return "all_gather"; }
  const char* operator()(const ReduceScatterAdd&) const { return "reduce_scatter_add"; }
  const char* operator()(const ReduceScatter&) const { return "reduce_scatter"; }
  const char* operator()(const Exchange&) const { return "exchange"; }
  const char* operator()(const ExchangeAll&) const { return "exchange_all"; }
};

std::size_t sum_of_bytes(std::span<const Message> messages) {
  std::size_t bytes = 0;
  for (const Message& message : messages) bytes += message.tensor.size_bytes();
  return bytes;
}

/// Bytes of `summed` as they travel.
std::size_t bytes_on(const Tensor& wire, const Tensor& summed) {
  return wire.empty() ? summed.size_bytes() : wire.size_bytes();
}

struct Bytes {
  std::size_t operator()(const AllReduce& call) const { return bytes_on(call.wire, call.inout); }
  std::size_t operator()(const AllGather& call) const { return call.full.size_bytes(); }
  std::size_t operator()(const ReduceScatterAdd& call) const { return bytes_on(call.wire, call.full); }
  std::size_t operator()(const ReduceScatter& call) const { return bytes_on(call.wire, call.inout); }
  std::size_t operator()(const Exchange& call) const { return call.send.size_bytes() + call.receive.size_bytes(); }
  std::size_t operator()(const ExchangeAll& call) const {
    return sum_of_bytes(call.sends) + sum_of_bytes(call.receives);
  }
};

struct BytesToSend {
  int rank, size;  ///< of the group

  std::size_t operator()(const AllReduce& call) const {
    return 2 * bytes_on(call.wire, call.inout) * (size - 1) / size;
  }
  std::size_t operator()(const AllGather& call) const { return call.local.size_bytes() * (size - 1); }
  std::size_t operator()(const ReduceScatterAdd& call) const {
    return bytes_on(call.wire, call.full) * (size - 1) / size;
  }
  std::size_t operator()(const ReduceScatter& call) const {
    return bytes_on(call.wire, call.inout) * (size - 1) / size;
  }
  std::size_t operator()(const Exchange& call) const { return call.to == rank ? 0 : call.send.size_bytes(); }
  std::size_t operator()(const ExchangeAll& call) const { return sum_of_bytes(call.sends); }
};

struct Require {
  const Group& group;

  static void require_wire(const Tensor& wire, const Tensor& summed) {
    if (wire.empty()) return;
    SFT_ENSURE(wire.is_contiguous() && wire.dtype == DType::bf16 && summed.dtype == DType::float32 &&
                   wire.num_elements() == summed.num_elements(),
               "float32 travels as bf16 in memory of as many elements");
  }

  void operator()(const AllReduce& call) const {
    SFT_ENSURE(call.inout.is_contiguous(), "all_reduce of a contiguous tensor");
    SFT_ENSURE(call.wire.empty() || call.op == ReduceOp::sum, "maxima travel as they are");
    require_wire(call.wire, call.inout);
  }
  void operator()(const AllGather& call) const {
    SFT_ENSURE(call.full.is_contiguous() && call.local.is_contiguous(), "all_gather of contiguous tensors");
    SFT_ENSURE(
        call.full.dtype == call.local.dtype && call.full.num_elements() == call.local.num_elements() * group.size(),
        "all_gather into size times the elements");
  }
  void operator()(const ReduceScatterAdd& call) const {
    SFT_ENSURE(call.full.is_contiguous() && call.local.is_contiguous() && call.full.dtype == DType::float32 &&
                   call.local.dtype == DType::float32,
               "reduce_scatter_add of contiguous float32 tensors");
    SFT_ENSURE(call.full.num_elements() == call.local.num_elements() * group.size(),
               "reduce_scatter_add from size times the elements");
    require_wire(call.wire, call.full);
  }
  void operator()(const ReduceScatter& call) const {
    SFT_ENSURE(call.inout.is_contiguous(), "reduce_scatter of a contiguous tensor");
    SFT_ENSURE(call.inout.num_elements() % group.size() == 0, "reduce_scatter of size times the elements of a piece");
    require_wire(call.wire, call.inout);
  }
  void operator()(const Exchange& call) const {
    SFT_ENSURE(call.send.is_contiguous() && call.receive.is_contiguous(), "exchange of contiguous tensors");
  }
  void operator()(const ExchangeAll& call) const {
    for (const std::span<const Message> messages : {call.sends, call.receives}) {
      for (const Message& message : messages) {
        SFT_ENSURE(message.tensor.is_contiguous() && !message.tensor.empty() && message.rank != group.rank(),
                   "exchange_all of contiguous tensors with other ranks");
      }
    }
  }
};

}  // namespace

const char* name_of(const Call& call) { return std::visit(Name{}, call); }

std::size_t bytes_of(const Call& call) { return std::visit(Bytes{}, call); }

std::int64_t bytes_to_send(const Call& call, const Group& group) {
  const BytesToSend of{group.rank(), group.size()};
  return static_cast<std::int64_t>(std::visit(of, call));
}

void require_valid(const Call& call, const Group& group) { std::visit(Require{group}, call); }

}  // namespace sft::comm
