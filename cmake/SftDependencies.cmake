# Debian 12 packages, see `make deps`.
set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(Boost 1.74 REQUIRED COMPONENTS program_options)
find_package(nlohmann_json 3.11 REQUIRED)

find_package(dnnl REQUIRED CONFIG)  # DNNL::dnnl

# The HDF5 built against Open MPI; its serial API is what we call.
set(HDF5_PREFER_PARALLEL ON)
enable_language(C)  # FindHDF5 asks the C compiler wrapper
find_package(HDF5 REQUIRED COMPONENTS C)
add_library(sft_hdf5 INTERFACE)
target_include_directories(sft_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(sft_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_CXX)

set(SFT_HAVE_CUDA OFF)
if(NOT SFT_CUDA STREQUAL "OFF")
  if(SFT_CUDA STREQUAL "ON")
    find_package(CUDAToolkit REQUIRED)
  else()
    find_package(CUDAToolkit QUIET)
  endif()
  find_path(NCCL_INCLUDE_DIR nccl.h HINTS ${CUDAToolkit_INCLUDE_DIRS} ENV NCCL_HOME PATH_SUFFIXES include)
  find_library(NCCL_LIBRARY nccl HINTS ${CUDAToolkit_LIBRARY_DIR} ENV NCCL_HOME PATH_SUFFIXES lib lib64)
  if(CUDAToolkit_FOUND AND NCCL_INCLUDE_DIR AND NCCL_LIBRARY)
    set(SFT_HAVE_CUDA ON)
    add_library(sft_nccl INTERFACE)
    target_include_directories(sft_nccl SYSTEM INTERFACE ${NCCL_INCLUDE_DIR})
    target_link_libraries(sft_nccl INTERFACE ${NCCL_LIBRARY} CUDA::cudart)
  elseif(SFT_CUDA STREQUAL "ON")
    message(FATAL_ERROR "SFT_CUDA=ON needs NCCL (nccl.h and libnccl not found): install it or set NCCL_HOME")
  endif()
endif()
message(STATUS "sft: CUDA and NCCL ${SFT_HAVE_CUDA}")
