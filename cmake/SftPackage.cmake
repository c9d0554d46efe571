# SPDX-License-Identifier: Apache-2.0
# `make deb`: a Debian package of what `make install` brings, made of this build on this release of Debian.
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME sft)
set(CPACK_PACKAGE_CONTACT "the authors of sft <sft@example.org>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "supervised fine-tuning of language models on MPI ranks")
set(CPACK_PACKAGE_DESCRIPTION
    "sft trains decoder language models on data, sharded, sequence, tensor and\nexpert parallel meshes of the ranks of an MPI job. It reads and writes model\nfolders of the Hugging Face hub, and needs no Python at train time.")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_RELEASE 1)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_DEPENDS "openmpi-bin, python3")
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS "python3-h5py, python3-matplotlib")
set(CPACK_PRE_BUILD_SCRIPTS ${CMAKE_SOURCE_DIR}/cmake/finish_deb.cmake)
include(CPack)
