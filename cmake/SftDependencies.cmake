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
find_package(ICU REQUIRED COMPONENTS uc)  # cases and kinds of characters in chat templates

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

# Content hashes. The library brings no CMake package in Debian 12.
find_path(XXHASH_INCLUDE_DIR xxhash.h)
find_library(XXHASH_LIBRARY xxhash)
if(NOT XXHASH_INCLUDE_DIR OR NOT XXHASH_LIBRARY)
  message(FATAL_ERROR "xxHash is missing: install it (Debian 12: libxxhash-dev) or set XXHASH_INCLUDE_DIR and "
                      "XXHASH_LIBRARY")
endif()
add_library(sft_xxhash INTERFACE)
target_include_directories(sft_xxhash SYSTEM INTERFACE ${XXHASH_INCLUDE_DIR})
target_link_libraries(sft_xxhash INTERFACE ${XXHASH_LIBRARY})

# Regular expressions and Unicode of tokenizers. PCRE2 brings no CMake package in Debian 12.
find_package(ICU REQUIRED COMPONENTS uc)
find_path(PCRE2_INCLUDE_DIR pcre2.h)
find_library(PCRE2_LIBRARY pcre2-8)
if(NOT PCRE2_INCLUDE_DIR OR NOT PCRE2_LIBRARY)
  message(FATAL_ERROR "PCRE2 is missing: install it (Debian 12: libpcre2-dev) or set PCRE2_INCLUDE_DIR and PCRE2_LIBRARY")
endif()
add_library(sft_pcre2 INTERFACE)
target_include_directories(sft_pcre2 SYSTEM INTERFACE ${PCRE2_INCLUDE_DIR})
target_link_libraries(sft_pcre2 INTERFACE ${PCRE2_LIBRARY})

# Compressed inputs. Zstandard brings no CMake package in Debian 12.
find_path(ZSTD_INCLUDE_DIR zstd.h)
find_library(ZSTD_LIBRARY zstd)
if(NOT ZSTD_INCLUDE_DIR OR NOT ZSTD_LIBRARY)
  message(FATAL_ERROR "Zstandard is missing: install it (Debian 12: libzstd-dev) or set ZSTD_INCLUDE_DIR and ZSTD_LIBRARY")
endif()
add_library(sft_zstd INTERFACE)
target_include_directories(sft_zstd SYSTEM INTERFACE ${ZSTD_INCLUDE_DIR})
target_link_libraries(sft_zstd INTERFACE ${ZSTD_LIBRARY})

# Line editing of sft-generate --chat. The library brings no CMake package in Debian 12.
find_path(EDIT_INCLUDE_DIR histedit.h)
find_library(EDIT_LIBRARY edit)
if(NOT EDIT_INCLUDE_DIR OR NOT EDIT_LIBRARY)
  message(FATAL_ERROR "libedit is missing: install it (Debian 12: libedit-dev) or set EDIT_INCLUDE_DIR and EDIT_LIBRARY")
endif()
add_library(sft_libedit INTERFACE)
target_include_directories(sft_libedit SYSTEM INTERFACE ${EDIT_INCLUDE_DIR})
target_link_libraries(sft_libedit INTERFACE ${EDIT_LIBRARY})

include(SftCuda)
