"""A stream whose work is broken off, left, forked or shared loses nothing in silence."""

from __future__ import annotations

import os
import pickle
import threading
from itertools import islice

import numpy as np
import pytest

from alphamf import AlphaMFError, Settings, Stream, denoise
from alphamf.audio.stft import Frame
from alphamf.denoising import segments
from alphamf.learnt.dictionary import Dictionary

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
QUICK = Settings(sampler="em", warm_up=0, steps=2, keep=1, noise_rank=2)
KINDS = {"segments": {}, "side by side": {"jobs": 2}, "low": {"latency": "low"}}


@pytest.fixture(autouse=True)
def short_segments(monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_SECONDS", 1)
    monkeypatch.setattr(segments, "OVERLAP_SECONDS", 0.25)


def opened(kind, **options):
    return Stream(RATE, 1, QUICK, model=TINY, **KINDS[kind], **options)


def sound(seconds, kind="segments"):
    """Return noise; a tenth of it at low latency, whose frames follow each other closely."""
    rng = np.random.default_rng(0)
    samples = round(seconds * RATE / (10 if kind == "low" else 1))
    return rng.standard_normal((samples, 1)).astype(np.float32)


def whole(kind, audio):
    with opened(kind) as stream:
        return np.concatenate([stream.process(audio), stream.flush()])


class Interruption(Exception):
    """What a caller's own code raises."""


class Fuse:
    """A `progress` or a `cancel` that raises at its n-th call."""

    def __init__(self, n):
        self.left = n

    def __call__(self, seconds=0.0):
        self.left -= 1
        if not self.left:
            raise Interruption
        return False

    is_set = __call__


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("way", ["process", "segments", "flush", "rest"])
@pytest.mark.parametrize("callback", ["progress", "cancel"])
def test_a_stream_that_an_error_broke_off_has_ended(kind, way, callback):
    stream = opened(kind, **{callback: Fuse(1)})
    with pytest.raises(Interruption):
        if way in ("process", "segments"):
            list(getattr(stream, way)(sound(4, kind)))
        else:
            list(stream.segments(sound(0.5, kind)))  # of which nothing is begun, but at low latency
            list(getattr(stream, way)())
    for call in (lambda: stream.process(sound(1)), stream.flush, lambda: list(stream.rest())):
        with pytest.raises(AlphaMFError, match="the stream has ended: Interruption interrupted it"):
            call()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("taken", [0, 1, 2])
def test_what_an_abandoned_iterator_leaves_comes_with_the_next_call(kind, taken):
    audio = sound(7, kind)
    stream, segments = opened(kind), []
    for block in np.split(audio, 2):
        segments += islice(stream.segments(block), taken)
    segments += stream.segments(audio[:0])
    segments += islice(stream.rest(), min(taken, 1))  # of which there may be no more
    segments += stream.rest()
    parts = [segment.audio for segment in segments]
    np.testing.assert_array_equal(np.concatenate(parts), whole(kind, audio))


@pytest.mark.parametrize("kind", KINDS)
def test_after_the_end_has_begun_no_chunk_follows(kind):
    stream = opened(kind)
    stream.process(sound(3, kind))
    rest = stream.rest()
    with pytest.raises(AlphaMFError, match="no chunk can follow"):
        stream.process(sound(1))
    left = [segment.audio for segment in rest]
    assert sum(map(len, left)) > 0
    with pytest.raises(AlphaMFError, match="has ended"):
        stream.flush()


@pytest.mark.parametrize("kind", KINDS)
def test_threads_take_turns_and_a_chunk_that_is_refused_was_not_taken(kind):
    """Three threads at once: the first is at work until the others were answered."""
    audio, answers, tried = sound(3, kind), [], threading.Semaphore(0)

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
def test_a_callback_may_not_use_the_stream(kind, call):
    said = []

    def progress(seconds):
        work = {"pickle": lambda: pickle.dumps(stream), "flush": stream.flush, "rest": stream.rest}
        with pytest.raises(AlphaMFError, match="is already processing a chunk") as caught:
            work.get(call, lambda: getattr(stream, call)(sound(1)))()
        said.append(caught.value)

    stream = opened(kind, progress=progress)
    audio = sound(3, kind)
    parts = [stream.process(audio), stream.flush()]
    assert said
    np.testing.assert_array_equal(np.concatenate(parts), whole(kind, audio))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("begun", [False, True])
@pytest.mark.parametrize("call", ["process", "flush", "pickle", "close"])
@pytest.mark.parametrize("kind", KINDS)
def test_a_forked_stream_works_or_says_why_not(kind, call, begun):
    audio = sound(4, kind)
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


def test_the_whole_is_that_of_denoise_with_short_segments_too():
    audio = sound(4)
    np.testing.assert_array_equal(
        whole("segments", audio), denoise(audio, RATE, QUICK, model=TINY).audio
    )
