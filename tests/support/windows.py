"""A stand-in for Windows: the package sees a system that lacks what Windows lacks.

Only modules of alphamf see it, as the standard library of this system needs all of it. What Windows
lacks is read from typeshed, so that nothing is forgotten.
"""

import ast
import builtins
import importlib
import os
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

MODULES = "fcntl grp posix pty pwd readline resource syslog termios tty".split()
"""Modules that Windows does not have."""

CHANGED = {"sys": {"platform": "win32"}, "os": {"name": "nt", "sep": "\\", "altsep": "/"}}


def holds(test: ast.expr, platform: str) -> bool | None:
    """Return what a condition of typeshed says on a platform; None on another matter."""
    if isinstance(test, ast.BoolOp):
        found = [holds(each, platform) for each in test.values]
        decisive = isinstance(test.op, ast.Or)
        return decisive if decisive in found else None if None in found else not decisive
    match test:
        case ast.Compare(
            ast.Attribute(ast.Name("sys"), "platform"), [operator], [ast.Constant(str(name))]
        ):
            return (name == platform) == isinstance(operator, ast.Eq)
    return None


def names(body: list[ast.stmt], platform: str) -> set[str]:
    """Return the names that statements of typeshed define on a platform."""
    found = set()
    for each in body:
        match each:
            case ast.If():
                said = holds(each.test, platform)
                found |= names(each.body, platform) if said is not False else set()
                found |= names(each.orelse, platform) if said is not True else set()
            case ast.FunctionDef(name=name) | ast.ClassDef(name=name):
                found.add(name)
            case ast.AnnAssign(target=ast.Name(name)) | ast.Assign(targets=[ast.Name(name)]):
                found.add(name)
    return found


def absent(module: str) -> set[str]:
    """Return the names that a module has on Linux and not on Windows."""
    import mypy

    stubs = Path(mypy.__file__).parent / "typeshed" / "stdlib"
    path = stubs / f"{module}.pyi"
    source = path if path.exists() else stubs / module / "__init__.pyi"
    body = ast.parse(source.read_text(encoding="utf-8")).body
    return names(body, "linux") - names(body, "win32")


class Elsewhere(ModuleType):
    """A module of the standard library as it is on Windows."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        real = importlib.import_module(name)
        self.__dict__.update(real=real, absent=absent(name), changed=CHANGED.get(name, {}))
        if name == "os":
            self.changed["open"] = open_file

    def __getattr__(self, name: str) -> Any:
        if name in self.absent:
            raise AttributeError(f"Windows has no {self.__name__}.{name}")
        return self.changed.get(name, getattr(self.real, name))

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self.real, name, value)


def open_file(path, flags, mode=0o777):
    """Open a file: folders are refused."""
    if os.path.isdir(path):
        raise PermissionError(13, "Permission denied", path)
    return os.open(path, flags, mode)


def check_closed(path) -> None:
    """Refuse to rename or delete a file that this process has open."""
    found = os.path.realpath(path)
    for number in os.listdir("/proc/self/fd"):
        if os.path.realpath(f"/proc/self/fd/{number}") == found:
            raise PermissionError(32, "The file is being used by another process", path)


def refuse_open_files(name: str) -> None:
    """Have a function of `os` refuse the files that are open."""
    function = getattr(os, name)

    def checked(*paths, **options):
        for path in paths if not any(value is not None for value in options.values()) else ():
            check_closed(path)
        return function(*paths, **options)

    setattr(os, name, checked)


def lock_byte(file: int, mode: int, count: int) -> None:
    """Lock what no file holds, as what is locked can neither be read nor written."""
    import fcntl

    assert (mode, count) == (2, 1) and os.lseek(file, 0, os.SEEK_CUR) > 1 << 30
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise PermissionError(13, "Permission denied") from None


def pretend() -> None:
    """Show Windows to all modules of alphamf that are imported from now on."""
    assert not any(name.startswith("alphamf.") for name in sys.modules)
    locks: Any = ModuleType("msvcrt")
    locks.LK_NBLCK, locks.locking = 2, lock_byte
    shown = {name: Elsewhere(name) for name in ("os", "select", "signal", "sys", "time")}
    shown["msvcrt"] = locks
    find = builtins.__import__

    def found(name, globals=None, locals=None, fromlist=(), level=0):
        ours = (globals or {}).get("__name__", "").partition(".")[0] == "alphamf"
        top = name.partition(".")[0]
        if ours and not level and top in MODULES:
            raise ModuleNotFoundError(f"Windows has no module {top}", name=top)
        if ours and not level and top in shown and (top == name or not fromlist):
            return shown[top]
        return find(name, globals, locals, fromlist, level)

    builtins.__import__ = found
    for name in ("remove", "rename", "replace", "unlink"):
        refuse_open_files(name)
