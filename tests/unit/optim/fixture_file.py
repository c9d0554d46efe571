# SPDX-License-Identifier: Apache-2.0
"""The command line of a script that makes a file of expected numbers."""
import argparse
import difflib
import sys


def write_or_check(description, file, make_text, other_checks=None):
    """With --write writes make_text() into `file`; with --check ends with the differences where it holds anything else.
    `other_checks`: functions by the option that calls them."""
    parser = argparse.ArgumentParser(description=description.split("\n", 1)[0])
    choice = parser.add_mutually_exclusive_group(required=True)
    choice.add_argument("--write", action="store_true")
    choice.add_argument("--check", action="store_true")
    for option in other_checks or {}:
        choice.add_argument(option, action="store_true")
    options = parser.parse_args()
    for option, other_check in (other_checks or {}).items():
        if getattr(options, option.removeprefix("--")):
            return other_check()
    text = make_text()
    if options.write:
        file.write_text(text)
        return None
    difference = list(difflib.unified_diff(file.read_text().splitlines(), text.splitlines(), file.name, "now", lineterm=""))
    if difference:
        sys.exit("\n".join(difference))
    return None
