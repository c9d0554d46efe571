# SPDX-License-Identifier: Apache-2.0
# `make install`: programs, job scripts, documents and a modulefile; `make install-dev`: a CMake package of the rooms. Every installed path is
# relative to the prefix, so the tree may be moved as a whole.
include(CMakePackageConfigHelpers)

# Programs find libraries that stand outside the system's folders (a module's oneDNN, say) where the build found them.
set_target_properties(${SFT_PROGRAMS} PROPERTIES INSTALL_RPATH_USE_LINK_PATH ON)
install(TARGETS ${SFT_PROGRAMS} RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR})

# Job scripts, examples, documents.
install(DIRECTORY jobs DESTINATION ${CMAKE_INSTALL_DATADIR}/sft USE_SOURCE_PERMISSIONS)
install(DIRECTORY postprocess DESTINATION ${CMAKE_INSTALL_DATADIR}/sft USE_SOURCE_PERMISSIONS PATTERN "__pycache__" EXCLUDE)
install(DIRECTORY inputs/ DESTINATION ${CMAKE_INSTALL_DATADIR}/sft/inputs
        FILES_MATCHING PATTERN "*.ini" PATTERN "*.yaml" PATTERN "config.json" PATTERN demo EXCLUDE)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR} PATTERN site EXCLUDE)
install(FILES README.md CHANGELOG.md LICENSE DESTINATION ${CMAKE_INSTALL_DOCDIR})

# Man pages and completions, written by the programs themselves at build time.
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/man/ DESTINATION ${CMAKE_INSTALL_MANDIR})
foreach(completions bash-completion/completions zsh/site-functions)
  install(DIRECTORY ${CMAKE_BINARY_DIR}/share/${completions}/ DESTINATION ${CMAKE_INSTALL_DATADIR}/${completions})
endforeach()

# Modulefiles for Environment Modules (Tcl) and Lmod (Lua): `module use PREFIX/share/modulefiles; module load sft`.
set(SFT_MODULEFILES ${CMAKE_INSTALL_DATADIR}/modulefiles/sft)
file(RELATIVE_PATH SFT_PREFIX_FROM_MODULEFILES /${SFT_MODULEFILES} /)
string(REGEX REPLACE "/$" "" SFT_PREFIX_FROM_MODULEFILES "${SFT_PREFIX_FROM_MODULEFILES}")
configure_file(cmake/modulefile.tcl.in modulefiles/${PROJECT_VERSION} @ONLY)
configure_file(cmake/modulefile.lua.in modulefiles/${PROJECT_VERSION}.lua @ONLY)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/modulefiles/${PROJECT_VERSION}
              ${CMAKE_CURRENT_BINARY_DIR}/modulefiles/${PROJECT_VERSION}.lua DESTINATION ${SFT_MODULEFILES})

# The CMake package, only where it is asked for (`make install-dev`): find_package(sft) gives sft::core, sft::rows and every
# other room.
set(SFT_ON_REQUEST COMPONENT development EXCLUDE_FROM_ALL)
set(SFT_CMAKE_PACKAGE ${CMAKE_INSTALL_LIBDIR}/cmake/sft)
install(DIRECTORY include/sft DESTINATION ${CMAKE_INSTALL_INCLUDEDIR} ${SFT_ON_REQUEST})
install(TARGETS sft_blas sft_hdf5 sft_lapacke sft_liburing sft_onig sft_xxhash sft_yaml sft_zstd EXPORT sft ${SFT_ON_REQUEST})
install(EXPORT sft NAMESPACE sft:: FILE sftTargets.cmake DESTINATION ${SFT_CMAKE_PACKAGE} ${SFT_ON_REQUEST})
configure_package_config_file(cmake/sftConfig.cmake.in sftConfig.cmake INSTALL_DESTINATION ${SFT_CMAKE_PACKAGE})
write_basic_package_version_file(sftConfigVersion.cmake COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_CURRENT_BINARY_DIR}/sftConfig.cmake ${CMAKE_CURRENT_BINARY_DIR}/sftConfigVersion.cmake
        DESTINATION ${SFT_CMAKE_PACKAGE} ${SFT_ON_REQUEST})
