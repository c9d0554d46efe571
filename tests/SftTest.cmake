# SPDX-License-Identifier: Apache-2.0
# How tests are built and run. A folder of tests is one program, whose suites are its files.
#
#   sft_test(NAME [SOURCES file...] [EXCEPT file...] ROOMS room... [LIBRARIES target...] [MPI] [SEPARATE file...])
#       a Boost.Test program of SOURCES. That of a folder in tests/unit has all files *_test.cpp of it, too, but those that
#       another program there has (EXCEPT). Files are compiled several at a time (SFT_UNITY), but those that are SEPARATE
#       each by itself. What a file hides in `namespace {}` within its suite is hidden from the others
#   sft_run_test(PROGRAM [NAME name] [SUITES suite...] [RANKS n...] [NIGHTLY_RANKS n...] [TIMEOUT seconds] [LABEL label]
#                [TIER quick|full|nightly] [SANITIZE asan|tsan|asan-gpu...] [NIGHTLY_SANITIZE asan|tsan...]
#                [ENVIRONMENT name=value...] [ARGUMENTS word...] [COST seconds])
#       one ctest of some suites of it, all without SUITES. With RANKS once under mpirun for each count, as NAME_np<n>.
#       SANITIZE: the builds with sanitizers that run it too, on the largest count of up to 4 ranks; NIGHTLY_SANITIZE: those
#       that run it for `make test-all` alone
#   sft_needs_planner(NAME...)
#       tests of programs that plan: a build with SFT_PLANNER=OFF shows them as not run
#   sft_script_test(NAME COMMAND word... [CORES n | WAITS] [TIMEOUT ...] [LABEL ...] [TIER ...] [ENVIRONMENT ...]
#                   [COST ...])
#       any command, or a file of the folder with its words; it is skipped where it ends with status 77. One that WAITS
#       uses a core for less than a third of its time, and minds nothing that runs at the same time. tests/shell/frame.sh
#       takes the paths of the programs from the environment
#
# What runs at a time: ctest's processors are halves of a core here, and TEST_JOBS of the Makefile says how many there are.
# A test of one rank takes 2, one of several ranks 4, a script 2 or what CORES says; one that WAITS takes 1.
#
# COST says how long a test of many seconds takes: where nothing is known of an earlier run, as in CI, ctest starts the
# longest first, and none is left alone at the end.
#
# Tiers are labels. `quick` is what a programmer runs after each change, `full` what `make test` and CI run, and contains
# the quick ones; `make test-all` runs the nightly ones too. NIGHTLY_RANKS are counts of ranks that only these try. The
# label of a sanitizer's build (asan, tsan, asan-gpu; asan-nightly, tsan-nightly) stands beside them; the target
# `asan-tests` builds its programs. Those builds are not optimized: a case of more than some seconds there has the label
# `long` (*boost::unit_test::label("long")) and is left out.
#
# OMPI_ is read by Open MPI 4, PRTE_ by Open MPI 5; other MPIs read neither and need nothing. After a rank has ended with
# an error, mpirun sleeps twice for the seconds of odls_base_sigkill_timeout, 1 by default: no rank of a test needs them.
# ob1 is what Open MPI takes between ranks of one machine; where it is not named, each start looks for networks first, for
# 0.2 s. Threads that wait for others leave their core to the tests beside them.
set(SFT_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_odls_base_sigkill_timeout=0
    OMPI_MCA_pml=ob1
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none OMP_NUM_THREADS=1
    OMP_WAIT_POLICY=passive
    SFT_TEST_BIN=${CMAKE_BINARY_DIR}/bin SFT_TEST_MPIEXEC=${MPIEXEC_EXECUTABLE})
if(SFT_SANITIZE MATCHES "address")
  list(APPEND SFT_TEST_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)  # Open MPI keeps memory to the end of the process
elseif(SFT_SANITIZE MATCHES "thread")
  # A report from inside a library that is not built with ThreadSanitizer is never right, and suppressing it comes too late:
  # to look for its place takes the lock of dlclose, which a thread holds that unloads Open MPI's modules and waits for the
  # one that reports.
  list(APPEND SFT_TEST_ENVIRONMENT
       TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt:ignore_noninstrumented_modules=1)
endif()

# Tests compute little: what an optimizer takes to compile them is more than they gain.
set(SFT_TEST_COMPILE_FLAGS "$<$<CONFIG:Release>:-Og>")

# A linker that takes them a third of the time of GNU's, where the compiler knows one: each is linked from nearly all of the
# project's objects. What is installed is linked as the system does it.
include(CheckLinkerFlag)
foreach(linker lld gold)
  check_linker_flag(CXX -fuse-ld=${linker} SFT_LINKS_BY_${linker})
  if(SFT_LINKS_BY_${linker})
    set(SFT_TEST_LINK_FLAGS -fuse-ld=${linker})
    break()
  endif()
endforeach()

# Programs that no test runs: benchmarks, what is compared with other libraries, what needs a GPU. sft_tool(TARGET...)
add_custom_target(tools)
function(sft_tool)
  set_target_properties(${ARGN} PROPERTIES EXCLUDE_FROM_ALL ON)
  add_dependencies(tools ${ARGN})
