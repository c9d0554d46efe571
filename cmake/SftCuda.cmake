# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit with its compiler, and NCCL: both or neither. Sets SFT_HAVE_CUDA and makes sft_nccl.
set(SFT_HAVE_CUDA OFF)
if(NOT SFT_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
  if(CUDAToolkit_NVCC_EXECUTABLE AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(SFT_HAVE_CUDA ON)
  elseif(SFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SFT_CUDA=ON needs the CUDA toolkit (nvcc: ${CUDAToolkit_NVCC_EXECUTABLE}) and NCCL "
                        "(nccl.h: ${NCCL_INCLUDE_DIR}, libnccl: ${NCCL_LIBRARY}): install what is missing, or set "
                        "CUDAToolkit_ROOT and NCCL_HOME")
  endif()
endif()
if(SFT_HAVE_CUDA)
  set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
  set(CMAKE_CUDA_RUNTIME_LIBRARY Shared)
  set(CMAKE_CUDA_STANDARD 17)  # CMake 3.25 knows no flag for C++20 here
  if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
    set(CMAKE_CUDA_ARCHITECTURES all-major)
  endif()
  enable_language(CUDA)
  add_library(sft_nccl INTERFACE)
  target_include_directories(sft_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
  target_link_libraries(sft_nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
endif()
message(STATUS "sft: CUDA and NCCL ${SFT_HAVE_CUDA}")
