"""Find the recordings for a corpus, and choose their names in it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from alphamf.batch.inputs import Problem, plan
from alphamf.evaluation.mixing.recipes import NoiseFile, Speech
from alphamf.tools.files import printable_name
from alphamf.tools.paths import real_path


def speech(names: Iterable[str], folder: Path) -> Iterator[Speech | Problem]:
    """Yield the clean recordings, each with a unique name."""
    taken: dict[str, str] = {}
    for found in _files(names, folder):
        if isinstance(found, Problem):
            yield found
            continue
        path, relative = found
        name = relative.with_suffix("").as_posix()
        if name in taken:
            sentence = (
                f"{printable_name(path)} has the same name in the corpus as "
                f"{printable_name(taken[name])}"
            )
            yield Problem(path, sentence)
            continue
        taken[name] = path
        yield Speech(path, name)


def noises(names: Iterable[str], folder: Path) -> Iterator[NoiseFile | Problem]:
    """Yield the noise recordings; the kind is the subfolder below `names`, or the name."""
    for found in _files(names, folder):
        if isinstance(found, Problem):
            yield found
        else:
            path, relative = found
            yield NoiseFile(path, relative.parent.name or relative.stem)


def _files(names: Iterable[str], folder: Path) -> Iterator[tuple[str, Path] | Problem]:
    """Yield the audio files of the given names once each, with paths in their folders."""
    taken = set()
    for name in names:
        # One name at a time: files of different folders may have the same name.
        files = plan([name], output_dir=str(folder), overwrite=True)
        yield from files.problems
        for job in files.jobs:
            if (real := real_path(job.source)) not in taken:
                taken.add(real)
                yield job.source, Path(job.output).relative_to(folder)
