"""Products on one thread."""

import json
import os
import subprocess
import sys
from threading import Barrier, Thread

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

import alphamf
from alphamf.tools.machine import one_thread


def threads() -> set[int]:
    return {each["num_threads"] for each in threadpool_info() if each["user_api"] == "blas"}


def set_threads(count: int) -> None:
    thread = Thread(target=lambda: threadpool_limits(count, "blas"))
    thread.start()
    thread.join()


@pytest.fixture(autouse=True)
def three_threads(monkeypatch):
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    before = threads()
    set_threads(3)
    if threads() != {3}:
        pytest.skip("this BLAS has no threads")
    yield
    set_threads(before.pop())


def test_a_recording_is_denoised_on_one_thread_and_the_setting_comes_back():
    seen = []
    sound = np.random.default_rng(0).standard_normal(8000).astype(np.float32)
    settings = alphamf.Settings(steps=2, keep=1, warm_up=1)
    alphamf.denoise(sound, 8000, settings, progress=lambda *_: seen.append(threads()))
    assert seen and all(each == {1} for each in seen)
    assert threads() == {3}


def test_it_comes_back_after_an_error():
    with pytest.raises(KeyError), one_thread():
        raise KeyError
    assert threads() == {3}


def test_it_stays_until_the_last_of_several_threads_has_left():
    both, first_left = Barrier(2), Barrier(2)
    seen = []

    def first():
        with one_thread():
            both.wait()
        first_left.wait()

    def second():
        with one_thread():
            both.wait()
            first_left.wait()
            seen.append(threads())

    pair = [Thread(target=first), Thread(target=second)]
    for each in pair:
        each.start()
    for each in pair:
        each.join()
    assert seen == [{1}]
    assert threads() == {3}


def test_the_bits_do_not_depend_on_the_number_of_threads():
    code = (
        "import hashlib, json, numpy as np, alphamf\n"
        "x = np.random.default_rng(0).standard_normal(24000).astype(np.float32)\n"
        "y = alphamf.denoise(x, 16000, 'fast').audio\n"
        "print(json.dumps(hashlib.sha256(y.tobytes()).hexdigest()))\n"
    )
    found = set()
    for count in ("1", "4"):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": count}
        done = subprocess.run(
            [sys.executable, "-c", code], env=environment, capture_output=True, check=True
        )
        found.add(json.loads(done.stdout))
    assert len(found) == 1
