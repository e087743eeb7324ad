"""The plug-ins in hosts: the sound of a stream, late by its latency; installed and removed."""

import ctypes
import os
import shutil
import subprocess
import sys
from ctypes import POINTER, c_char_p, c_float, c_int, c_ulong, c_void_p
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import soundfile

from alphamf import PRESETS, Stream, __version__
from alphamf.audio.resample import resample
from alphamf.errors import AlphaMFError
from alphamf.learnt.causal import aligned
from alphamf.native import engine, plugin
from tests.support.commands import run
from tests.support.places import DATA, ROOT

if not engine.AVAILABLE:
    pytest.skip("the engine was not built", allow_module_level=True)

KINDS = {1: "mono", 2: "stereo"}
STRENGTH, ATTENUATION, BYPASS, LATENCY, AUDIO = range(5)


@pytest.fixture(scope="module")
def installed(tmp_path_factory):
    """Install the plug-ins into folders of their own, and return their files, LADSPA's first."""
    folder = tmp_path_factory.mktemp("plugins")
    with pytest.MonkeyPatch.context() as patch:
        for kind in plugin.FILES:
            patch.setenv(f"{kind}_PATH", str(folder / kind))
        printed = run("plugin", "install").stdout.split()
    assert printed == [str(folder / kind / file) for kind, file in plugin.FILES.items()]
    return [Path(name) for name in printed]


def noisy(rate, channels, seconds=1.0):
    one, own = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    sound = resample(one[: int(own * seconds)], own, rate)
    return np.stack([sound, 0.5 * np.roll(sound, 5)], axis=1)[:, :channels]


def streamed(audio, rate, settings="fast"):
    """Return a stream's output as a player gets it: behind the silence of the latency."""
    with Stream(rate, audio.shape[1], settings, latency="low") as stream:
        late = np.zeros((round(stream.latency * rate), audio.shape[1]), np.float32)
        return np.concatenate([late, stream.process(audio), stream.flush()])[: len(audio)]


class Descriptor(ctypes.Structure):
    """LADSPA_Descriptor of ladspa.h 1.1."""

    _fields_ = (
        ("id", c_ulong),
        ("label", c_char_p),
        ("properties", c_int),
        ("name", c_char_p),
        ("maker", c_char_p),
        ("copyright", c_char_p),
        ("port_count", c_ulong),
        ("ports", POINTER(c_int)),
        ("port_names", POINTER(c_char_p)),
        ("ranges", c_void_p),
        ("data", c_void_p),
        ("instantiate", ctypes.CFUNCTYPE(c_void_p, c_void_p, c_ulong)),
        ("connect", ctypes.CFUNCTYPE(None, c_void_p, c_ulong, c_void_p)),
        ("activate", ctypes.CFUNCTYPE(None, c_void_p)),
        ("run", ctypes.CFUNCTYPE(None, c_void_p, c_ulong)),
        ("run_adding", c_void_p),
        ("set_gain", c_void_p),
        ("deactivate", c_void_p),
        ("clean_up", ctypes.CFUNCTYPE(None, c_void_p)),
    )


