// SPDX-License-Identifier: Apache-2.0
#if SFT_HAVE_CUDA
#include "ops/cuda/backend.hpp"
#endif
#include "sft/ops/factory.hpp"
