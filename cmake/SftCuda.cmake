# SPDX-License-Identifier: Apache-2.0
# The CUDA toolkit with its compiler, and NCCL: both or neither. Sets SFT_HAVE_CUDA and makes sft_cudart, sft_cublas,
# sft_cublaslt and sft_nccl, and the function sft_cuda_kernels.
set(SFT_HAVE_CUDA OFF)
if(NOT SFT_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit QUIET)
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
  find_path(NVTX_INCLUDE_DIR nvtx3/nvToolsExt.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(CUDAToolkit_NVCC_EXECUTABLE AND CUDAToolkit_VERSION VERSION_GREATER_EQUAL 12 AND NVTX_INCLUDE_DIR
     AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(SFT_HAVE_CUDA ON)
  elseif(SFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SFT_CUDA=ON needs the CUDA toolkit 12 or 13 (nvcc: ${CUDAToolkit_NVCC_EXECUTABLE}, version: "
                        "${CUDAToolkit_VERSION}, NVTX: ${NVTX_INCLUDE_DIR}) and NCCL (nccl.h: ${NCCL_INCLUDE_DIR}, "
                        "libnccl: ${NCCL_LIBRARY}): install what is missing, or set CUDAToolkit_ROOT and NCCL_HOME")
  endif()
endif()
message(STATUS "sft: CUDA and NCCL ${SFT_HAVE_CUDA}")
if(NOT SFT_HAVE_CUDA)
  return()
endif()

set(CMAKE_CUDA_COMPILER ${CUDAToolkit_NVCC_EXECUTABLE})
set(CMAKE_CUDA_RUNTIME_LIBRARY Static)
# Most of the time goes into the kernels of each architecture: a build for this machine makes those of one.
set(SFT_CUDA_ARCHS "one" CACHE STRING "GPUs to compile for: one (this machine's, else the A100 and, translated by the \
driver, whatever is newer), all, or a list as in CMAKE_CUDA_ARCHITECTURES")
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  if(SFT_CUDA_ARCHS STREQUAL "all")
    # A100, H100 with all it has, B200, RTX 50, whatever comes later
    set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real 120-real 90-virtual)
  elseif(NOT SFT_CUDA_ARCHS STREQUAL "one")
    set(CMAKE_CUDA_ARCHITECTURES ${SFT_CUDA_ARCHS})
  elseif(EXISTS /dev/nvidia0)
    set(CMAKE_CUDA_ARCHITECTURES native)
  else()
    set(CMAKE_CUDA_ARCHITECTURES 80)
  endif()
endif()
message(STATUS "sft: kernels for GPUs of architecture ${CMAKE_CUDA_ARCHITECTURES}")
enable_language(CUDA)
if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake 3.25 does not know it
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
set(CMAKE_CUDA_STANDARD 20)
set(CMAKE_CUDA_STANDARD_REQUIRED ON)

# sft_gpu_library(NAME REAL EMULATED): what NAME links is REAL, but EMULATED in programs with the property SFT_EMULATED.
# So the host's objects of a room are the same in sft and in a test that has no GPU (tests/emulation).
function(sft_gpu_library name real emulated)
  add_library(${name} INTERFACE)
  target_link_libraries(${name} INTERFACE
    "$<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:SFT_EMULATED>>,${emulated},${real}>>" "$<INSTALL_INTERFACE:${real}>")
  install(TARGETS ${name} EXPORT sft COMPONENT development EXCLUDE_FROM_ALL)
endfunction()

# sft_on_demand_library(NAME SOURCE FILE_MACRO FILE): a library of SOURCE, whose functions load the real library at their
# first call: from where the system finds it, else from where it lay at build time, FILE.
function(sft_on_demand_library name source file_macro file)
  add_library(${name} STATIC ${source})
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/include)
  target_include_directories(${name} SYSTEM PRIVATE ${CUDAToolkit_INCLUDE_DIRS} ${NCCL_INCLUDE_DIR})
  target_compile_definitions(${name} PRIVATE ${file_macro}="${file}")
  target_link_libraries(${name} PUBLIC sft_core PRIVATE $<BUILD_INTERFACE:sft_flags> fmt::fmt)
  string(REPLACE "sft_" "" exported ${name})
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${exported})
  install(TARGETS ${name} EXPORT sft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development EXCLUDE_FROM_ALL)
