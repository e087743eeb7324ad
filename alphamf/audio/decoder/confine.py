"""Remove all rights of a process except computing and using its open files.

Recordings may come from strangers, and decoders are large programs in C. Two features of Linux
prevent a compromised decoder from doing harm: a seccomp filter allows a short list of system
calls, and Landlock denies files, the network and signals, whatever the system call.

Both are called through ctypes; kernels guarantee that these system calls do not change.
"""

import ctypes
import os
import platform
import signal
import struct
import sys
from collections.abc import Iterable
from functools import cache

SECCOMP, LANDLOCK = 1, 2
"""Bits of the result of `confine`."""

NAMES = {SECCOMP: "seccomp", LANDLOCK: "Landlock"}
"""Names of the restrictions, for messages."""

MEMORY = 4 << 30
"""Maximum number of bytes of address space of a decoder."""

_CALLS = {
    "x86_64": {
        "read": 0, "write": 1, "close": 3, "lseek": 8, "munmap": 11, "brk": 12,
        "rt_sigaction": 13, "rt_sigprocmask": 14, "rt_sigreturn": 15, "sched_yield": 24,
        "mremap": 25, "madvise": 28, "nanosleep": 35, "getpid": 39, "exit": 60, "gettimeofday": 96,
        "sigaltstack": 131, "gettid": 186, "time": 201, "futex": 202, "sched_getaffinity": 204,
        "restart_syscall": 219, "clock_gettime": 228, "clock_nanosleep": 230, "exit_group": 231,
        "preadv": 295, "preadv2": 327, "getrandom": 318, "mmap": 9, "mprotect": 10, "ftruncate": 77,
    },
    "aarch64": {
        "read": 63, "write": 64, "close": 57, "lseek": 62, "munmap": 215, "brk": 214,
        "rt_sigaction": 134, "rt_sigprocmask": 135, "rt_sigreturn": 139, "sched_yield": 124,
        "mremap": 216, "madvise": 233, "nanosleep": 101, "getpid": 172, "exit": 93,
        "gettimeofday": 169, "sigaltstack": 132, "gettid": 178, "futex": 98,
        "sched_getaffinity": 123, "restart_syscall": 128, "clock_gettime": 113,
        "clock_nanosleep": 115, "exit_group": 94, "preadv": 69, "preadv2": 286, "getrandom": 278,
        "mmap": 222, "mprotect": 226, "ftruncate": 46,
    },
}  # fmt: skip
"""Numbers of the system calls that a decoder may make, by machine."""

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_NOT_EXECUTABLE = "mmap", "mprotect"
"""System calls of `_CALLS` that must not make memory executable."""

_PROT_EXEC = 4
_ALLOW, _DENY, _KILL = 0x7FFF0000, 0x00050001, 0x80000000
"""Return values of a filter; a call that is denied fails with EPERM."""

_LOAD, _EQUAL, _ANY_BIT, _RETURN = 0x20, 0x15, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _THIRD_ARGUMENT = 0, 4, 32
"""Offsets in the data that a filter gets for a call."""

_PARENT_DEATH_SIGNAL, _NO_NEW_PRIVILEGES, _SECCOMP, _FILTER = 1, 38, 22, 2
"""Options of prctl, and the mode of seccomp that installs a filter."""

_CREATE_RULESET, _RESTRICT_SELF, _VERSION = 444, 446, 1
_FILES = ((1, 0x1FFF), (2, 0x2000), (3, 0x4000), (5, 0x8000))
"""Pairs: a version of Landlock, and the rights on files that it and all later ones can deny."""


def confine(*, writes: bool = False) -> int:
    """Permanently deny this process files, sockets, processes and signals, if the kernel can.

    Open files stay usable; `writes`: for writing, too. Memory is limited to `MEMORY`. The process
    must have one thread and all it needs loaded. Returns the bits `SECCOMP`, `LANDLOCK` that apply.
    """
    if sys.platform != "linux":
        return 0
    _limit(writes=writes)
    libc = _libc()
    if libc.prctl(_NO_NEW_PRIVILEGES, 1, 0, 0, 0):
        return 0
    done = LANDLOCK if _landlock(libc) else 0  # first, as the filter denies it
    return done | (SECCOMP if _seccomp(libc) else 0)


