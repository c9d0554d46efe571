#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of the pages are those that their script draws, and well-formed.
#
#   figures.sh DOCS_FIGURES
set -euo pipefail

folder=$(mktemp -d)
trap 'rm -r "$folder"' EXIT
"$1/make_figures.py" "$folder"
for figure in mesh step ring; do
  cmp "$folder/$figure.svg" "$1/$figure.svg"
  python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1/$figure.svg"
done
