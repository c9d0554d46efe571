# SPDX-License-Identifier: Apache-2.0
# sft_test(NAME SOURCES file... ROOMS room... [RANKS n...] [TIMEOUT seconds] [LABEL label] [ARGUMENTS word...])
# A Boost.Test program NAME. Without RANKS it runs alone; with RANKS once under mpirun for each count, as NAME_np<n>.
# A source of an MPI test defines its own main through tests/support/mpi_test_main.hpp.
# OMPI_ is read by Open MPI 4, PRTE_ by Open MPI 5; other MPIs read neither and need nothing. After a rank has ended with
# an error, mpirun sleeps twice for the seconds of odls_base_sigkill_timeout, 1 by default: no rank of a test needs them.
set(SFT_TEST_ENVIRONMENT
    OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1
    OMPI_MCA_mpi_yield_when_idle=1 OMPI_MCA_hwloc_base_binding_policy=none OMPI_MCA_odls_base_sigkill_timeout=0
    PRTE_MCA_rmaps_default_mapping_policy=:oversubscribe PRTE_MCA_hwloc_default_binding_policy=none OMP_NUM_THREADS=1)
if(SFT_SANITIZE MATCHES "address")
  list(APPEND SFT_TEST_ENVIRONMENT ASAN_OPTIONS=detect_leaks=0)  # Open MPI keeps memory to the end of the process
elseif(SFT_SANITIZE MATCHES "thread")
  list(APPEND SFT_TEST_ENVIRONMENT TSAN_OPTIONS=suppressions=${CMAKE_CURRENT_LIST_DIR}/tsan_suppressions.txt)
endif()

# Tests compute little: what an optimizer takes to compile them is more than they gain.
set(SFT_TEST_COMPILE_FLAGS "$<$<CONFIG:Release>:-O1>")

# sft_test_cores(VARIABLE RANKS): the cores that ctest sets aside for a test of so many ranks; more ranks share two.
function(sft_test_cores variable ranks)
  if(ranks GREATER 1)
    set(${variable} 2 PARENT_SCOPE)
  else()
    set(${variable} 1 PARENT_SCOPE)
  endif()
endfunction()

function(sft_test name)
  cmake_parse_arguments(TEST "" "TIMEOUT;LABEL" "SOURCES;ROOMS;RANKS;ARGUMENTS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 60)
  endif()
  if(SFT_SANITIZE)
    math(EXPR TEST_TIMEOUT "4 * ${TEST_TIMEOUT}")
  endif()
  add_executable(${name} ${TEST_SOURCES})
  list(TRANSFORM TEST_ROOMS PREPEND sft_)
  target_include_directories(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests)
  target_compile_definitions(${name} PRIVATE BOOST_TEST_DYN_LINK SFT_SOURCE_DIR="${CMAKE_SOURCE_DIR}")
  target_compile_options(${name} PRIVATE ${SFT_TEST_COMPILE_FLAGS})
  target_link_libraries(${name} PRIVATE sft_flags ${TEST_ROOMS} Boost::unit_test_framework)
  if(TEST_RANKS)
    foreach(ranks ${TEST_RANKS})
      sft_test_cores(cores ${ranks})
      add_test(NAME ${name}_np${ranks} COMMAND ${MPIEXEC_EXECUTABLE} -np ${ranks} $<TARGET_FILE:${name}>
                                               ${TEST_ARGUMENTS})
      set_tests_properties(${name}_np${ranks} PROPERTIES TIMEOUT ${TEST_TIMEOUT} PROCESSORS ${cores} LABELS "${TEST_LABEL}"
                                                         ENVIRONMENT "${SFT_TEST_ENVIRONMENT}")
    endforeach()
  else()
    add_test(NAME ${name} COMMAND $<TARGET_FILE:${name}> ${TEST_ARGUMENTS})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${TEST_TIMEOUT} LABELS "${TEST_LABEL}"
                                            ENVIRONMENT "${SFT_TEST_ENVIRONMENT}")
  endif()
endfunction()
