// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <mpi.h>           // refused
#include <hdf5.h>          // refused
#include <nccl.h>          // refused
#include <cuda_runtime.h>  // refused

#include "sft/tensor/tensor.hpp"
