# How everything is compiled.
option(SFT_BUILD_TESTS "Build the tests and benchmarks" ON)
option(SFT_WERROR "Treat warnings as errors" ON)
option(SFT_SANITIZE "Build with AddressSanitizer and UndefinedBehaviorSanitizer" OFF)
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

add_library(sft_flags INTERFACE)
target_compile_options(sft_flags INTERFACE -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wno-sign-conversion
                                           $<$<BOOL:${SFT_WERROR}>:-Werror>)
# GCC 12 sees overlapping copies in any `"text" + std::string` (GCC bug 105651).
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  target_compile_options(sft_flags INTERFACE -Wno-restrict)
endif()
if(SFT_SANITIZE)
  target_compile_options(sft_flags INTERFACE -fsanitize=address,undefined -fno-omit-frame-pointer
                                             -fno-sanitize-recover=undefined)
  target_link_options(sft_flags INTERFACE -fsanitize=address,undefined)
endif()
