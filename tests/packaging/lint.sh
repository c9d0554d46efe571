#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package and the recipes as the linters of their programs see them. Those that are not installed are named, and left out.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

# lint PROGRAM COMMAND...: the command, where there is the program.
lint() {
  local program=$1
  shift
  if ! command -v "$program" >/dev/null; then
    echo "not run   $program is not installed: $*"
  else
    succeeds "$program" "$@"
  fi
}
export EASYBUILD_MODULES_TOOL=Lmod LMOD_CMD=${LMOD_CMD:-/usr/share/lmod/lmod/libexec/lmod}
as_root=()
[ "$(id -u)" -ne 0 ] || as_root=(--allow-use-as-root-and-accept-consequences)
recipe=$(echo "$source_folder"/jobs/packaging/*.eb)

lint hadolint hadolint "$source_folder/jobs/packaging/Dockerfile"
lint eb eb "${as_root[@]}" --prefix "$work/eb" --check-style "$recipe"
lint eb eb "${as_root[@]}" --prefix "$work/eb" --robot --dry-run "$recipe"  # finds a recipe for all that it needs
lint spack spack style "$source_folder/jobs/packaging/spack_package.py"
lint apptainer apptainer build --fakeroot "$work/sft.sif" "$source_folder/jobs/packaging/sft.def"
succeeds 'a Debian package' env -C "$bin/.." cpack -G DEB -B "$work/deb"
# A package of a build is not one of the archive: no bug asks for it. sft-run, a script, has --help alone.
lint lintian lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,no-manual-page "$work"/deb/*.deb
finish_checks