def end_with_parent(parent: int) -> None:
    """Have the kernel kill this process when its parent ends; exit if the parent has ended."""
    if sys.platform == "linux":
        _libc().prctl(_PARENT_DEATH_SIGNAL, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:
            os._exit(0)


def prepare() -> None:
    """Prepare what `confine` needs in all processes that are forked from this one."""
    if sys.platform == "linux":
        import resource  # noqa: F401

        _libc()
        _filter()


def _limit(*, writes: bool) -> None:
    """Limit the memory, and forbid core dumps and, without `writes`, writing to files."""
    if sys.platform == "win32":
        return
    import resource

    limits = {resource.RLIMIT_CORE: 0, resource.RLIMIT_AS: MEMORY}
    if not writes:
        limits[resource.RLIMIT_FSIZE] = 0
    for kind, most in limits.items():
        hard = resource.getrlimit(kind)[1]
        most = most if hard == resource.RLIM_INFINITY else min(most, hard)
        resource.setrlimit(kind, (most, most))


def _landlock(libc: ctypes.CDLL) -> bool:
    """Deny files and, if Landlock can, network and signals; return whether this worked."""
    version = libc.syscall(_CREATE_RULESET, None, 0, _VERSION)
    if version < 1:
        return False
    files = sum(rights for least, rights in _FILES if version >= least)
    rules = struct.pack("=Q", files)
    rules += struct.pack("=Q", 3) if version >= 4 else b""
    rules += struct.pack("=Q", 3) if version >= 6 else b""
    # ctypes passes variadic arguments as ints unless they have a type.
    ruleset = libc.syscall(_CREATE_RULESET, rules, ctypes.c_size_t(len(rules)), 0)
    if ruleset < 0:
        return False
    failed = libc.syscall(_RESTRICT_SELF, ruleset, 0)
    os.close(ruleset)
    return not failed


def _seccomp(libc: ctypes.CDLL) -> bool:
    """Deny all system calls except those of `_CALLS`; return whether this worked."""
    filter = _filter()
    if filter is None:
        return False
    buffer = ctypes.create_string_buffer(filter, len(filter))
    program = struct.pack("HxxxxxxQ", len(filter) // 8, ctypes.addressof(buffer))
    return not libc.prctl(_SECCOMP, _FILTER, program, 0, 0)


@cache
def _libc() -> ctypes.CDLL:
    return ctypes.CDLL(None, use_errno=True)


@cache
def _filter() -> bytes | None:
    """Return the filter, a kernel program (`man 2 seccomp`); None for 32 bits or other machines."""
    machine = platform.machine()
    if machine not in _CALLS or sys.maxsize < 1 << 32:
        return None
    architecture, calls = _ARCHITECTURES[machine], _CALLS[machine]
    free = [number for name, number in calls.items() if name not in _NOT_EXECUTABLE]
    checked = [calls[name] for name in _NOT_EXECUTABLE]
    count = len(free) + len(checked)
    lines: Iterable[tuple[int, int, int, int]] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, architecture),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        # How many lines to pass over where the number is equal: to the last line, or to the third
        # before it.
        *((_EQUAL, count - k + 3, 0, number) for k, number in enumerate(free)),
        *((_EQUAL, len(checked) - k, 0, number) for k, number in enumerate(checked)),
        (_RETURN, 0, 0, _DENY),
        (_LOAD, 0, 0, _THIRD_ARGUMENT),
        (_ANY_BIT, 0, 1, _PROT_EXEC),
        (_RETURN, 0, 0, _DENY),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("=HBBI", *line) for line in lines)
