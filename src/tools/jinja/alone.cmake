# SPDX-License-Identifier: Apache-2.0
# The library sft::jinja without the rest of sft: needs nlohmann-json, ICU, libfmt and, for its tests, Boost.Test.
option(SFT_BUILD_TESTS "Build the tests" ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release CACHE STRING "Build type" FORCE)
endif()
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)
find_package(nlohmann_json 3.11 REQUIRED)
find_package(ICU REQUIRED COMPONENTS uc)
find_package(fmt 9 REQUIRED)
get_filename_component(SFT_ROOT ${CMAKE_CURRENT_SOURCE_DIR}/../../.. ABSOLUTE)

add_library(sft_jinja STATIC ${JINJA_SOURCES})
target_include_directories(sft_jinja PUBLIC $<BUILD_INTERFACE:${SFT_ROOT}/include>
                                            $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
                                     PRIVATE ${SFT_ROOT}/src/tools)
target_compile_features(sft_jinja PUBLIC cxx_std_20)
target_compile_options(sft_jinja PRIVATE -Wall -Wextra -Wpedantic)
target_link_libraries(sft_jinja PUBLIC nlohmann_json::nlohmann_json PRIVATE fmt::fmt ICU::uc)
set_target_properties(sft_jinja PROPERTIES EXPORT_NAME jinja POSITION_INDEPENDENT_CODE ON)

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/sft_jinja)
install(TARGETS sft_jinja EXPORT sft_jinja ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR})
install(DIRECTORY ${SFT_ROOT}/include/sft/jinja DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/sft)
install(FILES README.md DESTINATION ${CMAKE_INSTALL_DOCDIR})
install(EXPORT sft_jinja NAMESPACE sft:: FILE sft_jinjaTargets.cmake DESTINATION ${package})
configure_package_config_file(sft_jinjaConfig.cmake.in sft_jinjaConfig.cmake INSTALL_DESTINATION ${package})
write_basic_package_version_file(sft_jinjaConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sft_jinjaConfig.cmake
              ${CMAKE_CURRENT_BINARY_DIR}/sft_jinjaConfigVersion.cmake DESTINATION ${package})

if(SFT_BUILD_TESTS)
  enable_testing()
  find_package(Boost REQUIRED COMPONENTS unit_test_framework)
  file(GLOB tests ${SFT_ROOT}/tests/unit/jinja/*.cpp)
  add_executable(unit_jinja ${tests} ${SFT_ROOT}/tests/support/unit_main.cpp)
  set_source_files_properties(${SFT_ROOT}/tests/support/unit_main.cpp PROPERTIES SKIP_UNITY_BUILD_INCLUSION ON)
  target_compile_definitions(unit_jinja PRIVATE BOOST_TEST_DYN_LINK SFT_SOURCE_DIR="${SFT_ROOT}")
  target_link_libraries(unit_jinja PRIVATE sft_jinja Boost::unit_test_framework)
  add_test(NAME unit_jinja COMMAND unit_jinja)
endif()
