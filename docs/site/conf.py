# SPDX-License-Identifier: Apache-2.0
# The site: all pages as they lie in docs/, with the README in front, and the contracts of the headers, by Sphinx, MyST and
# Doxygen of Debian. `make docs` builds it; a link that leads nowhere is an error.
from pathlib import Path

project = "sft"
author = "the authors of sft"
copyright = "Apache-2.0"

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
root_doc = "docs/site/index"
include_patterns = ["README.md", "CONTRIBUTING.md", "CHANGELOG.md", "docs/**.md", "postprocess/README.md", "src/**/README.md",
                    "tests/*/README.md", "tests/*/*/README.md", "tests/*/*/*/README.md", "inputs/**/README.md"]

myst_heading_anchors = 4  # as GitHub names them
exclude_patterns = ["docs/site/headers.md"]  # the front page of Doxygen's part
nitpicky = True
suppress_warnings = ["misc.highlighting_failure"]  # JSON with ... in it

html_theme = "furo"
html_title = "sft"
html_show_sphinx = False
html_copy_source = False
html_extra_path = ["front"]
html_static_path = ["static"]
html_css_files = ["site.css"]
pygments_style = "tango"
pygments_dark_style = "github-dark"
