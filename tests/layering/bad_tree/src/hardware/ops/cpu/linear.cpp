// SPDX-License-Identifier: Apache-2.0
#include <cuda_runtime.h>

#include "linear.hpp"
#include "ops/cpu/tile.hpp"
#include "sft/comm/group.hpp"  // sideways: refused
#include "sft/mesh/mesh.hpp"   // upward: refused
#include "../mesh/layout.hpp"  // refused
#include "sft/core/error.hpp"
#include "sft/tensor/tensor.hpp"
#ifdef SFT_HAVE_CUDA  // refused
#endif
#if defined(__AVX512F__)
#endif
void run(sft::device::Stream& stream);
