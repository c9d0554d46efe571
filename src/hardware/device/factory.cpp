// SPDX-License-Identifier: Apache-2.0
#include "sft/device/factory.hpp"

#include <stdexcept>

#include "cpu_device.hpp"
#include "sft/core/error.hpp"
#include "sft/machine/node.hpp"
#if SFT_HAVE_CUDA
#include "cuda_device.hpp"
#endif

namespace sft::device {

bool is_built([[maybe_unused]] Kind kind) {
#if SFT_HAVE_CUDA
  return true;
#else
  return kind == Kind::cpu;
#endif
}

OwnGpu own_gpu() {
#if SFT_HAVE_CUDA
  return own_cuda_gpu();
#else
  throw std::logic_error("a build without CUDA has taken no GPU");
#endif
}

std::unique_ptr<Device> make_device(Kind kind, const NodeShare& share) {
  machine::set_num_threads(share.num_local_ranks);
  if (kind == Kind::cpu) return std::make_unique<CpuDevice>(machine::ranks_share_cores(share.num_local_ranks));
#if SFT_HAVE_CUDA
  return std::make_unique<CudaDevice>(share.gpu, share.num_sharing);
#else
  throw_config_error("no CUDA device", "this program was built without CUDA and NCCL",
                     "install both and build again with -DSFT_CUDA=ON, or set backend = cpu");
#endif
}

std::unique_ptr<Device> make_host_device() { return std::make_unique<CpuDevice>(/*ranks_share_cores=*/true); }

std::unique_ptr<Device> make_null_device() { return std::make_unique<NullDevice>(); }

}  // namespace sft::device
