"""Sound in chunks: in the time that is promised, on any number of cores, whatever its user does."""

import copy
import os
import pickle
import threading
import time
from concurrent.futures import CancelledError
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from alphamf import AlphaMFError, Settings, Stream, denoise
from alphamf.audio.stft import Frame
from alphamf.denoising import segments
from alphamf.denoising.segments import Cutter, fade_in
from alphamf.denoising.workers import Workers
from alphamf.learnt.dictionary import Dictionary

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
QUICK = Settings(sampler="em", warm_up=0, steps=6, keep=3, noise_rank=2)


def sound(seconds, channels=1, seed=0):
    rng = np.random.default_rng(seed)
    return rng.standard_normal((int(seconds * RATE), channels)).astype(np.float32)


def fed(audio, sizes, **options):
    """Denoise chunk by chunk; return the output, and how much of it was there after each chunk."""
    parts, ready = [], [0]
    with Stream(RATE, audio.shape[1], QUICK, model=TINY, **options) as stream:
        start = 0
        for size in sizes:
            parts.append(stream.process(audio[start : start + size]))
            ready.append(ready[-1] + len(parts[-1]))
            start += size
        parts.append(stream.flush())
    return np.concatenate(parts), np.array(ready)


def test_chunks_and_segments_side_by_side_give_what_the_whole_gives():
    """In segments of the length that users get; any order of calls: `test_stream_model.py`."""
    audio, told = sound(26, 2), []
    whole, beside = (
        denoise(audio, RATE, QUICK, model=TINY, jobs=jobs, progress=told.append) for jobs in (1, 2)
    )
    assert np.abs(whole.audio - audio).max() > 0.01
    for name, value in whole._asdict().items():
        np.testing.assert_array_equal(value, getattr(beside, name))
    half = len(told) // 2
    for seconds in (told[:half], told[half:]):
        assert seconds == sorted(seconds) and seconds[-1] == pytest.approx(26)
    np.testing.assert_array_equal(fed(audio, [1000] * (len(audio) // 1000 + 1))[0], whole.audio)


@pytest.mark.parametrize("jobs", [2, pytest.param(3, marks=pytest.mark.slow)])
def test_sound_comes_out_within_the_latency(jobs):
    audio = sound(75)
    chunk = 400
    out, ready = fed(audio, [chunk] * (len(audio) // chunk), jobs=jobs)
    latency = Stream(RATE, 1, QUICK, model=TINY, jobs=jobs).latency
    behind = (np.arange(len(ready)) * chunk - ready).max() / RATE
    assert latency - 1 < behind <= latency
    assert len(out) == len(audio)


@pytest.mark.parametrize("latency", ["segments", "low"])
@pytest.mark.parametrize("shape", [(900,), (900, 1), (900, 2), (2, 900)])
def test_the_first_chunk_says_how_many_channels_there_are(latency, shape):
    audio = sound(1)[:900, 0] if len(shape) == 1 else np.resize(sound(1), shape)
    first, channels = shape[0] == 2, min(*shape, 2) if len(shape) == 2 else 1
    options = {"preset": QUICK, "model": TINY} if latency == "segments" else {}
    options |= {"latency": latency, "channels_first": first}
    outs = []
    for told in (None, channels):
        with Stream(RATE, told, **options) as stream:
            assert repr(stream).startswith(f"Stream(8000 Hz, {channels} ch" if told else "Stream(8")
            assert copy.copy(stream).channels == told
            outs.append([stream.process(audio), stream.flush()])
            assert stream.channels == channels
    for one, other in zip(*outs, strict=True):
        np.testing.assert_array_equal(one, other)
    assert np.concatenate(outs[0], axis=int(first)).shape == shape
    with Stream(RATE, **options) as stream:
        with pytest.raises(AlphaMFError, match="1 to 64 channels, not 65"):
            stream.process(np.zeros((65, 900) if first else (900, 65), np.float32))
        with pytest.raises(AlphaMFError, match="channels seem to be"):
            stream.process(np.zeros((900, 2) if first else (2, 900), np.float32))
        assert stream.process(audio).ndim == len(shape)


def test_a_stream_with_the_models_of_the_package_is_pickled():
    stream = Stream(16000, 1, "fast")
    stream.process(np.zeros(1000))
    data = pickle.dumps(stream)
    np.testing.assert_array_equal(pickle.loads(data).flush(), stream.flush())
    closed = pickle.loads(pickle.dumps(stream))
    with pytest.raises(AlphaMFError, match="has ended"):
        closed.process(np.zeros(1000))


@pytest.mark.parametrize("jobs", [1, 2])
def test_work_is_cancelled_from_another_thread(jobs):
    cancel = threading.Event()
    endless = replace(QUICK, steps=1_000_000)
    timer = threading.Timer(0.3, cancel.set)
    timer.start()
    started = time.monotonic()
    with pytest.raises(CancelledError):
        denoise(sound(17), RATE, endless, model=TINY, jobs=jobs, cancel=cancel)
    timer.join()
    assert time.monotonic() - started < 10


@pytest.mark.parametrize(
    ("chunk", "first", "reason"),
    [
        (np.zeros((5, 3)), False, r"shape \(samples, 2\), not \(5, 3\)"),
        (np.zeros(5), False, r"shape \(samples, 2\), not \(5,\)"),
        (np.full((5, 2), np.nan), False, "NaN or infinite"),
        (np.zeros((5, 2), np.int16), False, "started with float32, but this chunk is int16"),
        (np.zeros((2, 5)), False, r"not \(2, 5\): give x\.T, or channels_first"),
        (np.zeros((5, 2)), True, r"shape \(2, samples\), not \(5, 2\)"),
        (np.zeros(5), True, r"shape \(2, samples\), not \(5,\)"),
    ],
)
def test_chunks_that_do_not_do(chunk, first, reason):
    with Stream(RATE, 2, QUICK, model=TINY, channels_first=first) as stream:
        stream.process(np.zeros((2, 5) if first else (5, 2)))
        with pytest.raises(AlphaMFError, match=reason):
            stream.process(chunk)


def test_what_goes_wrong_in_a_thread_is_told(monkeypatch):
    def fail(*arguments):
        raise AlphaMFError("the chain diverged")

    monkeypatch.setattr("alphamf.denoising.workers.sample_gains", fail)
    with pytest.raises(AlphaMFError, match="diverged"):
        denoise(sound(48), RATE, QUICK, model=TINY, jobs=2)


@pytest.mark.parametrize("channels", [1, 2])
def test_no_job_waits_for_another(channels):
    """As many sounds are being sampled at once as there are jobs."""
    jobs = 2 * channels
    meeting = threading.Barrier(jobs)

    class Meeting:
        """Never cancels; the first step in each thread waits for those in the others."""

        def __init__(self):
            self.met = set()

        def is_set(self):
            if threading.get_ident() not in self.met:
                self.met.add(threading.get_ident())
                meeting.wait(timeout=60)
            return False

    meetings = Meeting()
    denoise(sound(48, channels), RATE, QUICK, model=TINY, jobs=jobs, cancel=meetings)
    assert len(meetings.met) == jobs


def test_closing_ends_the_threads_soon():
    """A thread of a closed stream leaves at its next step."""
    endless = replace(QUICK, steps=1_000_000)
    stream = Stream(RATE, 1, endless, model=TINY, jobs=2)
    segments = stream.segments(sound(17))
    assert next(segments, None) is None  # the one segment is under way, and not waited for
    start = time.monotonic()
    stream.close()
    assert time.monotonic() - start < 5


@pytest.fixture
def together(monkeypatch):
    """Segments in batches, as on a device, on the CPU."""
    begin = Workers.__init__

    def init(self, *arguments, **options):
        begin(self, *arguments, **options)
        self._together, self._threads = True, None

    monkeypatch.setattr(Workers, "__init__", init)


@pytest.mark.parametrize("jobs", [2, pytest.param(5, marks=pytest.mark.slow)])
def test_segments_that_move_together(together, jobs):
    """The sound adds up, silence and equal channels included, whatever the size of the chunks."""
    audio = sound(57, 3)
    audio[:, 2] = audio[:, 0]
    audio[10 * RATE : 22 * RATE, 1] = 0
    told = []
    whole = denoise(audio, RATE, QUICK, model=TINY, jobs=jobs, progress=told.append)
    assert whole.audio.shape == audio.shape
    np.testing.assert_allclose(whole.audio + whole.noise, audio, atol=1e-5)
    np.testing.assert_array_equal(whole.audio[:, 2], whole.audio[:, 0])
    np.testing.assert_array_equal(whole.audio[12 * RATE : 19 * RATE, 1], 0)
    assert told == sorted(told)
    assert told[-1] == pytest.approx(57)
    np.testing.assert_array_equal(fed(audio, [4000] * 120, jobs=jobs)[0], whole.audio)


# Threads, callbacks and forks, with short segments ---------------------------------------------

HASTY = replace(QUICK, steps=2, keep=1)
KINDS = {"segments": {}, "side by side": {"jobs": 2}, "low": {"latency": "low"}}


@pytest.fixture
def short_segments(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_SECONDS", 1)
    monkeypatch.setattr(segments, "OVERLAP_SECONDS", 0.25)


def opened(kind, **options):
    return Stream(RATE, 1, HASTY, model=TINY, **KINDS[kind], **options)


def noise(seconds, kind="segments"):
    """Return noise; a tenth of it at low latency, whose frames follow each other closely."""
    rng = np.random.default_rng(0)
    samples = round(seconds * RATE / (10 if kind == "low" else 1))
    return rng.standard_normal((samples, 1)).astype(np.float32)


def whole(kind, audio):
    with opened(kind) as stream:
        return np.concatenate([stream.process(audio), stream.flush()])


@pytest.mark.parametrize("kind", KINDS)
def test_threads_take_turns_and_a_chunk_that_is_refused_was_not_taken(kind, short_segments):
    """Three threads at once: the first is at work until the others were answered."""
    audio, answers, tried = noise(3, kind), [], threading.Semaphore(0)

    def other():
        try:
            answers.append(stream.process(audio))
        except AlphaMFError as error:
            answers.append(str(error))
        tried.release()

    def progress(seconds):
        if not threads:
            threads.extend(threading.Thread(target=other, daemon=True) for _ in range(2))
            for thread in threads:
                thread.start()
            for _ in threads:
                assert tried.acquire(timeout=30)

    threads = []
    stream = opened(kind, progress=progress)
    parts = [stream.process(audio), stream.flush()]
    assert len(answers) == 2
    assert all("the stream is already processing a chunk" in answer for answer in answers)
    np.testing.assert_array_equal(np.concatenate(parts), whole(kind, audio))


@pytest.mark.parametrize("kind", ["segments", "low"])
@pytest.mark.parametrize("call", ["process", "segments", "flush", "rest", "pickle"])
def test_a_callback_may_not_use_the_stream(kind, call, short_segments):
    said = []

    def progress(seconds):
        work = {"pickle": lambda: pickle.dumps(stream), "flush": stream.flush, "rest": stream.rest}
        with pytest.raises(AlphaMFError, match="is already processing a chunk") as caught:
            work.get(call, lambda: getattr(stream, call)(noise(1)))()
        said.append(caught.value)

    stream = opened(kind, progress=progress)
    audio = noise(3, kind)
    parts = [stream.process(audio), stream.flush()]
    assert said
    np.testing.assert_array_equal(np.concatenate(parts), whole(kind, audio))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("call", ["process", "flush", "pickle", "close"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_stream_works_or_says_why_not(kind, call, begun, short_segments):
    audio = noise(4, kind)
    cut = len(audio) if begun else len(audio) // 4
    stream = opened(kind)
    before = [stream.process(audio[:cut])]
    read, write = os.pipe()
    child = os.fork()
    if not child:  # nothing of pytest's may run here
        try:
            found = forked(stream, call, audio[cut:])
            os.write(write, pickle.dumps(found))
        finally:
            os._exit(0)
    os.close(write)
    found = b""
    watch = threading.Timer(30, os.kill, (child, 9))
    watch.start()
    with os.fdopen(read, "rb") as pipe:
        found = pipe.read()
    os.waitpid(child, 0)
    watch.cancel()
    found = pickle.loads(found)  # of a child that hung there is nothing
    if kind == "side by side" and begun and call != "close":
        assert "create the stream after the fork" in found
    elif call != "close":
        parts = [*before, found] if len(found) else before
        np.testing.assert_array_equal(np.concatenate(parts), whole(kind, audio))
    stream.close()


def forked(stream, call, rest):
    """Go on with a stream in a child; return the sound, or what it said."""
    try:
        if call == "close":
            stream.close()
            return ""
        if call == "pickle":
            stream = pickle.loads(pickle.dumps(stream))
        parts = [stream.process(rest)] if call != "flush" or len(rest) else []
        return np.concatenate([*parts, stream.flush()])
    except AlphaMFError as error:
        return str(error)


# Pieces of a stream, whatever the size of its blocks ---------------------------------------------


SIZES = st.lists(st.integers(0, 400), max_size=12)


def stream(sizes, channels=2):
    """Blocks of the given sizes, whose samples count up, and the whole of them."""
    whole = np.arange(sum(sizes) * channels, dtype=np.float32).reshape(-1, channels)
    return np.split(whole, np.cumsum(sizes)[:-1]) if sizes else [], whole


def cut(blocks, step, overlap):
    cutter = Cutter(step, overlap)
    for block in blocks:
        cutter.push(block)
        yield from iter(cutter.piece, None)
    yield from iter(cutter.last, None)


@settings(deadline=None, derandomize=True, max_examples=120)
@given(sizes=SIZES, step=st.integers(2, 150), overlap=st.integers(0, 60))
def test_pieces_cover_the_stream(sizes, step, overlap):
    blocks, whole = stream(sizes)
    pieces = list(cut(iter(blocks), step, overlap))
    if not len(whole):
        assert pieces == []
        return
    np.testing.assert_array_equal(np.concatenate([p.audio[: p.step] for p in pieces]), whole)
    for piece, following in pairwise(pieces):
        assert piece.step == step
        assert len(piece.audio) == step + overlap
        # What comes again is what the two are faded over.
        np.testing.assert_array_equal(piece.audio[step:], following.audio[:overlap])
    last = pieces[-1]
    assert last.step == len(last.audio) <= step + overlap + step // 2
    if len(pieces) > 1:
        assert last.step > step // 2 + overlap


@pytest.mark.parametrize("n", [0, 1, 2, 100])
def test_fade_sums_to_one(n):
    up, down = np.ones((n + 5, 2), np.float32), np.zeros((n + 5, 2), np.float32)
    fade_in(up, np.zeros((n, 2), np.float32))
    fade_in(down, np.ones((n, 2), np.float32))
    np.testing.assert_allclose(up + down, 1, rtol=1e-6)
    np.testing.assert_allclose(up[:n, 0], (np.arange(n) + 0.5) / n, rtol=1e-6)
    assert (up[n:] == 1).all()
