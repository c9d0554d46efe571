#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The package and the recipes as the linters of their programs see them. Those that are not installed are named, and left out.
#
#   lint.sh SOURCE_FOLDER BUILD_FOLDER
set -euo pipefail

source=$1 build=$2
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
wrong=0
# lint PROGRAM COMMAND...: the command, where there is the program.
lint() {
  local program=$1
  shift
  if ! command -v "$program" >/dev/null; then
    echo "not run   $program is not installed: $*"
  elif "$@" >"$work/out" 2>&1; then
    echo "ok        $*"
  else
    echo "WRONG     $*"
    cat "$work/out"
    wrong=1
  fi
}
export EASYBUILD_MODULES_TOOL=Lmod LMOD_CMD=${LMOD_CMD:-/usr/share/lmod/lmod/libexec/lmod}
as_root=()
[ "$(id -u)" -ne 0 ] || as_root=(--allow-use-as-root-and-accept-consequences)
recipe=$(echo "$source"/jobs/packaging/*.eb)

lint hadolint hadolint "$source/jobs/packaging/Dockerfile"
lint eb eb "${as_root[@]}" --prefix "$work/eb" --check-style "$recipe"
lint eb eb "${as_root[@]}" --prefix "$work/eb" --robot --dry-run "$recipe"  # finds a recipe for all that it needs
lint spack spack style "$source/jobs/packaging/spack_package.py"
lint apptainer apptainer build --fakeroot "$work/sft.sif" "$source/jobs/packaging/sft.def"
(cd "$build" && cpack -G DEB -B "$work/deb" >"$work/cpack" 2>&1) || { cat "$work/cpack"; exit 1; }
# A package of a build is not one of the archive: no bug asks for it. sft-run, a script, has --help alone.
lint lintian lintian --fail-on error,warning --suppress-tags initial-upload-closes-no-bugs,no-manual-page "$work"/deb/*.deb
exit "$wrong"