class Host:
    """Runs a LADSPA plug-in on arrays, in place."""

    def __init__(self, file, channels, rate):
        library = ctypes.CDLL(str(file))
        library.ladspa_descriptor.restype = POINTER(Descriptor)
        library.ladspa_descriptor.argtypes = [c_ulong]
        assert not library.ladspa_descriptor(2)
        found = library.ladspa_descriptor(channels - 1)
        self.about, self.channels = found.contents, channels
        assert self.about.label == f"alphamf_{KINDS[channels]}".encode()
        self.controls = [c_float(value) for value in (1, 100, 0, -1)]
        self._handle = self.about.instantiate(ctypes.cast(found, c_void_p), rate)
        assert self._handle
        for port, control in enumerate(self.controls):
            self.about.connect(self._handle, port, ctypes.addressof(control))
        self.about.activate(self._handle)

    def process(self, audio, sizes):
        planes = np.ascontiguousarray(audio.T)
        places = np.cumsum([0, *sizes]).clip(max=len(audio))
        for start, end in zip(places, [*places[1:], len(audio)], strict=True):
            for c, plane in enumerate(planes):
                address = plane[start:].ctypes.data if start < len(audio) else plane.ctypes.data
                self.about.connect(self._handle, AUDIO + c, address)
                self.about.connect(self._handle, AUDIO + self.channels + c, address)
            self.about.run(self._handle, int(end - start))
        return planes.T

    def close(self):
        self.about.clean_up(self._handle)


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (44100, 1), (48000, 2)])
def test_a_host_gets_the_sound_of_a_stream(installed, rate, channels):
    audio = noisy(rate, channels)
    host = Host(installed[0], channels, rate)
    sizes = np.random.default_rng(rate).integers(0, rate // 50, 60)
    np.testing.assert_array_equal(host.process(audio, sizes), streamed(audio, rate))
    assert host.controls[LATENCY].value == Stream(rate, 1, latency="low").latency * rate
    host.about.activate(host._handle)  # anew: nothing is left of what came before
    np.testing.assert_array_equal(host.process(audio, []), streamed(audio, rate))
    host.close()


def test_controls(installed):
    rate = 16000
    audio = noisy(rate, 1)
    host = Host(installed[0], 1, rate)
    host.controls[ATTENUATION].value = 12
    limited = streamed(audio, rate, replace(PRESETS["fast"], max_attenuation=12.0))
    np.testing.assert_allclose(host.process(audio, []), limited, atol=1e-6)
    host.about.activate(host._handle)
    host.controls[ATTENUATION].value = 100
    host.controls[STRENGTH].value = 0.75
    host.process(audio[:2560], [])  # from one strength to another it goes within a hop
    mixed = streamed(audio, rate, replace(PRESETS["fast"], dry=0.25))
    host.about.activate(host._handle)
    np.testing.assert_allclose(host.process(audio, []), mixed, atol=1e-6)
    host.controls[BYPASS].value = 1
    host.about.activate(host._handle)
    late = np.concatenate([np.zeros((640, 1), np.float32), audio[:-640]])
    np.testing.assert_allclose(host.process(audio, [])[1000:], late[1000:], atol=1e-6)
    host.close()


def test_it_needs_nothing_but_the_system(installed):
    if not shutil.which("nm"):
        pytest.skip("no nm")
    listed = subprocess.run(
        ["nm", "-D", installed[0]], capture_output=True, text=True, check=True
    ).stdout
    needed = {line.split()[-1].partition("@")[0] for line in listed.splitlines() if " U " in line}
    assert not [name for name in needed if name.startswith(("Py", "_Py"))]
    assert needed & {"malloc", "free"} == {"free"}
    given = {line.split()[-1] for line in listed.splitlines() if " T " in line}
    public = {
        "ladspa_descriptor",
        "lv2_descriptor",
        "GetPluginFactory",
        "ModuleEntry",
        "ModuleExit",
    }
    assert {name for name in given if not name.startswith("alphamf_")} == public


def test_a_broken_file_is_no_plugin(installed, tmp_path):
    content = installed[0].read_bytes()
    alone = content[: Path(engine.library_file()).stat().st_size]
    for k, broken in enumerate((content[:-1], content[:-48] + content[-40:], alone)):
        file = tmp_path / f"{k}.so"
        file.write_bytes(broken)
        library = ctypes.CDLL(str(file))
        library.ladspa_descriptor.restype = POINTER(Descriptor)
        found = library.ladspa_descriptor(0)
        assert not found.contents.instantiate(ctypes.cast(found, c_void_p), 16000)


def host_or_skip(*commands):
    for command in commands:
        if not shutil.which(command):
            pytest.skip(f"no {command}")


def ran(folder, installed, *command):
    variables = {
        "LADSPA_PATH": installed[0].parent,
        "LV2_PATH": f"{installed[1].parents[1]}:/usr/lib/lv2",
    }
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **{name: str(value) for name, value in variables.items()}},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


HOSTS = {
    "applyplugin": "applyplugin in.wav out.wav {file} alphamf_{kind} 1 100 0",
    "lv2apply": "lv2apply -i in.wav -o out.wav urn:alphamf:{kind}",
    "ffmpeg": "ffmpeg -loglevel error -i in.wav -af ladspa=file={file}:plugin=alphamf_{kind} "
    "-c:a pcm_f32le out.wav",
}


