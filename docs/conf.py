"""Configuration of the site: `sphinx-build -W docs build/site` makes it."""

import shutil
import subprocess
import sys
from importlib.metadata import version as version_of
from pathlib import Path

HERE = Path(__file__).parent
# The examples and figures import sounds.py and extensions/.
sys.path[:0] = [str(HERE), str(HERE / "extensions")]


def page_without_server() -> Path:
    """Build the page that denoises in the browser, for the site's folder try/."""
    made = HERE.parent / "build" / "web"
    subprocess.run([sys.executable, "-m", "web.build", made], cwd=HERE.parent, check=True)
    extra = made / "extra"
    shutil.rmtree(extra, ignore_errors=True)
    shutil.copytree(made / "page", extra / "try")
    return extra


project = "alphamf"
author = "the authors of alphamf"
copyright = "the authors of alphamf, MIT licence"
version = release = version_of("alphamf")

extensions = [
    "sphinx.ext.autodoc",
    "sphinx.ext.autosummary",
    "sphinx.ext.viewcode",
    "numpydoc",
    "myst_nb",
    "sphinx_design",
    "sphinx_gallery.gen_gallery",
    "matplotlib.sphinxext.plot_directive",
    "links",
    "mathml",
    "alt_text",
    "plain_docstrings",
]
templates_path = ["templates"]
exclude_patterns = [
    "examples",
    "listen/README.md",
    "**.csv",
    "gallery/**.ipynb",
    "gallery/**.md5",
    "gallery/**.zip",
    "sg_execution_times.rst",
    "gallery/**sg_execution_times.rst",
]
default_role = "py:obj"

# Markdown, and the notebook, which the build runs.
myst_enable_extensions = ["dollarmath", "deflist", "colon_fence"]
myst_heading_anchors = 4
nb_execution_mode = "cache"
nb_execution_timeout = 120
nb_execution_raise_on_error = True
nb_merge_streams = True

# The reference.
autosummary_generate = True
autodoc_member_order = "bysource"
autodoc_typehints = "signature"
autodoc_type_aliases = {
    name: name
    for name in (
        "Array",
        "ArrayLike",
        "Complexes",
        "Floats",
        "Reals",
        "Samples",
        "Schedule",
        "Statistic",
        "TimeRanges",
    )
}
python_use_unqualified_type_names = True
python_maximum_signature_line_length = 88
numpydoc_show_class_members = False

# The gallery: 15 examples, which the build runs.
sphinx_gallery_conf = {
    "examples_dirs": "examples",
    "gallery_dirs": "gallery",
    "filename_pattern": r"\.py",
    "within_subsection_order": "FileNameSortKey",
    "capture_repr": ("_repr_html_",),
    "abort_on_example_error": True,
    "download_all_examples": False,
    "show_signature": False,
    "thumbnail_size": (400, 280),
    "min_reported_time": 0,
}

# The figures of the theory.
plot_include_source = False
plot_html_show_source_link = False
plot_html_show_formats = False
plot_formats = [("png", 110)]

html_theme = "pydata_sphinx_theme"
html_title = "alphamf"
html_static_path = ["static"]
html_extra_path = [str(page_without_server())]
html_favicon = "../alphamf/serving/static/icon.svg"
html_css_files = ["site.css"]
html_js_files = [("players.js", {"defer": "defer"})]
html_copy_source = False
html_show_sourcelink = False
html_math_renderer = "mathml"
origin = ["git", "config", "remote.origin.url"]
repository = subprocess.run(origin, cwd=HERE, capture_output=True, text=True).stdout.strip()
html_theme_options = {
    "icon_links": [{"name": "Repository", "url": repository, "icon": "fa-brands fa-git-alt"}]
    if repository.startswith("https://")
    else [],
    "logo": {"text": "alphamf"},
    "header_links_before_dropdown": 7,
    "navigation_with_keys": False,
    "show_prev_next": True,
    "secondary_sidebar_items": ["page-toc"],
    "footer_start": ["copyright"],
    "footer_end": [],
}
html_sidebars = {"index": []}
