// SPDX-License-Identifier: Apache-2.0
#pragma once
// The machine of a rank, as plans see it: what is computed on, and what processes take of memory beside the arenas.

#include <cstddef>

#include "sft/comm/collectives.hpp"
#include "sft/config/config.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/device/kind.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::rank {

/// What a rank computes on, as far as sizes depend on it.
struct Machine {
  device::Kind kind = device::Kind::cpu;
  int num_threads = 1;              ///< OpenMP threads of the rank; machine/node.hpp says how many there will be
  std::size_t huge_page_bytes = 0;  ///< machine::unasked_huge_page_bytes
  /// What CUDA, its libraries and other programs hold of a GPU beside the rank's arenas, or will.
  std::size_t gpu_process_bytes = 0;
  /// What the ranks of a node share of its memory beside the arenas: it is the first one's.
  std::size_t node_shared_bytes = 0;
  bool is_first_of_node = true;
  [[nodiscard]] std::size_t first_rank_bytes() const { return is_first_of_node ? node_shared_bytes : 0; }
};

/// What every process takes after its start on top of its arenas and of what its products need (ops::products_bytes):
/// pages of code in the first step, the heap, HDF5 and the staging memory of a checkpoint.
inline constexpr std::size_t later_process_bytes = std::size_t{1280} << 10;

/// What a rank takes beside that for each rank of tp, of several, with which it sums or gathers many times a step:
/// measured (tests/tools/benchmarks/plan_memory.py).
inline constexpr std::size_t later_bytes_of_tp_rank = std::size_t{64} << 10;

/// How many pages of Machine::huge_page_bytes a process takes beyond the memory it uses: the heap may have one, and one
/// the memory that a library takes at once. Measured: none, one or two, by chance.
inline constexpr std::size_t most_huge_pages = 2;

/// What a GPU takes after the start on top of the arenas: kernels of this program and of its libraries, which CUDA
/// loads at their first use. An assumption: on an H200 these and the context took 541 MiB together
/// (docs/benchmarks/2026-11-26-h200.md), of the 768 that are planned where no NCCL is.
inline constexpr std::size_t later_gpu_bytes = std::size_t{256} << 20;

/// The kernels of attention that GPUs run for this model, as [device] attention says. Pure.
[[nodiscard]] inline ops::AttentionKernels attention_kernels(const config::Device& device, const config::Model& model) {
  using config::AttentionChoice;
  if (device.attention == AttentionChoice::automatic) return ops::AttentionKernels::own;
  constexpr auto kernels_of = [](AttentionChoice choice) {
    return static_cast<ops::AttentionKernels>(static_cast<int>(choice) - static_cast<int>(AttentionChoice::own));
  };
  static_assert(kernels_of(AttentionChoice::cudnn_unordered) == ops::AttentionKernels::cudnn_unordered);
  return ops::kernels_of_model(kernels_of(device.attention), model.head_dim, model.attention_sinks);
}

/// How tensors of ranks that compute on `kind` travel, as [device] comm says. Pure.
[[nodiscard]] inline comm::Transport::Way way_of(config::CommChoice comm, device::Kind kind) {
  using Way = comm::Transport::Way;
  if (kind == device::Kind::cpu) return Way::direct;
  if (comm == config::CommChoice::host) return Way::host_copy;
  return comm == config::CommChoice::mpi ? Way::cuda_mpi : Way::direct;
}

/// Who shares what, beside the mesh. Where NCCL sends, gathers run beside sums: a communicator does one thing at a
/// time. Pure.
[[nodiscard]] mesh::Sharing sharing_of(const config::ValidConfig& config, device::Kind kind);

/// Machine::gpu_process_bytes of a GPU that is not there: what the CUDA runtime and cuBLAS, and NCCL for each group
/// that sends tensors, hold when training starts, as assumed. A run measures it (Device::own_memory). Pure.
[[nodiscard]] std::size_t assumed_gpu_process_bytes(const config::ValidConfig& config);

}  // namespace sft::rank
