"""The engine in WebAssembly and the page without a server, in Node and in Chromium."""

import functools
import shutil
import subprocess
import sys
import threading
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import soundfile
import soxr

from alphamf import Stream
from tests.support.browser import by_id, opened, until, violations
from tests.support.places import DATA, ROOT

pytestmark = pytest.mark.slow

NODE = shutil.which("node")


@pytest.fixture(scope="module")
def built(tmp_path_factory):
    """Build the package and the page."""
    if find_spec("ziglang") is None:
        pytest.skip("ziglang is not installed")
    out = tmp_path_factory.mktemp("web")
    subprocess.run([sys.executable, "-m", "web.build", out], cwd=ROOT, check=True)
    return out


def denoise(built, tmp_path, sound, rate, *cut) -> tuple[np.ndarray | None, str]:
    """Denoise shape (samples, channels) in Node; return that and what was printed."""
    if NODE is None:
        pytest.skip("Node is not installed")
    source, target = tmp_path / "in.f32", tmp_path / "out.f32"
    np.ascontiguousarray(sound.T, np.float32).tofile(source)
    target.unlink(missing_ok=True)
    call = [NODE, Path(__file__).with_name("engine.mjs"), built / "npm", rate, sound.shape[1]]
    said = subprocess.run(
        [*map(str, (*call, source, target, *cut))], capture_output=True, text=True, check=True
    ).stdout.strip()
    if not target.exists():
        return None, said
    return np.fromfile(target, np.float32).reshape(sound.shape[::-1]).T, said


