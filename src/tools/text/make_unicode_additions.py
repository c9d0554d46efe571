#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Writes src/tools/text/unicode_additions.inc: characters of Unicode 16 that Unicode 14 has not, with their categories.

Oniguruma 6.9.8 knows Unicode 14 and ICU 72 knows Unicode 15, but the regular expressions of the library whose ids we give know 16.

    pip install unicodedata2==16.0.0; src/tools/text/make_unicode_additions.py     # with Python 3.11, which knows Unicode 14
"""

import itertools
import pathlib
import unicodedata

import unicodedata2

assert (unicodedata.unidata_version, unicodedata2.unidata_version) == ("14.0.0", "16.0.0")


def category(code_point):
    was, now = unicodedata.category(chr(code_point)), unicodedata2.category(chr(code_point))
    return now if was == "Cn" else "Cn"


lines = ["// SPDX-License-Identifier: Apache-2.0", "// Made by make_unicode_additions.py: first, last, category.", "// clang-format off"]
for name, group in itertools.groupby(range(0x110000), category):
    members = list(group)
    if name != "Cn":
        lines.append(f'{{0x{members[0]:X}, 0x{members[-1]:X}, "{name}"}},')
lines.append("// clang-format on")
pathlib.Path(__file__).with_name("unicode_additions.inc").write_text("\n".join(lines) + "\n")
