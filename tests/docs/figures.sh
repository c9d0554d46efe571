#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The figures of the pages are those that their script draws, and well-formed.
# shellcheck source=tests/shell/frame.sh
source "$(dirname "${BASH_SOURCE[0]}")/../shell/frame.sh"

figures=$source_folder/docs/figures
succeeds 'figures are drawn' "$figures/make_figures.py" .
for figure in mesh step ring; do
  check "$figure is the one in docs" cmp "$figure.svg" "$figures/$figure.svg"
  succeeds 'and well-formed' python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$figure.svg"
done
finish_checks
