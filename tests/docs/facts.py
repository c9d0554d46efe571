#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Compares facts on the pages with the sources that decide them: axes, exit statuses, programs, families of models.

  facts.py SOURCE_FOLDER
"""

import re
import sys
from pathlib import Path


def names_in(text, pattern):
    """The pattern's matches, of which there must be some: else the source that decides has another form."""
    names = re.findall(pattern, text, re.MULTILINE)
    assert names, f"nothing in the sources is like {pattern}"
    return names


def axes_of(root, set_name):
    header = (root / "include/sft/core/axis.hpp").read_text()
    if set_name == "all":
        return names_in(re.search(r"axis_names = [^{]*\{([^}]*)\}", header)[1], r'"(\w+)"')
    return names_in(re.search(rf"AxisSet {set_name}\{{([^}}]*)\}}", header)[1], r"Axis::(\w+)")


def wrong_axes(root):
    """Products of sizes, which a new axis makes stale."""
    sizes = [f"{axis}_size" for axis in axes_of(root, "all")]
    rows = ["per_device_train_batch_size", *(f"{axis}_size" for axis in axes_of(root, "data_axes")), "gradient_accumulation_steps"]
    for name in ("docs/mesh.md", "docs/configuration.md"):
        page = re.sub(r"\s+", " ", (root / name).read_text().replace("*", "x"))
        for product in (sizes, rows):
            if " x ".join(product) not in page:
                yield f"{name}: no product {' x '.join(product)}"


def wrong_statuses(root):
    enum = re.search(r"enum class ExitStatus.*?\{(.*?)\};", (root / "include/sft/core/error.hpp").read_text(), re.DOTALL)[1]
    table = (root / "docs/running.md").read_text().split("## Exit status")[1].split("\n## ")[0]
    sources, page = names_in(enum, r"= (\d+)"), re.findall(r"^\| (\d+) \|", table, re.MULTILINE)
    if sources != page:
        yield f"docs/running.md: exit statuses {page}, in the sources {sources}"


def wrong_programs(root):
    recipes = "\n".join(path.read_text() for path in (root / "src/apps").glob("*/CMakeLists.txt"))
    sources = {*names_in(recipes, r"^sft_app\(([\w-]+)"), *names_in(recipes, r"RENAME (sft-\w+)")}
    table = (root / "README.md").read_text().split("## Programs")[1].split("\n## ")[0]
    page = set(re.findall(r"^\| `([\w-]+)` \|", table, re.MULTILINE))
    if sources != page:
        yield f"README.md: differs from src/apps in the programs {sorted(sources ^ page)}"


def wrong_families(root):
    page = (root / "docs/models.md").read_text()
    for path in sorted((root / "src/tools/hub/families").glob("*.cpp")):
        for name in names_in(path.read_text(), r'\.architecture = "(\w+)"'):
            if f"`{name}`" not in page:
                yield f"docs/models.md: no {name}, which {path.relative_to(root)} reads"


def main():
    root = Path(sys.argv[1])
    wrong = [line for check in (wrong_axes, wrong_statuses, wrong_programs, wrong_families) for line in check(root)]
    print("\n".join(wrong) or "axes, statuses, programs and families are those of the sources")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