endfunction()
sft_on_demand_library(sft_cublas_on_demand ${CMAKE_SOURCE_DIR}/src/hardware/ops/cuda/cublas_on_demand.cpp SFT_CUBLAS_FILE
                      ${CUDA_cublas_LIBRARY})
target_include_directories(sft_cublas_on_demand PRIVATE ${CMAKE_SOURCE_DIR}/src/hardware)
sft_on_demand_library(sft_cublaslt_on_demand ${CMAKE_SOURCE_DIR}/src/hardware/ops/cuda/cublaslt_on_demand.cpp SFT_CUBLASLT_FILE
                      ${CUDA_cublasLt_LIBRARY})
sft_on_demand_library(sft_nccl_on_demand ${CMAKE_SOURCE_DIR}/src/hardware/comm/nccl/nccl_on_demand.cpp SFT_NCCL_FILE ${NCCL_LIBRARY})

# cuDNN, whose attention device.attention = cudnn takes: its own headers (NVIDIA's libcudnn9-dev, or next to CUDA's) and
# those of its frontend (`make cudnn-frontend`, or `pip install nvidia-cudnn-frontend`). A program loads the library when it is asked for it.
set(SFT_HAVE_CUDNN OFF)
if(NOT SFT_CUDNN STREQUAL "OFF")
  find_path(CUDNN_INCLUDE_DIR cudnn.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV CUDNN_HOME PATH_SUFFIXES include)
  file(GLOB cudnn_frontend_hints LIST_DIRECTORIES true ${CMAKE_SOURCE_DIR}/build/cudnn-frontend /usr/lib/python3/dist-packages
       /usr/local/lib/python3*/site-packages /usr/local/lib/python3*/dist-packages $ENV{VIRTUAL_ENV}/lib/python3*/site-packages)
  find_path(CUDNN_FRONTEND_INCLUDE_DIR cudnn_frontend.h HINTS ENV CUDNN_FRONTEND_HOME ${cudnn_frontend_hints} PATH_SUFFIXES include)
  find_path(NVRTC_INCLUDE_DIR nvrtc.h HINTS ${CUDAToolkit_INCLUDE_DIRS})
  if(CUDNN_INCLUDE_DIR AND CUDNN_FRONTEND_INCLUDE_DIR AND NVRTC_INCLUDE_DIR)
    set(SFT_HAVE_CUDNN ON)
  elseif(SFT_CUDNN STREQUAL "ON")
    message(FATAL_ERROR "SFT_CUDNN=ON needs cuDNN 9 (cudnn.h: ${CUDNN_INCLUDE_DIR}), the headers of its frontend "
                        "(cudnn_frontend.h: ${CUDNN_FRONTEND_INCLUDE_DIR}) and NVRTC's (nvrtc.h: ${NVRTC_INCLUDE_DIR}): "
                        "install what is missing, for the second `make cudnn-frontend`, or set CUDNN_HOME and CUDNN_FRONTEND_HOME")
  endif()
endif()
message(STATUS "sft: attention of cuDNN ${SFT_HAVE_CUDNN}")
if(SFT_HAVE_CUDNN)
  find_library(CUDNN_LIBRARY NAMES cudnn libcudnn.so.9 HINTS ${CUDAToolkit_LIBRARY_DIR} ENV CUDNN_HOME PATH_SUFFIXES lib lib64)
  set(cudnn_file ${CUDNN_LIBRARY})
  if(NOT cudnn_file)
    set(cudnn_file libcudnn.so)
  endif()
  sft_on_demand_library(sft_cudnn_on_demand ${CMAKE_SOURCE_DIR}/src/hardware/ops/cuda/cudnn/cudnn_on_demand.cpp SFT_CUDNN_FILE ${cudnn_file})
  target_include_directories(sft_cudnn_on_demand SYSTEM PRIVATE ${CUDNN_INCLUDE_DIR})
  sft_gpu_library(sft_cudnn sft_cudnn_on_demand emulated_cudnn)
