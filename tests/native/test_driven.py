"""The engine driven as a host does: hostile sound under the sanitizers, threads, no allocation."""

import os
import shutil
import subprocess
import sys

import numpy as np
import pytest

from alphamf.denoising.weights import find_online
from alphamf.native import engine
from alphamf.native.engine import pack
from benchmarks.latency import build

if not engine.AVAILABLE or not shutil.which("gcc") or sys.platform != "linux":
    pytest.skip("needs the engine and GCC", allow_module_level=True)


@pytest.fixture(scope="module")
def weights(tmp_path_factory):
    """Return files of weights for less than 16 kHz, and for more."""
    folder, paths = tmp_path_factory.mktemp("weights"), {}
    for rate in (8000, 48000):
        found = find_online(rate)
        paths[rate] = folder / f"{rate}"
        content = pack(found.dictionary, found.online, 0)
        paths[rate].write_bytes(content)
    return paths


@pytest.fixture(scope="module")
def driver(tmp_path_factory):
    return build(tmp_path_factory.mktemp("driver"), "-O3")


def drive(driver, *words, **variables):
    done = subprocess.run(
        [*driver, *map(str, words)],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-4000:]
    return done.stdout


def suited(weights, rate):
    return weights[8000 if rate < 16000 else 48000]


@pytest.mark.parametrize(("rate", "channels", "seed"), [(8000, 1, 1), (11025, 2, 2), (48000, 3, 3)])
def test_hostile_sound_gives_finite_sound(driver, weights, rate, channels, seed):
    drive([driver], suited(weights, rate), rate, channels, "random", seed, 60)


@pytest.mark.parametrize("rate", [8000, 48000])
def test_nothing_is_allocated_and_no_page_is_missing_once_it_runs(driver, weights, tmp_path, rate):
    sound = 0.1 * np.random.default_rng(0).standard_normal(3 * rate)
    sound[rate : 2 * rate] = 0
    sound.astype(np.float32).tofile(tmp_path / "sound")
    words = suited(weights, rate), rate, 1, "time", tmp_path / "sound"
    *_, faults, allocations = drive([driver], *words).split()
    assert int(allocations) == 0
    # The stack of the first whole hop, and perhaps pages of the system's own.
    assert int(faults) < 8  # of the system's own, if any


@pytest.mark.slow
@pytest.mark.parametrize("copy", ["default", "unfused", "v3", "v4"])
def test_under_the_address_and_undefined_behaviour_sanitizers(weights, tmp_path, copy):
    flags = "-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=undefined"
    driver = build(tmp_path, *flags)
    for rate, channels, seed in ((8000, 2, 7), (44100, 1, 8)):
        words = suited(weights, rate), rate, channels, "random", seed, 40
        drive([driver], *words, ALPHAMF_LOOPS=copy)


@pytest.mark.slow
def test_engines_in_threads_under_the_thread_sanitizer(weights, tmp_path):
    driver = build(tmp_path, "-O1", "-g", "-fsanitize=thread")
    # Without random addresses, in which the sanitizer's memory has no fixed place.
    fixed = ["setarch", "-R"] if shutil.which("setarch") else []
    assert len(drive([*fixed, driver], weights[8000], 8000, 1, "threads", 4, 4).split()) == 4


def test_weights_that_are_none_are_refused(driver, weights, tmp_path):
    content = weights[48000].read_bytes()
    for k, broken in enumerate((b"", content[:50], content[:-64], b"x" + content[1:])):
        path = tmp_path / f"{k}"
        path.write_bytes(broken)
        command = [driver, path, "48000", "1", "random", "1", "1"]
        assert subprocess.run(command, check=False).returncode == 2


@pytest.mark.parametrize("place", range(8, 92, 4))
def test_sizes_that_do_not_fit_the_file_are_refused(driver, weights, tmp_path, place):
    content = bytearray(weights[48000].read_bytes())
    for value in (-1, 0, 1, 2**16 + 1, 2**31 - 1):
        content[place : place + 4] = value.to_bytes(4, "little", signed=True)
        (tmp_path / "broken").write_bytes(content)
        command = [driver, tmp_path / "broken", "48000", "1", "random", "1", "0"]
        assert subprocess.run(command, check=False).returncode in (0, 2)
