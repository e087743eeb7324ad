"""Cut the power after every call to the system: what was promised must be on the disk.

For example::

    python -m benchmarks.attacks.power_cuts --only denoise,evaluate

A command runs once under strace, which says what it changed in its folder and what it synced. A cut
keeps what was synced, and of all other changes any part in any order, as file systems may (Pillai
and others, OSDI 2014). So this must hold after each call: a file was synced before it got the name
of an output; an output that a line of standard output, standard error or a table of results names,
and every output when the command has ended well, was synced, and so were its name and those of its
folders. Linux only.
"""

import re
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

from alphamf.tools import tables
from benchmarks.attacks.commands import FEW, LIVE, Task, prepare, start
from benchmarks.report import run_main

# Commands; `adapt` writes its model as `train` does
CUT_TASKS = {name: task for name, task in FEW.items() if name != "adapt"} | {"live": LIVE}
CALLS = (
    "open,openat,creat,write,pwrite64,writev,pwritev,pwritev2,ftruncate,fallocate,sendfile,"
    "copy_file_range,rename,renameat,renameat2,link,linkat,unlink,unlinkat,mkdir,mkdirat,rmdir,"
    "fsync,fdatasync"
)
STRACE = ("strace", "-f", "--seccomp-bpf", "-y", "-s", "100000", "-e", f"trace={CALLS}")

_CALL = re.compile(r"^(\w+)\((.*)\) += (\d+)(?:<(.*)>)?$")
_DESCRIPTOR = re.compile(r"\d+<([^<>]*)>")
_PATH = re.compile(r'(?:(?:AT_FDCWD|\d+)<([^<>]*)>, )?"((?:[^"\\]|\\.)*)"')
_BY_PATH = ("open", "creat", "rename", "link", "unlink", "mkdir", "rmdir")
# Endings of files that are appended to, or that only a restarted command reads
GROWING = (".jsonl", ".checkpoint")


@dataclass
class Disk:
    """Changes of a command below a folder, and which of them are not yet on the disk."""

    folder: Path
    calls: int = 0  # Number of calls after which the power can be cut
    syncs: int = 0
    promises: int = 0  # Number of outputs that a line named or that were there at the end
    problems: list[str] = field(default_factory=list)  # One sentence per problem
    _dirty: set[str] = field(default_factory=set)  # Files with contents that are not synced
    _unnamed: set[str] = field(default_factory=set)  # Files and folders whose names are not synced
    _outputs: set[str] = field(default_factory=set)  # Files that bear the name of an output

    def apply(self, line: str) -> None:
        """Apply a call of the system, a line of strace; lines that are no calls are ignored."""
        found = _CALL.match(line.strip())
        if found is None:
            return
        call, arguments, _, opened = found.groups()
        if call.startswith(_BY_PATH):
            paths = [str(self.folder / place / name) for place, name in _PATH.findall(arguments)]
        else:
            paths = _DESCRIPTOR.findall(arguments)[-1 if "range" in call else 0 :][:1]
        paths = [opened] if opened else paths
        if not all(Path(path).is_relative_to(self.folder) for path in paths):
            if "write" in call:
                self._promise(arguments, "a line names")
            return
        if call in ("fsync", "fdatasync"):
            self.syncs += 1
            self._synced(paths[0])
        elif not opened:
            self._changed(call, paths, arguments)
        elif "O_CREAT" in arguments:
            self._made(opened)
        else:
            return
        self.calls += 1

    def end(self) -> None:
        """Check all outputs, which a command promises when it ends well."""
        for path in sorted(self._outputs):
            self._check(path, "the command has ended with")

    def _made(self, path: str) -> None:
        if path not in self._dirty | self._outputs:
            self._unnamed.add(path)
        self._dirty.add(path)
        if _is_output(path):
            self._outputs.add(path)

    def _synced(self, path: str) -> None:
        self._dirty.discard(path)
        self._unnamed = {each for each in self._unnamed if str(Path(each).parent) != path}

    def _changed(self, call: str, paths: list[str], arguments: str) -> None:
        *_, source, target = [paths[0], *paths]
        if call.startswith(("rename", "link")):
            if source in self._dirty and _is_output(target):
                self.problems.append(f"{self._name(target)} may be empty or torn")
            if source in self._dirty:
                self._dirty.add(target)
            if call.startswith("rename"):
                self._gone(source)
            self._unnamed.add(target)
            if _is_output(target):
                self._outputs.add(target)
        elif call.startswith("mkdir"):
            self._unnamed.add(target)
        elif call.startswith(("unlink", "rmdir")):
            self._gone(target)
        else:
            self._dirty.add(target)
            if target in self._outputs and not target.endswith((*GROWING, ".wav")):
                self.problems.append(f"{self._name(target)} is changed where it lies")
            self._promise(arguments, f"{self._name(target)} names")

    def _gone(self, path: str) -> None:
        for those in (self._dirty, self._unnamed, self._outputs):
            those.discard(path)

    def _promise(self, text: str, who: str) -> None:
        for path in sorted(self._outputs):
            if self._name(path) in text and self._name(path) != who.split()[0]:
                self._check(path, who)

    def _check(self, path: str, who: str) -> None:
        self.promises += 1
        if path in self._dirty:
            self.problems.append(f"{who} {self._name(path)}, which may be empty or torn")
        self.problems += [
            f"{who} {self._name(path)}, and {self._name(str(each))} may not be there"
            for each in (Path(path), *Path(path).parents)
            if str(each) in self._unnamed
        ]

    def _name(self, path: str) -> str:
        return str(Path(path).relative_to(self.folder))


