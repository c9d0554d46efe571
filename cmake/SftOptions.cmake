# SPDX-License-Identifier: Apache-2.0
# How everything is compiled.
option(SFT_BUILD_TESTS "Build the tests and benchmarks" ON)
option(SFT_WERROR "Treat warnings as errors" ON)
option(SFT_UNITY "Compile the files of a room several at a time: faster from nothing, slower after a change" OFF)
option(SFT_CHECKED_OPS "Hold the arguments of every operation against its contract" OFF)
option(SFT_PLANNER "Build the planner and the simulator: sft-plan, sft-config, sft --dry-run, sizes that sft-launch chooses" ON)
set(SFT_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize: `address,undefined` or `thread`")
set(SFT_FUZZ "OFF" CACHE STRING "Build tests/fuzz for libFuzzer (clang), telling it which branches are taken: ALL, or INPUTS, the rooms of fuzz_inputs alone")
set_property(CACHE SFT_FUZZ PROPERTY STRINGS OFF INPUTS ALL)
set(SFT_CUDA "AUTO" CACHE STRING "Build the CUDA and NCCL sides: AUTO (where found), ON (required) or OFF")
set_property(CACHE SFT_CUDA PROPERTY STRINGS AUTO ON OFF)

set(SFT_CUDNN "AUTO" CACHE STRING "Build attention of cuDNN: AUTO (where the headers are found), ON (required) or OFF")
set_property(CACHE SFT_CUDNN PROPERTY STRINGS AUTO ON OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_CXX_COMPILE_OPTIONS_PIE -fPIC)  # programs are compiled as libraries are, to share precompiled headers
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)

# A compiler cache, where one is installed; it must know that precompiled headers keep their macros.
find_program(CCACHE ccache)
if(CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(cache ${CMAKE_COMMAND} -E env CCACHE_SLOPPINESS=pch_defines,time_macros ${CCACHE})
  set(CMAKE_CXX_COMPILER_LAUNCHER ${cache})
  set(CMAKE_CUDA_COMPILER_LAUNCHER ${cache})
endif()
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# For C++ only: other compilers (nvcc) know other flags.
set(SFT_COMPILE_FLAGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(SFT_WERROR)
  list(APPEND SFT_COMPILE_FLAGS -Werror)
endif()
# GCC 12 sees overlapping or endless copies in any `"text" + std::string` (GCC bugs 105651, 105329).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND SFT_COMPILE_FLAGS -Wno-restrict -Wno-stringop-overflow -Wno-stringop-overread -Wno-array-bounds)
endif()
# Clang says so of each loop of a kernel that it cannot vectorize.
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  list(APPEND SFT_COMPILE_FLAGS -Wno-pass-failed)
endif()
if(SFT_SANITIZE)
  list(APPEND SFT_COMPILE_FLAGS -fsanitize=${SFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # GCC 12 takes members of <regex> for uninitialized when they are instrumented (GCC bug 105562).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND SFT_COMPILE_FLAGS -Wno-maybe-uninitialized)
  endif()
endif()
# Counts the branches that are taken, for libFuzzer. Programs without it take the same objects. Unlike -fsanitize=fuzzer-no-link it
# leaves precompiled headers as they are. SFT_FUZZED_ROOMS are what INPUTS is told of.
set(SFT_FUZZ_FLAGS -fsanitize-coverage=inline-8bit-counters,pc-table,trace-cmp,indirect-calls)
set(SFT_FUZZED_ROOMS config core hub io jinja prepare rows text)
if(SFT_FUZZ STREQUAL "ALL")
  list(APPEND SFT_COMPILE_FLAGS ${SFT_FUZZ_FLAGS})
endif()
# Warnings of what one file hides from others are for builds in which each is compiled by itself.
if(SFT_UNITY)
  list(APPEND SFT_COMPILE_FLAGS -Wno-shadow)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND SFT_COMPILE_FLAGS -Wno-subobject-linkage)
    # To collect its garbage takes GCC a twentieth of the time of such large sources, and saves it some 150 MB.
    list(APPEND SFT_COMPILE_FLAGS --param=ggc-min-expand=1000 --param=ggc-min-heapsize=1000000)
  endif()
endif()
add_library(sft_flags INTERFACE)
target_compile_options(sft_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${SFT_COMPILE_FLAGS}>")
if(SFT_SANITIZE)
  target_link_options(sft_flags INTERFACE -fsanitize=${SFT_SANITIZE})
endif()

# Headers that most sources include, parsed once. sft_precompile(TARGET): for targets compiled without OpenMP, whose flag
# changes these headers.
add_library(sft_headers OBJECT ${CMAKE_SOURCE_DIR}/cmake/headers.cpp)
target_link_libraries(sft_headers PRIVATE sft_flags)
target_precompile_headers(sft_headers PRIVATE
  <algorithm> <array> <cmath> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <optional> <set> <span>
  <sstream> <string> <string_view> <utility> <variant> <vector> <nlohmann/json.hpp>)
function(sft_precompile target)
  target_precompile_headers(${target} REUSE_FROM sft_headers)
endfunction()
