"""Products on one thread."""

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
