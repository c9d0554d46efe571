# SPDX-License-Identifier: Apache-2.0
# sft_cold(TARGET...): see COLD.
function(sft_cold)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE "$<$<AND:$<CONFIG:Release>,$<COMPILE_LANGUAGE:CXX>>:-O1>")
  endforeach()
endfunction()

# Folders from which private headers are included as "ROOM/file.hpp": the floors, and src for programs. Rooms see their
# own floor alone; tests see all.
set(SFT_PRIVATE_HEADERS ${CMAKE_SOURCE_DIR}/src)
foreach(floor base hardware training planning tools)
  list(APPEND SFT_PRIVATE_HEADERS ${CMAKE_SOURCE_DIR}/src/${floor})
endforeach()

# sft_libraries_of(VARIABLE ROOM...): the libraries of these rooms, but for those that a build with SFT_PLANNER=OFF lacks.
function(sft_libraries_of variable)
  set(rooms ${ARGN})
  if(NOT SFT_PLANNER)
    list(REMOVE_ITEM rooms simulator planner)
  endif()
  list(TRANSFORM rooms PREPEND sft_)
  set(${variable} ${rooms} PARENT_SCOPE)
endfunction()

# sft_room(NAME SOURCES file... [ROOMS room...] [LIBRARIES target...] [COLD]): library sft_NAME of src/FLOOR/NAME and
# include/sft/NAME, installed as sft::NAME. Its private headers are included as "NAME/file.hpp". ROOMS are the rooms it includes; tests/layering holds them against its table.
# COLD: its code runs once in a run, so it is optimized less, which takes half the time.
function(sft_room name)
  cmake_parse_arguments(ROOM "COLD" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_library(sft_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(sft_${name} PUBLIC $<BUILD_INTERFACE:${CMAKE_SOURCE_DIR}/include>
                                                $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                         PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
  target_compile_features(sft_${name} PUBLIC cxx_std_20)
  sft_libraries_of(rooms ${ROOM_ROOMS})
  target_link_libraries(sft_${name} PUBLIC ${rooms} PRIVATE $<BUILD_INTERFACE:sft_flags> ${ROOM_LIBRARIES})
  set_target_properties(sft_${name} PROPERTIES EXPORT_NAME ${name} UNITY_BUILD ${SFT_UNITY})
  if(NOT "OpenMP::OpenMP_CXX" IN_LIST ROOM_LIBRARIES)
    sft_precompile(sft_${name})
  endif()
  if(SFT_FUZZ STREQUAL "INPUTS" AND name IN_LIST SFT_FUZZED_ROOMS)
    target_compile_options(sft_${name} PRIVATE ${SFT_FUZZ_FLAGS})
  endif()
  if(ROOM_COLD)
    sft_cold(sft_${name})
  endif()
  install(TARGETS sft_${name} EXPORT sft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development EXCLUDE_FROM_ALL)
endfunction()

# sft_gpu_side(ROOM SOURCES file... ABSENT file... [LIBRARIES target...]): what a room does on GPUs. A build with CUDA makes two
# libraries: sft_ROOM_gpu of SOURCES, which programs link with the room, and sft_ROOM_no_gpu of ABSENT, which refuses, for programs
# with the property SFT_NO_GPU. The room of a build without CUDA has ABSENT.
function(sft_gpu_side room)
  cmake_parse_arguments(GPU "" "" "SOURCES;ABSENT;LIBRARIES" ${ARGN})
  if(NOT SFT_HAVE_CUDA)
    target_sources(sft_${room} PRIVATE ${GPU_ABSENT})
    return()
  endif()
  add_library(sft_${room}_gpu STATIC ${GPU_SOURCES})
  add_library(sft_${room}_no_gpu STATIC ${GPU_ABSENT})
  foreach(side gpu no_gpu)
    target_include_directories(sft_${room}_${side} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR}/..)
    target_link_libraries(sft_${room}_${side} PRIVATE sft_${room} $<BUILD_INTERFACE:sft_flags> ${GPU_LIBRARIES})
    set_target_properties(sft_${room}_${side} PROPERTIES EXPORT_NAME ${room}_${side} UNITY_BUILD ${SFT_UNITY})
    install(TARGETS sft_${room}_${side} EXPORT sft ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development EXCLUDE_FROM_ALL)
  endforeach()
  target_link_libraries(sft_${room} PRIVATE
    "$<BUILD_INTERFACE:$<IF:$<BOOL:$<TARGET_PROPERTY:SFT_NO_GPU>>,sft_${room}_no_gpu,sft_${room}_gpu>>" "$<INSTALL_INTERFACE:sft_${room}_gpu>")
endfunction()
