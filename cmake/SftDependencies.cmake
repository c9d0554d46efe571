# SPDX-License-Identifier: Apache-2.0
# Debian 12 packages, see `make deps`.
set(SFT_BOOST_VERSION 1.74)
set(SFT_JSON_VERSION 3.11)

set(MPI_CXX_SKIP_MPICXX ON)
find_package(MPI REQUIRED COMPONENTS CXX)
find_package(OpenMP REQUIRED COMPONENTS CXX)
find_package(Threads REQUIRED)
find_package(ZLIB REQUIRED)  # CRC-32; Debian's HDF5 brings it
find_package(Boost ${SFT_BOOST_VERSION} REQUIRED COMPONENTS program_options)
find_package(nlohmann_json ${SFT_JSON_VERSION} REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)  # Unicode in tokenizers and chat templates
find_package(fmt 9 REQUIRED)              # texts of messages
find_package(yaml-cpp 0.7 REQUIRED)       # files of Accelerate, DeepSpeed, TRL and Axolotl
add_library(sft_yaml INTERFACE)
target_include_directories(sft_yaml SYSTEM INTERFACE ${YAML_CPP_INCLUDE_DIR})
target_link_libraries(sft_yaml INTERFACE yaml-cpp)

find_package(dnnl REQUIRED CONFIG)  # DNNL::dnnl
if(dnnl_VERSION VERSION_LESS 2.6 OR dnnl_VERSION VERSION_GREATER_EQUAL 4)
  message(FATAL_ERROR "oneDNN ${dnnl_VERSION} has another interface than 2.6 to 3.x: install one of those (Debian: "
                      "libdnnl-dev) or point CMAKE_PREFIX_PATH at it")
endif()

# The HDF5 built against Open MPI; its serial API is what we call.
set(HDF5_PREFER_PARALLEL ON)
enable_language(C)  # FindHDF5 asks the C compiler wrapper
find_package(HDF5 REQUIRED COMPONENTS C)
add_library(sft_hdf5 INTERFACE)
target_include_directories(sft_hdf5 SYSTEM INTERFACE ${HDF5_C_INCLUDE_DIRS})
target_link_libraries(sft_hdf5 INTERFACE ${HDF5_C_LIBRARIES} MPI::MPI_CXX)

# sft_find_library(TARGET NAME HEADER LIBRARY PACKAGE): a target for a library that brings no CMake package in Debian 12.
# NAME is what people call it, PACKAGE Debian's name.
function(sft_find_library target name header library package)
  string(TOUPPER ${library} prefix)
  string(REPLACE "-" "_" prefix ${prefix})
  find_path(${prefix}_INCLUDE_DIR ${header})
  find_library(${prefix}_LIBRARY ${library})
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "${name} is missing: install it (Debian 12: ${package}) or set ${prefix}_INCLUDE_DIR and "
                        "${prefix}_LIBRARY")
  endif()
  add_library(${target} INTERFACE)
  target_include_directories(${target} SYSTEM INTERFACE ${${prefix}_INCLUDE_DIR})
  target_link_libraries(${target} INTERFACE ${${prefix}_LIBRARY})
endfunction()
sft_find_library(sft_xxhash xxHash xxhash.h xxhash libxxhash-dev)          # content hashes
sft_find_library(sft_lapacke LAPACKE lapacke.h lapacke liblapacke-dev)     # decompositions of weights
sft_find_library(sft_blas CBLAS cblas.h blas libblas-dev)                  # products for them
sft_find_library(sft_onig Oniguruma oniguruma.h onig libonig-dev)          # regular expressions of tokenizers and adapters
sft_find_library(sft_liburing liburing liburing.h uring liburing-dev)      # direct I/O in the background
sft_find_library(sft_zstd Zstandard zstd.h zstd libzstd-dev)               # compressed inputs
sft_find_library(sft_libedit libedit histedit.h edit libedit-dev)          # line editing of sft-generate --chat

# Encoding of protocol buffers: headers alone.
find_path(PROTOZERO_INCLUDE_DIR protozero/pbf_builder.hpp)
if(NOT PROTOZERO_INCLUDE_DIR)
  message(FATAL_ERROR "protozero is missing: install it (Debian 12: libprotozero-dev) or set PROTOZERO_INCLUDE_DIR")
endif()
add_library(sft_protozero INTERFACE)
target_include_directories(sft_protozero SYSTEM INTERFACE ${PROTOZERO_INCLUDE_DIR})

include(SftCuda)
