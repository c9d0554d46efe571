// SPDX-License-Identifier: Apache-2.0
// The CUDA side of programs that run on no GPU, and of builds without CUDA: there is none.
#include "ops/backends.hpp"
#include "sft/core/error.hpp"
#include "sft/ops/attention_graphs.hpp"

namespace sft::ops {

namespace {

[[noreturn]] void refuse() {
  throw_config_error("[device] backend = cuda cannot compute", "this program has no CUDA kernels",
                     "run sft of a build that found the CUDA toolkit and NCCL (-DSFT_CUDA=ON), or set [device] "
                     "backend = cpu");
}

}  // namespace

bool is_built(device::Kind kind) { return kind == device::Kind::cpu; }

void require_built(device::Kind kind) {
  if (!is_built(kind)) refuse();
}

AttentionLibrary find_attention_library() { return {.problem = "this program has no CUDA kernels"}; }

std::string matmul_library(const device::Device& /*device*/) { refuse(); }
void require_fp8_tiles() { refuse(); }
MatmulTuning tune_matmul(device::Device& /*device*/, const ListedProducts& /*products*/,
                         const MatmulAlgorithms& /*known*/) {
  refuse();
}

std::unique_ptr<Backend> make_attention_list(device::Stream& /*stream*/, AttentionKernels /*kernels*/) { refuse(); }
std::vector<AttentionGraph> listed_attention(const Backend& /*list*/) { return {}; }
std::string kinds_of_attention(const std::vector<sequence::AttentionSpan>& /*spans*/, std::int64_t /*num_queries*/,
                               std::int64_t /*num_keys*/) {
  return {};
}
std::vector<StoredAttention> store_attention(const std::vector<AttentionGraph>& /*graphs*/, const AbsentGpu& /*gpu*/,
                                             int /*num_threads*/) {
  refuse();
}
std::string attention_folder() { return {}; }

namespace cuda {

std::unique_ptr<Backend> make_backend(device::Stream& /*stream*/, AttentionKernels /*attention*/,
                                      const MatmulAlgorithms* /*algorithms*/) {
  refuse();
}
std::unique_ptr<Backend> make_step_backend(device::Stream& /*stream*/) { refuse(); }

}  // namespace cuda
}  // namespace sft::ops
