// SPDX-License-Identifier: Apache-2.0
#pragma once
// A collective on tensors as a value: what it is asked to do, without the group and the stream. Whoever stands in front
// of collectives (times them, counts them, watches them) is then one function over a Call. Pure.

#include <cstddef>
#include <cstdint>
#include <span>
#include <variant>

#include "sft/comm/group.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::comm {

enum class ReduceOp { sum, max };

/// A tensor to or from a rank of a group.
struct Message {
  Tensor tensor;
  int rank;
};

// Sums of float32 may travel as bf16: `wire` then is contiguous bf16 memory of the call's own, as long as the tensor
// that is summed. What the ranks have is rounded to bf16, and of those numbers the sum is made: in float32 and in rank
// order by MPI, in bf16 from hop to hop by NCCL. In a group of one rank nothing is rounded.

/// inout = reduction over the group. float32 or float64 (sum, max); contiguous. With `wire` a sum, rounded once more.
struct AllReduce {
  Tensor inout;
  ReduceOp op;
  Tensor wire = {};
};

/// full (size * n) = every rank's local (n) in rank order; any dtype, the same in both; contiguous. local may be its
/// own place in full.
struct AllGather {
  Tensor full;
  ConstTensor local;
};

/// local (n) += sum over ranks of piece `rank` of full (size * n); float32, contiguous. full is left undefined.
struct ReduceScatterAdd {
  Tensor local, full;
  Tensor wire = {};
};

/// Piece `rank` of inout (size * n) = sum of that piece over the group; the other pieces are left undefined. float32
/// or float64; contiguous. With an all-gather of the pieces behind it, an all-reduce.
struct ReduceScatter {
  Tensor inout;
  Tensor wire = {};
};

/// Sends `send` to rank `to` and receives `receive` from rank `from`; either may be empty (not sent, not received). Any
/// dtype, contiguous; what is received is as long as what its sender sends.
struct Exchange {
  Tensor send;
  int to;
  Tensor receive;
  int from;
};

/// Sends each of `sends` to its rank, and receives each of `receives` from its rank, all at the same time: an
/// all-to-all among any ranks of the group. Any dtype, contiguous, not empty; none to or from this rank itself. Of two
/// ranks the one receives as many messages as the other sends it, in the same order and of the same lengths. Every rank
/// of the group calls it, also with nothing to send or receive. The messages are read before the call returns.
struct ExchangeAll {
  std::span<const Message> sends, receives;
};

using Call = std::variant<AllReduce, AllGather, ReduceScatterAdd, ReduceScatter, Exchange, ExchangeAll>;

/// The name of the function of Collectives that makes the call: "all_reduce".
[[nodiscard]] const char* name_of(const Call& call);

/// Bytes of the tensors that the call is about, as they travel: for what is shown of it.
[[nodiscard]] std::size_t bytes_of(const Call& call);

/// Bytes that this rank must send to other ranks: for an all-gather its part to each of them, for a reduce-scatter a
/// part to each of them, for an all-reduce both.
[[nodiscard]] std::int64_t bytes_to_send(const Call& call, const Group& group);

/// Throws std::logic_error where the tensors are not as the struct of the call says, as far as one rank can see it.
void require_valid(const Call& call, const Group& group);

}  // namespace sft::comm
