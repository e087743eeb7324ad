"""Find the recordings that a command reads, and name their outputs."""

import os
from collections import Counter
from collections.abc import Collection, Container, Iterable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from alphamf.audio.formats import FORMATS, final_name
from alphamf.audio.search import RESULT, InputFile, expand
from alphamf.errors import AlphaMFError
from alphamf.tools.files import (
    Identity,
    exists_error,
    identify,
    is_special,
    printable_name,
    real_path,
    refuse_links,
)


def derived_name(item: InputFile, output_dir: str | None, template: str | None = None) -> str:
    """Return the output path: in `output_dir`, or beside the input (with `RESULT`, by default)."""
    place = item.path if output_dir is None else os.path.join(output_dir, item.relative)
    folder, name = os.path.split(place)
    stem, ext = os.path.splitext(name)
    if template is None:
        template = f"{{stem}}{RESULT}{{ext}}" if output_dir is None else "{stem}{ext}"
    return os.path.join(folder, template.format(stem=stem, ext=ext))


def possible_names(source: str, output: str) -> list[str]:
    """Return the names that an output may get, one or, if the input cannot be opened yet, two."""
    return list(dict.fromkeys([output, final_name(output, "")])) if is_special(source) else [output]


def resolve(pairs: Sequence[tuple[str, str]], guarded: Container[Identity]) -> list[str]:
    """Return the outputs' names, made final where they might conflict with other files.

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
    from alphamf.audio.reader import open_sound

    try:
        with open_sound(Path(path), printable_name(path)) as file:
            return str(file.format)
    except (ValueError, OSError):  # the run itself says what is wrong
        return None


STREAM = "-"
"""Standard input as a source, standard output as an output."""

_ENDINGS = {"plot": ".png", "uncertainty": ".npz", "vad": ".csv"}


class Job(NamedTuple):
    """One file to denoise."""

    # source, output: files, or `STREAM`.
    source: str
    output: str
    derived: bool  # Whether the output's name comes from the input's
    # Whether the file was found in a folder or by a pattern; an output that exists then means that
    # an earlier run has done the work.
    searched: bool = False
    # For an output whose name is derived: the folder for outputs that the user named. None: the
    # folder that the output is in.
    output_dir: str | None = None

    @property
    def link_root(self) -> str | None:
        """The folder below which no link is followed; None if the user named the output."""
        if not self.derived:
            return None
        return self.output_dir or os.path.dirname(self.output) or os.curdir


class Problem(NamedTuple):
    """An input that cannot be used, and the reason in one sentence."""

    source: str
    sentence: str


class Plan(NamedTuple):
    """The files to denoise, and the inputs that cannot be used."""

    jobs: list[Job]
    problems: list[Problem]
    # Files that are skipped because they are results of other inputs.
    results: Sequence[str] = ()
    guarded: Mapping[Identity, str] = {}  # Each file that no output may replace, and what it is
    passed: Collection[str] = ()  # Skipped recordings with an unknown extension


def plan(
    inputs: Iterable[str],
    *,
    output: str | None = None,
    output_dir: str | None = None,
    template: str | None = None,
    overwrite: bool = False,
    protected: Iterable[tuple[str, str]] = (),
) -> Plan:
    """Return the input files with an output name for each, and the inputs that cannot be used.

    No output replaces an input or a `protected` file, and no two outputs are the same file. If
    several outputs would have the same name, the one with its input's extension gets it: inputs
    that cannot be written in their own format become ``.wav``.
    """
    if output is not None and output_dir is not None:
        raise AlphaMFError("`output` names a file and `output_dir` a folder; give only one of them")
    inputs = list(inputs)
    if output_dir is not None:
        if STREAM in inputs:
            raise AlphaMFError(
                "standard input has no name to use in `output_dir`; use `output` FILE"
            )
        if os.path.lexists(output_dir) and not os.path.isdir(output_dir):
            raise AlphaMFError(f"`output_dir` {printable_name(output_dir)} is not a folder")
    found, problems, passed = _find(inputs, output_dir)
    if output is not None:
        _check_single(output, len(found) + len(problems))
    found, results = _without_results(found)
    if template is not None:
        found = _not_made(found, output_dir, template)
    guarded = {
        _identify(path): f"`{argument}` {printable_name(path)}" for argument, path in protected
    }
    guarded |= {_identify(item.path): f"the input {printable_name(item.path)}" for item in found}
    candidates = _jobs(found, output, output_dir, template, guarded)
    taken: dict[Identity, str] = {}
    conflicts: dict[Job, str] = {}
    for job in sorted(candidates, key=_is_renamed):
        sentence = _conflict(job, taken, guarded, overwrite)
        if sentence is None:
            names = possible_names(job.source, job.output) if job.derived else [job.output]
            taken |= {_identify(name): job.source for name in names}
        else:
            conflicts[job] = sentence
    problems += [Problem(job.source, conflicts[job]) for job in candidates if job in conflicts]
    jobs = [job for job in candidates if job not in conflicts]
    return Plan(jobs, problems, results, guarded, passed)


def find(inputs: Iterable[str]) -> list[str]:
    """Return the paths of the audio files that names refer to, or raise an AlphaMFError."""
    found, problems, _ = _find(inputs, None)
    if problems:
        raise AlphaMFError(problems[0].sentence)
    return [item.path for item in found]


def check_extra(outputs: Mapping[str, str | None], files: Plan, *, overwrite: bool) -> None:
    """Raise an AlphaMFError if an extra output is misnamed, exists, conflicts or has two inputs."""
    taken = {
        _identify(name)
        for job in files.jobs
        for name in (job.output, *possible_names(job.source, job.output))
    }
    inputs = {_identify(job.source) for job in files.jobs}
    for argument, path in outputs.items():
        if path is None:
            continue
        given = f"`{argument}` {printable_name(path)}"
        if len(files.jobs) + len(files.problems) > 1:
            raise AlphaMFError(f"{given} can be used with one input only")
        if path == STREAM or os.path.isdir(path):
            raise AlphaMFError(f"{given} must name a file")
        if not path.lower().endswith(_ENDINGS.get(argument, "")):
            raise AlphaMFError(f"{given} must end in {_ENDINGS[argument]}")
        file = _identify(path)
        if file in files.guarded and file not in inputs:
            raise AlphaMFError(f"{given} is also {files.guarded[file]}")
        if file in taken | inputs:
            raise AlphaMFError(f"{given} is also the input or another output")
        if would_overwrite(path) and not overwrite:
            raise exists_error(path)
        taken.add(file)


def parse_share(option: str, text: str) -> float:
    """Return a text such as ``0.5`` or ``50%`` as a number; refuse all but 0 to 1, 0% to 100%."""
    number, percent = text.strip().removesuffix("%"), text.strip().endswith("%")
    try:
        found = float(number) / (100 if percent else 1)
    except ValueError:
        raise AlphaMFError(
            f"{option} must be from 0 to 1, or a percentage such as 50%, not {text!r}"
        ) from None
    if not 0 <= found <= 1:
        hint = f"; for a percentage, write {number}%" if not percent and 1 < found <= 100 else ""
        raise AlphaMFError(f"{option} must be from 0 to 1, not {text}{hint}")
    return found


def would_overwrite(output: str) -> bool:
    """Return whether writing to `output` would overwrite a file that has any contents."""
    return output != STREAM and os.path.isfile(output) and os.path.getsize(output) > 0


def _find(
    inputs: Iterable[str], output_dir: str | None
) -> tuple[list[InputFile], list[Problem], set[str]]:
    """Return the distinct input files, the problems, and the recordings that are skipped."""
    found: list[InputFile] = []
    problems: list[Problem] = []
    passed: set[str] = set()
    for name in inputs:
        try:
            _check_name(name)
            if name == STREAM:
                found.append(InputFile(STREAM, STREAM, searched=False))
            else:
                found.extend(expand(name, output_dir, passed))
        except AlphaMFError as error:
            problems.append(Problem(name, str(error)))
    once = {_identify(item.path): item for item in reversed(found)}
    return list(once.values())[::-1], problems, passed


def _check_single(output: str, count: int) -> None:
    if count > 1:
        raise AlphaMFError(
            f"`output` {printable_name(output)} names one output, but there are {count} inputs; "
            "use `output_dir`"
        )
    if output == STREAM:
        return
    if os.path.isdir(output) or output.endswith(("/", os.sep)):
        raise AlphaMFError(
            f"`output` {printable_name(output)} is a folder; give a file name, or use `output_dir`"
        )


def _without_results(found: list[InputFile]) -> tuple[list[InputFile], list[str]]:
    """Return the files without results that were given with their originals, and these results."""
    stems = {os.path.splitext(real_path(item.path))[0] for item in found}
    results = []
    for item in found:
        stem = os.path.splitext(real_path(item.path))[0]
        if stem.endswith(RESULT) and stem.removesuffix(RESULT) in stems:
            results.append(item.path)
    return [item for item in found if item.path not in results], results


def _not_made(found: list[InputFile], output_dir: str | None, template: str) -> list[InputFile]:
    """Return the files, less those found by a search that are named like another's output."""
    made = set()
    for item in found:
        name = derived_name(item, output_dir, template)
        made |= {_identify(each) for each in (name, final_name(name, ""))} - {_identify(item.path)}
    return [item for item in found if not (item.searched and _identify(item.path) in made)]