endfunction()

foreach(sanitizer asan asan-nightly tsan tsan-nightly asan-gpu)
  add_custom_target(${sanitizer}-tests)
endforeach()

# What every test program is compiled with, so that all can share one precompiled header.
add_library(sft_test_flags INTERFACE)
target_include_directories(sft_test_flags INTERFACE ${CMAKE_SOURCE_DIR}/tests ${SFT_PRIVATE_HEADERS})
target_compile_definitions(sft_test_flags INTERFACE BOOST_TEST_DYN_LINK SFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
target_compile_options(sft_test_flags INTERFACE ${SFT_TEST_COMPILE_FLAGS})
target_link_options(sft_test_flags INTERFACE ${SFT_TEST_LINK_FLAGS})
target_link_libraries(sft_test_flags INTERFACE sft_flags OpenMP::OpenMP_CXX Threads::Threads Boost::unit_test_framework
                                               nlohmann_json::nlohmann_json)

# The mains, and the header that takes most of a test's compilation.
add_library(sft_unit_main OBJECT support/unit_main.cpp)
target_link_libraries(sft_unit_main PRIVATE sft_test_flags)
add_library(sft_mpi_main OBJECT support/mpi_main.cpp)
target_link_libraries(sft_mpi_main PRIVATE sft_test_flags sft_comm)
add_library(sft_test_headers OBJECT support/headers.cpp)
target_link_libraries(sft_test_headers PRIVATE sft_test_flags)
target_precompile_headers(sft_test_headers PRIVATE
  <boost/test/data/test_case.hpp> <boost/test/unit_test.hpp> <nlohmann/json.hpp>
  <algorithm> <array> <chrono> <cmath> <cstdint> <filesystem> <fstream> <functional> <map> <memory> <numeric> <optional>
  <random> <set> <span> <sstream> <string> <string_view> <thread> <tuple> <utility> <variant> <vector>)

# sft_test_cores(VARIABLE RANKS): the cores that ctest sets aside for a test of so many ranks; more ranks share two.
function(sft_test_cores variable ranks)
  if(ranks GREATER 1)
    set(${variable} 2 PARENT_SCOPE)
  else()
    set(${variable} 1 PARENT_SCOPE)
  endif()
endfunction()

# sft_test_defaults(KEY VALUE...): sets each TEST_KEY of the caller that has no value yet.
function(sft_test_defaults)
  set(rest ${ARGN})
  while(rest)
    list(POP_FRONT rest key value)
    if(NOT TEST_${key})
      set(TEST_${key} ${value} PARENT_SCOPE)
    endif()
  endwhile()
endfunction()

# sft_test_properties(NAME TIMEOUT LABEL TIER HALF_CORES ENVIRONMENT): of a ctest. Its name says where it stands: FOLDER,
# FOLDER_WHAT, FOLDER_WHAT_np4; tests/unit/ops has unit_ops_WHAT.
function(sft_test_properties name timeout label tier half_cores environment)
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" folder ${folder})
  if(NOT name MATCHES "^${folder}(_|$)")
    message(FATAL_ERROR "test ${name} is not named after its folder: ${folder}_...")
  endif()
  if(SFT_SANITIZE)
    math(EXPR timeout "4 * ${timeout}")
  endif()
  set(labels_of_quick quick full)
  set(labels_of_full full)
  set(labels_of_nightly nightly)
  if(NOT DEFINED labels_of_${tier})
    message(FATAL_ERROR "test ${name} has no such tier: ${tier}")
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT ${timeout} PROCESSORS ${half_cores} LABELS "${label};${labels_of_${tier}}"
                                          ENVIRONMENT "${SFT_TEST_ENVIRONMENT};${environment}")
endfunction()

