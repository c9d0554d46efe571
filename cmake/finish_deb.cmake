# SPDX-License-Identifier: Apache-2.0
# Adds what Debian asks of a package in addition to `make install`: manual pages and changelogs compressed, a machine-readable
# copyright, and no search paths of libraries, which lie in the system's folders there. CPack runs it over the files of the
# package.
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
set(doc ${share}/doc/sft)
file(REMOVE ${doc}/LICENSE)
file(WRITE ${doc}/copyright
"Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/
Upstream-Name: sft

Files: *
Copyright: 2026 the authors of sft
License: Apache-2.0
 On Debian systems, the complete text of the Apache License, Version 2.0,
 is in /usr/share/common-licenses/Apache-2.0.
")
string(TIMESTAMP date "%a, %d %b %Y %H:%M:%S +0000" UTC)
file(RENAME ${doc}/CHANGELOG.md ${doc}/changelog)
file(WRITE ${doc}/changelog.Debian
"sft (${CPACK_PACKAGE_VERSION}-${CPACK_DEBIAN_PACKAGE_RELEASE}) unstable; urgency=medium

  * Built from its sources by make deb; changelog.gz says what is new.

 -- ${CPACK_PACKAGE_CONTACT}  ${date}
")
file(GLOB texts ${share}/man/man1/*.1 ${doc}/changelog ${doc}/changelog.Debian)
execute_process(COMMAND gzip -9n ${texts} COMMAND_ERROR_IS_FATAL ANY)
file(GLOB programs ${CPACK_TEMPORARY_DIRECTORY}/usr/bin/*)
foreach(program ${programs})
  file(READ ${program} begin LIMIT 4 HEX)
  if(begin STREQUAL "7f454c46")  # ELF
    file(RPATH_REMOVE FILE ${program})
  endif()
endforeach()
