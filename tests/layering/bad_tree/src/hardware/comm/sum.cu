// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/launch.cuh"
#include "ops/cuda/vector.cuh"  // refused
