"""A decoder can open nothing, and nothing that it answers does harm."""

import json
import os
import struct
import subprocess
import sys
from functools import partial

import numpy as np
import psutil
import pytest
import soundfile

from alphamf.audio import formats
from alphamf.audio.decoder import confine, sandbox
from alphamf.audio.decoder.client import open_confined
from alphamf.audio.decoder.sandbox import STARTED
from alphamf.audio.opening import Sound
from alphamf.audio.reader import open_reader, open_sound, read
from alphamf.audio.writer import open_writer
from alphamf.errors import AlphaMFError

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="seccomp and Landlock are Linux'")

ATTEMPTS = {
    "read a file": "open('/etc/passwd').read()",
    "write a file": "open(FOLDER + '/made', 'w')",
    "write its own input": "os.write(given, b'x')",
    "list a folder": "os.listdir('/')",
    "look at a file": "os.stat('/etc/passwd')",
    "delete a file": "os.unlink(FOLDER + '/given')",
    "make a folder": "os.mkdir(FOLDER + '/made')",
    "make a link": "os.symlink('a', FOLDER + '/made')",
    "open a descriptor again": "open(f'/proc/self/fd/{given}')",
    "make a socket": "socket.socket()",
    "make a Unix socket": "socket.socket(socket.AF_UNIX)",
    "make a pipe": "os.pipe()",
    "copy a descriptor": "os.dup(given)",
    "run a program": "os.execv('/bin/true', ['true'])",
    "fork": "os.fork()",
    "start a thread": "_thread.start_new_thread(print, ())",
    "end another process": "os.kill(os.getppid(), 9)",
    "end itself by a signal": "os.kill(os.getpid(), 9)",
    "trace a process": "call(libc.ptrace, 16, os.getppid(), 0, 0)",
    "read another's memory": "call(libc.process_vm_readv, os.getppid(), 0, 0, 0, 0, 0)",
    "make memory executable": "mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_EXEC)",
    "change its limits": "resource.setrlimit(resource.RLIMIT_NOFILE, (9, 9))",
    "mount": "call(libc.mount, b'a', b'/', b'b', 0, 0)",
    "load a library": "ctypes.CDLL('libresolv.so.2')",
    "use the system's keys": "call(libc.syscall, 250, 0, 0)",
    "use io_uring": "call(libc.syscall, 425, 8, 0)",
    "use BPF": "call(libc.syscall, 321, 0, 0, 0)",
}
"""What a program tries, by what it is."""

FILES = "read a file", "write a file", "list a folder", "delete a file", "make a folder"
"""What Landlock denies alone."""

PROBE = """
import _thread, ctypes, mmap, os, resource, socket, sys
from alphamf.audio.decoder import confine

FOLDER = sys.argv[1]
libc = ctypes.CDLL(None, use_errno=True)

def call(function, *arguments):
    if function(*arguments) < 0:
        raise OSError(ctypes.get_errno(), "denied")

def attempt():
    TRY

given = os.open(FOLDER + "/given", os.O_RDONLY)
for name in sys.argv[2:]:
    setattr(confine, name, lambda libc: False)
os.write(1, b"%d " % confine.confine())
assert os.preadv(given, [bytearray(5)], 0) == 5
try:
    attempt()
except (OSError, RuntimeError, ValueError):
    os.write(1, b"denied")
else:
    os.write(1, b"allowed")
os._exit(0)
"""


def probe(folder, attempt, *without):
    """Return what confines a process that tries something, and whether it could."""
    (folder / "given").write_bytes(b"given")
    code = PROBE.replace("TRY", ATTEMPTS[attempt])
    command = [sys.executable, "-c", code, str(folder), *without]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 0, done.stderr
    layers, answer = done.stdout.split()
    return int(layers), answer


@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_a_confined_process_can_do_nothing_else(tmp_path, attempt):
    layers, answer = probe(tmp_path, attempt)
    if not layers:
        pytest.skip("the kernel has neither seccomp nor Landlock")
    assert answer == "denied"
    assert os.listdir(tmp_path) == ["given"]


@pytest.mark.parametrize("attempt", FILES)
@pytest.mark.parametrize("lack", ["_seccomp", "_landlock"])
def test_one_layer_denies_files_where_the_other_is_not_there(tmp_path, attempt, lack):
    layers, answer = probe(tmp_path, attempt, lack)
    if not layers:
        pytest.skip("the kernel has one of the two")
    assert layers == (confine.LANDLOCK if lack == "_seccomp" else confine.SECCOMP)
    assert answer == "denied"


def test_without_either_the_process_can(tmp_path):
    assert probe(tmp_path, "read a file", "_seccomp", "_landlock") == (0, "allowed")


def written(folder, form, subtype):
    """Write noise in a format; return the file."""
    path = folder / f"a{form.suffixes[0]}"
    rate = 8000 if subtype == "AMR_NB" else 48000
    channels = 1 if subtype == "AMR_NB" else 2
    sound = 0.1 * np.random.default_rng(0).standard_normal((rate, channels))
    with open_writer(path, rate, channels, format=form.name, subtype=subtype) as writer:
        writer.write(sound.astype(np.float32))
    return path


CASES = [(form, subtype) for form in formats.FORMATS.values() for subtype in form.subtypes]