def _jobs(
    found: list[InputFile],
    output: str | None,
    output_dir: str | None,
    template: str | None,
    guarded: Mapping[Identity, str],
) -> list[Job]:
    """Return a job for each file, with the name of its output."""
    if output is not None:
        return [Job(item.path, output, False, item.searched) for item in found]
    files = [item for item in found if item.path != STREAM]
    pairs = [(item.path, derived_name(item, output_dir, template)) for item in files]
    names = dict(zip([item.path for item in files], resolve(pairs, guarded), strict=True))
    return [
        Job(item.path, names.get(item.path, STREAM), item.path in names, item.searched, output_dir)
        for item in found
    ]


def _is_renamed(job: Job) -> bool:
    return job.derived and os.path.splitext(job.source)[1] != os.path.splitext(job.output)[1]


def _check_name(path: str) -> None:
    if "\0" in path:
        raise AlphaMFError(
            f"{printable_name(path)} is not a valid file name: it contains a NUL character"
        )


def _identify(path: str) -> Identity:
    """Return the identity of the file that a path leads to; a stream has one of its own."""
    _check_name(path)
    return Identity(-1, -1, STREAM) if path == STREAM else identify(path)


def _conflict(
    job: Job, taken: Mapping[Identity, str], guarded: Mapping[Identity, str], overwrite: bool
) -> str | None:
    """Return an error message if an output conflicts with a file or lies behind a link, or None."""
    source = printable_name(job.source)
    if job.output == STREAM:
        return None
    file = _identify(job.output)
    if file == _identify(job.source):
        return f"{source} is also its own output; choose another `output` or `output_dir`"
    if file in guarded:
        return f"{source} would replace {guarded[file]}; choose another `output` or `output_dir`"
    names = possible_names(job.source, job.output) if job.derived else [job.output]
    for name in names:
        if (other := taken.get(_identify(name))) is not None:
            return (
                f"{source} has the same output as {printable_name(other)}: {printable_name(name)}"
            )
    if would_overwrite(job.output) and not overwrite:
        return None if job.searched and job.derived else str(exists_error(job.output))
    if job.link_root is not None:
        try:
            refuse_links(job.output, job.link_root)
        except AlphaMFError as error:
            return str(error)
    return None
