"""Output names, derived from the names of the inputs."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Container, Sequence
from pathlib import Path
from string import Formatter

from alphamf.audio.formats import FORMATS, final_name
from alphamf.audio.search import RESULT, InputFile
from alphamf.errors import AlphaMFError
from alphamf.tools.files import is_special, printable_name
from alphamf.tools.paths import Identity, identify


def derived_name(item: InputFile, output_dir: str | None, template: str | None = None) -> str:
    """Return the output name: in a folder, or beside the input with `RESULT` added."""
    place = item.path if output_dir is None else os.path.join(output_dir, item.relative)
    folder, name = os.path.split(place)
    stem, ext = os.path.splitext(name)
    if template is None:
        template = f"{{stem}}{RESULT}{{ext}}" if output_dir is None else "{stem}{ext}"
    return os.path.join(folder, template.format(stem=stem, ext=ext))


def check_template(template: str) -> None:
    """Raise an AlphaMFError if a template is not valid."""
    try:
        plain = all(
            not conversion and (field in (None, "stem") or (field, spec) == ("ext", ""))
            for _, field, spec, conversion in Formatter().parse(template)
        )
        name = template.format(stem="stem", ext=".ext") if plain else ""
    except (LookupError, ValueError, AttributeError):
        name = ""
    if not name.endswith(".ext") or os.path.basename(name) != name or name == ".ext":
        raise AlphaMFError(
            f"`name` must be a file name that ends in {{ext}}, such as "
            f"'{{stem}}-clean{{ext}}', not {printable_name(template)!r}; the extension cannot "
            "change, and `output_dir` sets the folder"
        )


def possible_names(source: str, output: str) -> list[str]:
    """Return the names that an output may get: two if the input cannot be opened beforehand."""
    return list(dict.fromkeys([output, final_name(output, "")])) if is_special(source) else [output]


def resolve(pairs: Sequence[tuple[str, str]], guarded: Container[Identity]) -> list[str]:
    """Choose the final names of outputs that might conflict with other files.

    Inputs are opened only if the output's name with the extension ``.wav`` already exists, is
    protected, or could also be the output of another input.
    """
    both = [{identify(name) for name in (o, final_name(o, ""))} for _, o in pairs]
    count = Counter(name for names in both for name in names)
    found = []
    for source, output in pairs:
        renamed = final_name(output, "")
        file = identify(renamed)
        if renamed != output and (count[file] > 1 or file in guarded or os.path.lexists(renamed)):
            output = final_name(output, _format(source) or next(iter(FORMATS)))
        found.append(output)
    return found


def _format(path: str) -> str | None:
    """Return the name of a file's format, or None if it cannot be determined."""
    if is_special(path):
        return None
    from alphamf.audio.survey import open_sound

    try:
        with open_sound(Path(path), printable_name(path)) as file:
            return str(file.format)
    except (ValueError, OSError):  # the run itself says what is wrong
        return None