@pytest.mark.parametrize("channels", [1, 2])
@pytest.mark.parametrize("host", HOSTS)
def test_in_hosts(installed, tmp_path, host, channels):
    host_or_skip(host)
    if host == "ffmpeg" and " ladspa " not in ran(tmp_path, installed, host, "-filters"):
        pytest.skip("ffmpeg without LADSPA")
    # applyplugin knows 16 bits only.
    subtype, near = ("PCM_16", 2**-15) if host == "applyplugin" else ("FLOAT", 0)
    rate = {"applyplugin": 16000, "lv2apply": 48000, "ffmpeg": 44100}[host]
    soundfile.write(tmp_path / "in.wav", noisy(rate, channels), rate, subtype=subtype)
    command = HOSTS[host].format(file=installed[0], kind=KINDS[channels])
    ran(tmp_path, installed, *command.split())
    audio, out = (
        soundfile.read(tmp_path / f"{name}.wav", dtype="float32", always_2d=True)[0]
        for name in ("in", "out")
    )
    np.testing.assert_allclose(out, streamed(audio, rate), rtol=0, atol=near)


def test_lv2_finds_no_fault_in_the_description(installed, tmp_path):
    host_or_skip("lv2_validate", "sord_validate")
    bundle = installed[1].parent
    texts = [bundle.parent / name for name in plugin.TEXTS]
    assert "Found 0 errors" in ran(tmp_path, installed, "lv2_validate", *texts)


def vst3(installed):
    """Open the plug-in in a host of VST3; as the host does, `process` takes the latency away."""
    pedalboard = pytest.importorskip("pedalboard", reason="pedalboard is not installed")
    return pedalboard.load_plugin(str(vst3_file(installed).parents[2]))


def vst3_file(installed):
    if "VST3" not in plugin.FILES:
        pytest.skip("VST3 is installed on Linux only")
    return installed[2]


@pytest.mark.parametrize(
    ("rate", "channels", "size"),
    [(8000, 2, 64), (16000, 1, 1), (44100, 2, 8192), (48000, 1, 480), (192000, 1, 1000)],
)
def test_in_pedalboard(installed, rate, channels, size):
    host, audio = vst3(installed), noisy(rate, channels, 0.5)
    assert host.version == __version__
    for each in (audio, np.where(np.arange(len(audio)) % 999, audio.T, np.nan).T):  # and anew
        with Stream(rate, channels, latency="low") as stream:
            clean = np.concatenate([stream.process(np.nan_to_num(each)), stream.flush()])
        np.testing.assert_array_equal(host.process(each.T, rate, size).T, clean)


def test_instances_of_vst3_have_values_of_their_own(installed):
    rate, audio = 16000, noisy(16000, 1)
    whole, limited, other = (vst3(installed) for _ in range(3))
    limited.most_attenuation_db, limited.strength = 12.0, 0.75
    other.raw_state = limited.raw_state
    assert (other.most_attenuation_db, other.strength, other.bypass) == (12.0, 0.75, False)
    assert whole.strength == 1
    settings = replace(PRESETS["fast"], max_attenuation=12.0, dry=0.25)
    blocks = [audio[:7000].T, audio[7000:].T]
    made = [
        [host.process(each, rate, 500, reset=False) for host in (whole, other)] for each in blocks
    ]
    for k, wanted in enumerate((streamed(audio, rate), streamed(audio, rate, settings))):
        found = np.concatenate([each[k].T for each in made])
        np.testing.assert_allclose(found, wanted[-len(found) :], atol=1e-6)
    limited.bypass = True
    np.testing.assert_allclose(limited.process(audio.T, rate).T[1000:], audio[1000:], atol=1e-6)


NATIVE = ROOT / "alphamf" / "native"
ABSURD = f"-I{NATIVE}", ROOT / "tests" / "native" / "absurd_host.c", "-o"


def test_absurd_hosts_of_vst3_are_survived(installed, tmp_path):
    file = vst3_file(installed)
    host_or_skip("cc")
    ran(tmp_path, installed, "cc", "-std=gnu11", *ABSURD, "host", "-ldl", "-lm")
    assert ran(tmp_path, installed, tmp_path / "host", file) == "survived\n"