def _is_output(path: str) -> bool:
    return not Path(path).name.startswith(".") and not path.endswith(".checkpoint")


def follow(lines: Iterable[str], folder: Path) -> Disk:
    """Return the state of a folder after a trace, with the promises that were not kept."""
    disk = Disk(folder)
    begun: dict[str, str] = {}
    for line in lines:
        process, _, call = line.partition(" ")
        if resumed := re.match(r" *<\.\.\. \w+ resumed>", call):
            call = begun.pop(process, "") + call[resumed.end() :]
        if "<unfinished ...>" in call:  # while another process calls
            begun[process] = call.partition("<unfinished ...>")[0]
        else:
            disk.apply(call)
    disk.end()
    return disk


def cut(name: str, task: Task, place: Path) -> Disk:
    """Run a command under strace, and return the result of a power cut after each call."""
    folder = place / "work"
    prepare(name, folder, few=True)
    if name not in ("train", "live"):
        (folder / "out").rmdir()  # which the command makes
    (folder / "tmp").rename(place / "tmp")
    trace = place / "trace"
    process = start(task, folder, (*STRACE, "-o", str(trace)), place / "tmp")
    errors = process.communicate()[1].decode(errors="replace")
    if process.returncode != (2 if name == "live" else 0):  # when its microphone is unplugged
        raise SystemExit(f"alphamf {task.arguments} ended with {process.returncode}: {errors}")
    with trace.open(encoding="utf-8", errors="replace") as lines:
        return follow(lines, folder)


def rows(names: Iterable[str]) -> Iterator[list[str]]:
    """Yield a row of the table for each command: its words and counts."""
    for name in names:
        task = CUT_TASKS[name]
        with tempfile.TemporaryDirectory(prefix="power-cuts-") as place:
            disk = cut(name, task, Path(place).resolve())
        print(name, *disk.problems, sep="\n  ", file=sys.stderr, flush=True)
        numbers = disk.calls, disk.syncs, disk.promises, len(disk.problems)
        yield [f"`alphamf {task.arguments}`", *map(str, numbers)]


def main(*, only: str = ",".join(CUT_TASKS)) -> None:
    """Check the given commands (default: all), and print the table."""
    found = list(rows(only.split(",")))
    print(tables.markdown(["command", "cuts", "syncs", "promises", "problems"], found))
    raise SystemExit(any(cells[-1] != "0" for cells in found))


if __name__ == "__main__":
    run_main(main)
