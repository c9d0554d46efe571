#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Holds a page of report.py against what a browser without a network needs, and prints what is in it, a line each: `section
TITLE` and `figure NAME`.

    read_report.py REPORT.html
"""

import re
import sys
from html.parser import HTMLParser
from pathlib import Path

VOID = {"meta", "br", "hr", "img", "input", "link", "path", "rect", "use", "image"}  # those of SVG close themselves


class Page(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open, self.wrong, self.ids, self.targets, self.lines, self.style = [], [], [], [], [], ""

    def handle_starttag(self, tag, attributes):
        values = dict(attributes)
        if tag not in VOID:
            self.open.append(tag)
        self.look_at(tag, values)

    def handle_startendtag(self, tag, attributes):
        self.look_at(tag, dict(attributes))

    def look_at(self, tag, values):
        if "id" in values:
            self.ids.append(values["id"])
        if tag in ("script", "link", "iframe", "object", "embed"):
            self.wrong.append(f"a <{tag}> is in it")
        for name in ("href", "xlink:href", "src"):
            value = values.get(name) or ""
            if value.startswith("#"):
                self.targets.append(value[1:])
            elif value and not value.startswith("data:"):
                self.wrong.append(f"<{tag}> leads to {value}")
        self.targets += re.findall(r"url\(#([^)]*)\)", " ".join(value or "" for value in values.values()))
        if tag == "svg":
            if not values.get("aria-label"):
                self.wrong.append("a figure has no name")
            self.lines.append(f"figure {values.get('aria-label')}")

    def handle_endtag(self, tag):
        if tag in VOID:
            return
        if not self.open or self.open[-1] != tag:
            self.wrong.append(f"</{tag}> closes {self.open[-3:]}")
        else:
            self.open.pop()

    def handle_data(self, data):
        if self.open and self.open[-1] == "style":
            self.style += data
        if self.open and self.open[-1] == "h2":
            self.lines.append(f"section {data}")


def main():
    page = Page()
    page.feed(Path(sys.argv[1]).read_text(encoding="utf-8"))
    page.close()
    if page.open:
        page.wrong.append(f"{page.open} stay open")
    page.wrong += [f"the id {name} is there twice" for name in {name for name in page.ids if page.ids.count(name) > 1}]
    page.wrong += [f"#{name} is nowhere" for name in set(page.targets) - set(page.ids)]
    page.wrong += [f"the style loads {found}" for found in re.findall(r"@import[^;]*|url\((?!#)[^)]*\)", page.style)]
    if "prefers-color-scheme: dark" not in page.style:
        page.wrong.append("it has no dark half")
    for line in page.wrong:
        print(f"read_report.py: {line}", file=sys.stderr)
    print("\n".join(page.lines))
    return bool(page.wrong)


if __name__ == "__main__":
    sys.exit(main())
