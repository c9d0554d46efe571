# SPDX-License-Identifier: Apache-2.0
# How everything is compiled.
option(SFT_BUILD_TESTS "Build the tests and benchmarks" ON)
option(SFT_WERROR "Treat warnings as errors" ON)
set(SFT_SANITIZE "" CACHE STRING "Sanitizers to build with, as in -fsanitize: `address,undefined` or `thread`")
set(SFT_CUDA "AUTO" CACHE STRING "Build the CUDA and NCCL sides: AUTO (where found), ON (required) or OFF")
set_property(CACHE SFT_CUDA PROPERTY STRINGS AUTO ON OFF)

if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
set(CMAKE_CXX_STANDARD 20)
set(CMAKE_CXX_STANDARD_REQUIRED ON)
set(CMAKE_CXX_EXTENSIONS OFF)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
set(CMAKE_EXPORT_COMPILE_COMMANDS ON)
set(CMAKE_RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bin)

# For C++ only: other compilers (nvcc) know other flags.
set(SFT_COMPILE_FLAGS -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion)
if(SFT_WERROR)
  list(APPEND SFT_COMPILE_FLAGS -Werror)
endif()
# GCC 12 sees overlapping copies in any `"text" + std::string` (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND SFT_COMPILE_FLAGS -Wno-restrict)
endif()
if(SFT_SANITIZE)
  list(APPEND SFT_COMPILE_FLAGS -fsanitize=${SFT_SANITIZE} -fno-omit-frame-pointer -fno-sanitize-recover=all)
  # GCC 12 takes members of <regex> for uninitialized when they are instrumented (GCC bug 105562).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND SFT_COMPILE_FLAGS -Wno-maybe-uninitialized)
  endif()
endif()
add_library(sft_flags INTERFACE)
target_compile_options(sft_flags INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${SFT_COMPILE_FLAGS}>")
if(SFT_SANITIZE)
  target_link_options(sft_flags INTERFACE -fsanitize=${SFT_SANITIZE})
endif()
