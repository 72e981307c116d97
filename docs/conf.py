"""Sphinx: `make docs`."""

from __future__ import annotations

import computerd

project = "computerd"
author = "The computerd authors"
project_copyright = "The computerd authors"
version = release = computerd.__version__

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["_build"]
myst_enable_extensions = ["colon_fence", "deflist"]
myst_heading_anchors = 3
nitpicky = True

html_theme = "furo"
html_title = f"computerd {release}"
html_show_sphinx = False
html_copy_source = False
