// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/gpus.hpp"
#if SFT_HAVE_CUDA
#include "cuda_gpus.hpp"
#endif

namespace sft::machine {

VisibleGpus visible_gpus() {
#if SFT_HAVE_CUDA
  return visible_cuda_gpus();
#else
  return {{}, "this program was built without CUDA and NCCL"};
#endif
}

}  // namespace sft::machine