endif()

sft_gpu_library(sft_cudart CUDA::cudart_static emulated_cudart)
sft_gpu_library(sft_cublas sft_cublas_on_demand sft_emulated_cublas)
sft_gpu_library(sft_cublaslt sft_cublaslt_on_demand emulated_cublaslt)
sft_gpu_library(sft_nccl sft_nccl_on_demand emulated_nccl)
target_include_directories(sft_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
target_link_libraries(sft_nccl INTERFACE sft_cudart)

# sft_cuda_kernels(ROOM SOURCES file.cu...): library sft_ROOM_kernels_cuda, linked to sft_ROOM_gpu. Sources with a name such as
# X_sm90_Y.cu are compiled for GPUs of compute capability 9.0 and no others, in every build; those of sm80 are for all. ptxas' report of every
# source is kept next to its object, as OBJECT.ptxas (tests/emulation/resources). The property SFT_KERNEL_SOURCES has all
# sources.
function(sft_cuda_kernels room)
  cmake_parse_arguments(KERNELS "" "" "SOURCES" ${ARGN})
  set(name sft_${room}_kernels_cuda)
  set(targets ${name})
  set(sources_of_all ${KERNELS_SOURCES})
  list(FILTER sources_of_all EXCLUDE REGEX "_sm(9|1)[0-9]+_")
  add_library(${name} STATIC ${sources_of_all})
  foreach(source ${KERNELS_SOURCES})
    if(NOT source MATCHES "_sm((9|1)[0-9]+)_")
      continue()
    endif()
    set(of_one ${name}_${CMAKE_MATCH_1})
    if(TARGET ${of_one})
      target_sources(${of_one} PRIVATE ${source})
      continue()
    endif()
    list(APPEND targets ${of_one})
    add_library(${of_one} OBJECT ${source})
    set_target_properties(${of_one} PROPERTIES CUDA_ARCHITECTURES ${CMAKE_MATCH_1}a-real)
    target_sources(${name} PRIVATE $<TARGET_OBJECTS:${of_one}>)
  endforeach()
  set(launcher ${CMAKE_SOURCE_DIR}/cmake/keep_ptxas_report.sh ${CMAKE_CUDA_COMPILER_LAUNCHER})
  foreach(target ${targets})
    target_include_directories(${target} PRIVATE ${CMAKE_SOURCE_DIR}/src/hardware ${CMAKE_SOURCE_DIR}/include)
    target_compile_options(${target} PRIVATE -lineinfo -Xptxas=-v -Xcompiler=-Wall,-Wextra,-Wshadow --expt-relaxed-constexpr)
    # A fifth of the bytes, in the same time of compilation; programs carry the kernels of all GPUs.
    if(CUDAToolkit_VERSION VERSION_GREATER_EQUAL 13)
      target_compile_options(${target} PRIVATE --compress-mode=size)
    endif()
    if(SFT_WERROR)
      target_compile_options(${target} PRIVATE -Werror=all-warnings -Xcompiler=-Werror)
    endif()
    set_target_properties(${target} PROPERTIES CUDA_COMPILER_LAUNCHER "${launcher}")
    target_link_libraries(${target} PRIVATE sft_cudart)
  endforeach()
  set_target_properties(${name} PROPERTIES EXPORT_NAME ${room}_kernels_cuda
    SFT_KERNEL_SOURCES "${KERNELS_SOURCES}" SFT_KERNEL_TARGETS "${targets}")
  install(TARGETS ${name} EXPORT sft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development EXCLUDE_FROM_ALL)
  # A build of the room for an emulated program need not wait for nvcc.
  set_target_properties(sft_${room} sft_${room}_gpu PROPERTIES OPTIMIZE_DEPENDENCIES ON)
  target_link_libraries(sft_${room}_gpu PRIVATE
    "$<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:SFT_EMULATED>>,sft_${room}_kernels_emulated,${name}>>"
    "$<INSTALL_INTERFACE:${name}>")
endfunction()