@pytest.mark.parametrize(("form", "subtype"), CASES, ids=lambda it: getattr(it, "name", it))
def test_every_format_gives_the_same_samples_and_facts(tmp_path, monkeypatch, form, subtype):
    path = written(tmp_path, form, subtype)
    found = []
    for value in ("on", "off"):
        monkeypatch.setenv(sandbox.VARIABLE, value)
        with open_reader(path) as reader:
            assert sandbox.state().startswith("off") == (value == "off")
            blocks = list(reader.blocks(5000, exact=True))
        with open_sound(path, "a") as file:
            blocks.append(file.read(999))
        found.append((reader, blocks))
    assert found[0][0] == found[1][0]
    for one, other in zip(found[0][1], found[1][1], strict=True):
        assert one.dtype == other.dtype and np.array_equal(one, other)


@pytest.mark.parametrize("name", ["a.au", "a.snd", "a.vox", "a.gsm", "a.raw", "a.xyz", "a", "A.AU"])
def test_files_without_a_header_are_taken_for_the_same(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(np.random.default_rng(0).bytes(33 * 400))
    found = []
    for opened in (open_confined, partial(Sound, ending=path.suffix)):
        try:
            with opened(path, "a", None) as file:
                facts = file.format, file.subtype, file.samplerate, file.channels, file.frames
                found.append((facts, file.read(10**5).tobytes()))
        except AlphaMFError as error:
            found.append(str(error))
    assert found[0] == found[1]


def header(kind, length):
    return struct.pack("=cQ", kind, length)


CONFINED = header(sandbox.DONE, 5) + STARTED.pack(3, 2**22 + 1)
KIND = {
    "samplerate": 16000, "channels": 2, "frames": 9, "format": "WAV", "subtype": "PCM_16",
    "media": True, "count": 1, "spare": 0, "cut": None,
}  # fmt: skip


def told(**changes):
    facts = json.dumps({**KIND, **changes}).encode()
    return CONFINED + header(sandbox.DONE, len(facts)) + facts


LIES = {
    "ends": CONFINED,
    "answers something else": CONFINED + header(b"X", 0),
    "promises without end": CONFINED + header(sandbox.DONE, 2**63),
    "a sentence without end": CONFINED + header(sandbox.REFUSED, 2**40),
    "no JSON": CONFINED + header(sandbox.DONE, 3) + b"{{{",
    "deep JSON": CONFINED + header(sandbox.DONE, 10**5) + b"[" * 10**5,
    "another type": CONFINED + header(sandbox.DONE, 2) + b"[]",
    "no channels": told(channels=0),
    "channels without end": told(channels=10**9),
    "words for numbers": told(frames="many"),
    "infinitely many": told(frames=float("inf")),
    "too many samples": told() + header(sandbox.DONE, 10**12),
    "half a sample": told() + header(sandbox.DONE, 7),
    "fewer samples than it says": told() + header(sandbox.DONE, 16) + b"12345678",
}


@pytest.mark.parametrize("lie", LIES)
def test_a_decoder_that_was_taken_over_costs_one_sentence(tmp_path, monkeypatch, lie):
    def request(data, descriptors):
        left = LIES[lie]
        os.set_blocking(descriptors[1], False)
        while left:
            left = left[os.write(descriptors[1], left) :]

    monkeypatch.setattr(sandbox, "request", request)
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros((9, 2)), 16000)
    with pytest.raises(AlphaMFError, match=r"^a\.wav cannot be decoded: the decoder crashed$"):
        with open_confined(path, "a.wav", None) as file:
            file.read(9)


def test_a_sentence_of_a_decoder_does_not_command_the_terminal(tmp_path, monkeypatch):
    sentence = b"\x1b[2J\n"
    answer = CONFINED + header(sandbox.REFUSED, len(sentence)) + sentence
    monkeypatch.setattr(sandbox, "request", lambda data, files: os.write(files[1], answer))
    with pytest.raises(AlphaMFError) as refused:
        open_confined(tmp_path, "a", None)
    assert str(refused.value) == r"\x1b[2J\n"


def helpers() -> list[psutil.Process]:
    """Return the processes that this one forks decoders with, ended ones too."""
    return [it for it in psutil.Process().children() if sandbox._START in it.cmdline()]


def test_the_helper_starts_again_after_it_was_killed_and_leaves_no_process(tmp_path):
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(80), 16000)
    first = read(path)[0]
    (ours,) = helpers()
    ours.kill()
    ours.wait(30)
    assert np.array_equal(read(path)[0], first)
    (other,) = helpers()
    kept = os.dup(sandbox._control.fileno())  # as a fork of this process would
    sandbox._disconnect()
    os.close(kept)
    assert not other.is_running() and not helpers()


@pytest.mark.parametrize("name", ["frozen", "embedded"])
def test_where_there_is_no_python_one_sentence_says_what_to_do(tmp_path, monkeypatch, name):
    """A frozen program would start itself, again and again."""
    sandbox._disconnect()
    monkeypatch.setattr(sys, "executable", sys.executable if name == "frozen" else "/bin/true")
    monkeypatch.setattr(sys, "exec_prefix", str(tmp_path))
    if name == "frozen":
        monkeypatch.setattr(sys, "frozen", True, raising=False)
    path = tmp_path / "a.wav"
    soundfile.write(path, np.zeros(80), 16000)
    with pytest.raises(AlphaMFError, match=r"no process can be started for it .*`no_sandbox`"):
        read(path)