# sft_test_unity(NAME SEPARATE file...): how the files of a test are compiled, see sft_test.
function(sft_test_unity name)
  cmake_parse_arguments(TEST "" "" "SEPARATE" ${ARGN})
  set_target_properties(${name} PROPERTIES UNITY_BUILD ${SFT_UNITY})
  set_source_files_properties(${TEST_SEPARATE} PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
endfunction()

function(sft_test name)
  cmake_parse_arguments(TEST "MPI" "" "SOURCES;EXCEPT;ROOMS;LIBRARIES;SEPARATE" ${ARGN})
  file(RELATIVE_PATH folder ${CMAKE_SOURCE_DIR}/tests ${CMAKE_CURRENT_SOURCE_DIR})
  string(REPLACE "/" "_" program_of_folder ${folder})
  if(folder MATCHES "^unit/" AND name STREQUAL program_of_folder)
    file(GLOB found RELATIVE ${CMAKE_CURRENT_SOURCE_DIR} CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*_test.cpp)
    list(APPEND TEST_SOURCES ${found})
    list(REMOVE_ITEM TEST_SOURCES "" ${TEST_EXCEPT})
    list(REMOVE_DUPLICATES TEST_SOURCES)
  endif()
  add_executable(${name} ${TEST_SOURCES})
  sft_libraries_of(rooms ${TEST_ROOMS})
  target_link_libraries(${name} PRIVATE sft_test_flags ${rooms} ${TEST_LIBRARIES})
  if(TEST_MPI)
    target_link_libraries(${name} PRIVATE sft_mpi_main sft_comm)
  else()
    target_link_libraries(${name} PRIVATE sft_unit_main)
  endif()
  target_precompile_headers(${name} REUSE_FROM sft_test_headers)
  sft_test_unity(${name} SEPARATE ${TEST_SEPARATE})
  if(folder MATCHES "^unit/([a-z]+)")
    add_dependencies(check-${CMAKE_MATCH_1} ${name})
  endif()
endfunction()

function(sft_run_test program)
  cmake_parse_arguments(TEST "" "NAME;TIMEOUT;LABEL;TIER;COST"
                        "SUITES;RANKS;NIGHTLY_RANKS;SANITIZE;NIGHTLY_SANITIZE;ENVIRONMENT;ARGUMENTS" ${ARGN})
  list(TRANSFORM TEST_NIGHTLY_SANITIZE APPEND -nightly)
  list(APPEND TEST_SANITIZE ${TEST_NIGHTLY_SANITIZE})
  sft_test_defaults(NAME ${program} TIMEOUT 60 LABEL unit TIER quick COST 0)
  set(command $<TARGET_FILE:${program}>)
  if(TEST_SUITES)
    list(JOIN TEST_SUITES "," suites)
    list(APPEND command --run_test=${suites})
  endif()
  if(SFT_SANITIZE)
    list(APPEND command --run_test=!@long)
  endif()
  list(APPEND command ${TEST_ARGUMENTS})
  foreach(sanitizer ${TEST_SANITIZE})
    add_dependencies(${sanitizer}-tests ${program})
  endforeach()
  if(NOT TEST_RANKS AND NOT TEST_NIGHTLY_RANKS)
    add_test(NAME ${TEST_NAME} COMMAND ${command})
    sft_test_properties(${TEST_NAME} ${TEST_TIMEOUT} "${TEST_LABEL};${TEST_SANITIZE}" ${TEST_TIER} 2
                        "${TEST_ENVIRONMENT}")
    set_tests_properties(${TEST_NAME} PROPERTIES COST ${TEST_COST})
  endif()
  set(sanitized_ranks 0)
  foreach(ranks ${TEST_RANKS})
    if(ranks LESS_EQUAL 4 AND ranks GREATER sanitized_ranks)
      set(sanitized_ranks ${ranks})
    endif()
  endforeach()
  foreach(ranks ${TEST_RANKS} ${TEST_NIGHTLY_RANKS})
    set(name ${TEST_NAME}_np${ranks})
    set(tier ${TEST_TIER})
    set(labels ${TEST_LABEL})
    if(ranks EQUAL sanitized_ranks)
      list(APPEND labels ${TEST_SANITIZE})
    endif()
    if(ranks IN_LIST TEST_NIGHTLY_RANKS)
      set(tier nightly)
    elseif(ranks GREATER 4 AND tier STREQUAL "quick")
      set(tier full)
    endif()
    sft_test_cores(cores ${ranks})
    math(EXPR half_cores "2 * ${cores}")
    add_test(NAME ${name} COMMAND ${MPIEXEC_EXECUTABLE} -np ${ranks} ${command})
    sft_test_properties(${name} ${TEST_TIMEOUT} "${labels}" ${tier} ${half_cores} "${TEST_ENVIRONMENT}")
    set_tests_properties(${name} PROPERTIES COST ${TEST_COST})
  endforeach()
endfunction()

function(sft_script_test name)
  cmake_parse_arguments(TEST "WAITS" "TIMEOUT;LABEL;TIER;CORES;COST" "COMMAND;ENVIRONMENT" ${ARGN})
  sft_test_defaults(TIMEOUT 60 LABEL scripts TIER full CORES 1 COST 0)
  math(EXPR half_cores "2 * ${TEST_CORES}")
  if(TEST_WAITS)
    set(half_cores 1)
  endif()
  list(POP_FRONT TEST_COMMAND program)
  if(EXISTS ${CMAKE_CURRENT_SOURCE_DIR}/${program})
    set(program ${CMAKE_CURRENT_SOURCE_DIR}/${program})
  endif()
  add_test(NAME ${name} COMMAND ${program} ${TEST_COMMAND} COMMAND_EXPAND_LISTS)
  sft_test_properties(${name} ${TEST_TIMEOUT} "${TEST_LABEL}" ${TEST_TIER} ${half_cores} "${TEST_ENVIRONMENT}")
  set_tests_properties(${name} PROPERTIES COST ${TEST_COST} SKIP_RETURN_CODE 77)
endfunction()

function(sft_needs_planner)
  if(NOT SFT_PLANNER)
    set_tests_properties(${ARGN} PROPERTIES DISABLED ON)
  endif()
endfunction()
