// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which GPU a rank takes: what each rank of a node sees of them, and the rule by which they are dealt. The rule is
// pure; who knows the ranks of a node gathers what they see (as text) and asks it.

#include <array>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::machine {

/// "GPU-1a2b3c4d-...": as nvidia-smi writes the 16 bytes of a GPU's UUID.
[[nodiscard]] std::string uuid_text(const std::array<unsigned char, 16>& bytes);

/// A GPU as one process sees it.
struct Gpu {
  std::string uuid;            ///< uuid_text, the same for all processes that see this GPU
  int compute_capability = 0;  ///< 10 * major + minor
  std::size_t memory_bytes = 0;
  std::string name;
};

/// The least compute capability that the kernels are made for (bf16 tensor cores, asynchronous copies).
inline constexpr int least_compute_capability = 80;

/// What one process sees, in CUDA's order.
struct VisibleGpus {
  std::vector<Gpu> gpus;
  std::string problem;  ///< why there are none; empty where there are some
  bool is_broken =
      false;  ///< there are none though the node has some: the problem is to be mended, such as an old driver
};

/// Sets variables that CUDA reads once, at its first call, unless the user has: every way to a GPU begins with it. In
/// builds with CUDA.
void set_cuda_environment();

/// What this process sees. Takes no GPU and makes no context. Never throws: without a driver, or in a build without
/// CUDA, there are none, and the problem says so. Calls set_cuda_environment().
[[nodiscard]] VisibleGpus visible_gpus();

/// The clock of a GPU's multiprocessors at this moment.
struct GpuClock {
  double now_hz = 0, most_hz = 0;
  std::string held_by;  ///< "its power limit, its temperature": what keeps it from rising; empty: nothing
};
/// What the driver tells of the GPU with this uuid through `library` (NVML); none where there is no such library, or it
/// does not know the GPU.
[[nodiscard]] std::optional<GpuClock> gpu_clock(const std::string& uuid,
                                                const std::string& library = "libnvidia-ml.so.1");

/// For the way to other ranks: from_text(to_text(x)) is x. Throws std::logic_error for other text.
[[nodiscard]] std::string to_text(const VisibleGpus& visible);
[[nodiscard]] VisibleGpus from_text(const std::string& text);

/// What a rank of a node gets.
struct DealtGpu {
  int index = 0;                 ///< in this rank's own order
  int num_sharing = 1;           ///< ranks of the node that got the same GPU, this one included
  int compute_capability = 0;    ///< Gpu::compute_capability
  std::optional<Error> refusal;  ///< of the configuration: there is none for this rank
};

/// Deals GPUs to the ranks of a node, in rank order, each seeing `seen[rank]`: a rank takes the first GPU of its own
/// order that can run the kernels and that no rank before it took. So local rank r gets GPU r where all see the same
/// ones, and its only one where each sees another. With `may_share` a rank for which none is left takes the one that
/// the fewest have. Pure; all ranks of a node get the same answer.
[[nodiscard]] std::vector<DealtGpu> deal_gpus(const std::vector<VisibleGpus>& seen, bool may_share);

}  // namespace sft::machine