@pytest.mark.slow
def test_vst3_for_windows_survives_them_too(installed, tmp_path):
    pytest.importorskip("ziglang", reason="ziglang is not installed")
    host_or_skip("wine")
    zig = sys.executable, "-m", "ziglang", "cc", "-target", "x86_64-windows-gnu", "-O1"
    ran(tmp_path, installed, *zig, "-shared", *NATIVE.glob("*.c"), "-o", "raw.dll")
    ran(tmp_path, installed, *zig, *ABSURD, "host.exe")
    content = installed[0].read_bytes()
    sizes = plugin.TRAILER.unpack(content[-plugin.TRAILER.size :])[:2]
    weights = content[-plugin.TRAILER.size - sum(sizes) :]
    made = aligned((tmp_path / "raw.dll").read_bytes()) + weights
    (tmp_path / "alphamf.vst3").write_bytes(made)
    assert "survived" in ran(tmp_path, installed, "wine", "host.exe", "alphamf.vst3")


def test_they_are_installed_and_removed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    for kind in plugin.FILES:
        monkeypatch.delenv(f"{kind}_PATH", raising=False)
    assert "no plug-in is installed" in run("plugin", "path", code=2).stderr
    places = [str(tmp_path / f".{kind.lower()}" / file) for kind, file in plugin.FILES.items()]
    for _ in range(2):  # a second time over the first
        assert run("plugin", "install").stdout.split() == places
    assert run("plugin", "path").stdout.split() == places
    own = Path(places[1]).parent / "mine.ttl"
    own.write_text("")
    assert run("plugin", "remove").stdout.split() == places
    assert run("plugin", "remove").stdout == ""
    assert own.exists() and not Path(places[0]).exists()
    assert Path(places[0]).parent.exists(), "the folder is the user's"
    assert "VST3" not in plugin.FILES or list((tmp_path / ".vst3").iterdir()) == []


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """Have folders of plug-ins, and content that is quick to make."""
    for kind in plugin.FILES:
        monkeypatch.setenv(f"{kind}_PATH", str(tmp_path / kind))
    return tmp_path


CONTENT = b"code" + plugin.TRAILER.pack(0, 0, plugin.MAGIC)
FILES = [f"{kind}/{file}" for kind, file in plugin.FILES.items()]
FILES += [f"LV2/{name}" for name in plugin.TEXTS]


def everything(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("kind", ["file", "short", "link", "folder of links"])
def test_what_is_not_ours_is_neither_replaced_nor_deleted(folders, name, kind):
    plugin.install(CONTENT)
    place, victim = folders / name, folders / "victim"
    victim.mkdir()
    (victim / "own").write_bytes(CONTENT)
    if kind == "folder of links":
        place.parent.rename(victim / "moved")
        place.parent.symlink_to(victim / "moved")
        if name.startswith("LADSPA"):
            pytest.skip("the user's own folder may be a link")
    else:
        place.unlink()
    if kind == "link":
        place.symlink_to(victim / "own")
    elif kind != "folder of links":
        place.write_bytes(b"a stranger's, and longer than the trailer" if kind == "file" else b"")
    before = everything(folders)
    with pytest.raises(AlphaMFError, match=r"is not alphamf's|is a link"):
        plugin.install(CONTENT + CONTENT)
    assert everything(folders) == before
    plugin.remove()
    left = everything(folders)
    assert left[victim / "own"] == CONTENT and (kind == "folder of links" or place in left)
    assert not [path for path in left if path.parent == place.parent and path != place]


@pytest.mark.parametrize("command", ["install", "remove", "path"])
def test_without_a_home_it_is_one_sentence(monkeypatch, command):
    def unknown():
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.setattr(Path, "home", unknown)
    for kind in plugin.FILES:
        monkeypatch.delenv(f"{kind}_PATH", raising=False)
    assert "this user has no home folder; set HOME or LADSPA_PATH" in (
        run("plugin", command, code=2).stderr
    )


def test_a_folder_that_cannot_be_written(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LADSPA_PATH", str(tmp_path / "file" / "below"))
    assert "cannot be created" in run("plugin", "install", code=2).stderr
