#include <cuda_runtime.h>

#include "linear.hpp"
#include "ops/cpu/tile.hpp"
#include "sft/comm/group.hpp"  // sideways: refused
#include "sft/mesh/mesh.hpp"   // upward: refused
#include "../mesh/layout.hpp"  // refused
#ifdef SFT_HAVE_CUDA  // refused
#endif
#if defined(__AVX512F__)
#endif
