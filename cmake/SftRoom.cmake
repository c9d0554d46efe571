# sft_room(NAME SOURCES file... [ROOMS room...] [LIBRARIES target...]): library sft_NAME of src/NAME and include/sft/NAME.
# ROOMS are the rooms it includes; tests/layering holds them against the table of the design.
function(sft_room name)
  cmake_parse_arguments(ROOM "" "" "SOURCES;ROOMS;LIBRARIES" ${ARGN})
  add_library(sft_${name} STATIC ${ROOM_SOURCES})
  target_include_directories(sft_${name} PUBLIC ${CMAKE_SOURCE_DIR}/include PRIVATE ${CMAKE_SOURCE_DIR}/src)
  list(TRANSFORM ROOM_ROOMS PREPEND sft_)
  target_link_libraries(sft_${name} PUBLIC ${ROOM_ROOMS} PRIVATE sft_flags ${ROOM_LIBRARIES})
endfunction()
