# SPDX-License-Identifier: Apache-2.0
# What Debian asks of a package beside what `make install` brings: manual pages and the changelog compressed, the licence under
# its name there. CPack runs it over the files of the package.
set(share ${CPACK_TEMPORARY_DIRECTORY}/usr/share)
file(RENAME ${share}/doc/sft/LICENSE ${share}/doc/sft/copyright)
file(RENAME ${share}/doc/sft/CHANGELOG.md ${share}/doc/sft/changelog)
file(GLOB texts ${share}/man/man1/*.1 ${share}/doc/sft/changelog)
execute_process(COMMAND gzip -9n ${texts} COMMAND_ERROR_IS_FATAL ANY)