def sample(rate, channels=1):
    sound, native = soundfile.read(DATA / "sample-noisy.wav", dtype="float32")
    sound = soxr.resample(sound[: 4 * native], native, rate)
    return np.stack([sound, np.roll(sound, rate // 7) / 2][:channels], axis=1)


@pytest.mark.parametrize(("rate", "channels"), [(8000, 1), (16000, 2), (44100, 1), (48000, 1)])
def test_it_equals_the_engine_in_c(built, tmp_path, rate, channels):
    sound = sample(rate, channels)
    sound[rate : rate + 100] = np.nan  # counts as silence in both
    found, latency = denoise(built, tmp_path, sound, rate)
    with Stream(rate, channels=channels, latency="low") as stream:
        native = np.concatenate([stream.process(np.nan_to_num(sound)), stream.flush()])
    assert int(latency) / rate == pytest.approx(0.04, rel=0.01)
    difference = 10 * np.log10(np.sum(native**2) / np.sum((native - found) ** 2))
    assert difference > 80


@pytest.mark.parametrize(
    ("rate", "channels", "cut", "sentence"),
    [
        (0, 1, (), "the rate is 0; it must be a whole number from 1000 to 768000 Hz"),
        (48000.5, 1, (), "the rate is 48000.5; it must be a whole number from 1000 to 768000 Hz"),
        (48000, 1, (1000,), "the weights are not those of this engine, or are incomplete"),
        (48000, 1, (5000000,), "the weights are not those of this engine, or are incomplete"),
    ],
)
def test_errors_are_one_sentence(built, tmp_path, rate, channels, cut, sentence):
    found, said = denoise(built, tmp_path, np.zeros((1000, channels)), rate, *cut)
    assert found is None
    assert said == f"alphamf: {sentence}"


def test_npm_packs_it(built):
    npm = shutil.which("npm")
    if npm is None:
        pytest.skip("npm is not installed")
    packed = subprocess.run(
        [npm, "pack", "--dry-run"], cwd=built / "npm", capture_output=True, text=True, check=True
    )
    named = packed.stdout + packed.stderr
    code = "alphamf.js", "alphamf.d.ts", "alphamf.wasm"
    for file in (*code, "alphamf-16k.weights", "LICENSES.txt"):
        assert file in named


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_):
        """Print nothing."""


@pytest.fixture(scope="module")
def page(built, tmp_path_factory):
    """Serve the folder as any host would, and open it."""
    handler = functools.partial(Quiet, directory=built / "page")
    with (
        opened(tmp_path_factory.mktemp("chromium")) as browser,
        ThreadingHTTPServer(("127.0.0.1", 0), handler) as server,
    ):
        threading.Thread(target=server.serve_forever, daemon=True).start()
        browser.get(f"http://127.0.0.1:{server.server_port}/")
        browser.host = server
        yield browser
        server.shutdown()


def open_file(page, path):
    page.refresh()
    by_id(page, "file").send_keys(str(path))


def test_a_recording_is_denoised_as_by_a_stream(page, tmp_path):
    soundfile.write(tmp_path / "talk.wav", sample(16000, 2), 16000)
    sound, _ = soundfile.read(tmp_path / "talk.wav", dtype="float32")
    open_file(page, tmp_path / "talk.wav")
    until(page, lambda p: by_id(p, "result").is_displayed())
    assert by_id(page, "facts").text == "0:04 · 16 kHz · stereo · wav"
    assert by_id(page, "result").get_attribute("download") == "talk.denoised.wav"
    page.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    by_id(page, "result").click()
    made = tmp_path / "talk.denoised.wav"
    until(page, lambda p: made.exists())
    found, rate = soundfile.read(made)
    assert rate == 16000
    with Stream(16000, channels=2, latency="low") as stream:
        native = np.concatenate([stream.process(sound), stream.flush()])
    difference = 10 * np.log10(np.sum(native**2) / np.sum((native - found) ** 2))
    assert difference > 60  # rounded to 16 bits
    assert page.get_log("browser") == []


def test_what_is_heard_follows_the_choice(page):
    page.refresh()
    by_id(page, "sample").click()
    until(page, lambda p: by_id(p, "result").is_displayed())
    by_id(page, "play").click()
    until(page, lambda p: by_id(p, "clock").text > "0:00.5")
    assert by_id(page, "play").get_attribute("aria-label") == "Pause"
    by_id(page, "play").click()
    before = by_id(page, "result").get_attribute("href")
    page.execute_script(
        "const s = document.getElementById('strength'); s.value = 50;"
        "s.dispatchEvent(new Event('input')); s.dispatchEvent(new Event('change'));"
    )
    assert by_id(page, "strength-text").text == "50 %"
    assert by_id(page, "result").get_attribute("href") != before


def test_the_microphone_is_denoised_and_can_be_heard_as_it_is(page):
    page.refresh()
    by_id(page, "microphone").click()
    until(page, lambda p: by_id(p, "level-in").is_displayed())
    assert by_id(page, "live-latency").text == "40 ms"

    def loudest(name):  # the browser's own device beeps once a second
        levels = []
        for _ in range(40):
            levels.append(float(by_id(page, name).get_property("value")))
            page.execute_async_script("setTimeout(arguments[0], 50)")
        return max(levels)

    until(page, lambda p: loudest("level-in") > -20)
    assert loudest("level-out") < -20
    by_id(page, "bypass").click()
    assert loudest("level-out") > -20
    by_id(page, "microphone").click()
    assert by_id(page, "microphone").text == "Start the microphone"


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "x.wav is empty (0 bytes)."),
        (b"no sound", "x.wav cannot be played by this browser; try WAV, MP3, M4A or FLAC."),
    ],
)
def test_what_is_no_sound_is_refused_in_a_sentence(page, tmp_path, content, sentence):
    (tmp_path / "x.wav").write_bytes(content)
    open_file(page, tmp_path / "x.wav")
    until(page, lambda p: by_id(p, "alert").text)
    assert by_id(page, "alert").text == sentence


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_nothing(page, scheme):
    page.refresh()
    assert violations(page, scheme) == []
    by_id(page, "sample").click()
    until(page, lambda p: by_id(p, "result").is_displayed())
    assert violations(page, scheme) == []


def test_it_works_without_a_network(page):
    page.refresh()
    page.execute_async_script("navigator.serviceWorker.ready.then(() => arguments[0]())")
    page.host.shutdown()
    page.host.server_close()
    page.refresh()
    by_id(page, "sample").click()
    until(page, lambda p: by_id(p, "result").is_displayed())
