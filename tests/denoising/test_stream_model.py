"""A stream in any order of calls, beside a simple model: all that came in, denoised in one go.

This owns chunks of any size, copies, refusals, callbacks that raise, iterators that are left, and
the end: for each way of working, channels that share a voice, integers, and channels first.
"""

import copy
import pickle
from itertools import islice

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from alphamf import AlphaMFError, Settings, Stream, denoise
from alphamf.audio.stft import Frame
from alphamf.denoising import segments
from alphamf.learnt.dictionary import Dictionary

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
QUICK = Settings(sampler="em", warm_up=0, steps=2, keep=1, noise_rank=2)
KINDS = {
    "segments": ({}, 9000, 1, np.float32),
    "side by side": ({"jobs": 2}, 9000, 1, np.float32),
    "linked integers": ({"channels_first": True, "jobs": 2}, 9000, 2, np.int16),
    "low": ({"latency": "low", "channels_first": True}, 500, 2, np.int16),
}
"""Options, the most samples of a chunk, channels and the type of samples."""

REFUSED = [
    np.full((5, 1), np.nan),
    np.zeros((5, 3)),
    np.zeros((5, 1), np.int8),
    np.ma.masked_array(np.zeros((5, 1)), True),
    None,
]


COPIES = [copy.copy, copy.deepcopy, lambda stream: pickle.loads(pickle.dumps(stream))]


class Interruption(Exception):
    """What a caller's own code raises."""


class Streams(RuleBasedStateMachine):
    """One stream after the other: a new one follows where one has ended."""

    kinds = tuple(KINDS)

    @initialize(data=st.data())
    def begin(self, data):
        self.kind = data.draw(st.sampled_from(self.kinds))
        self.options, self.most, self.channels, self.dtype = KINDS[self.kind]
        self.first = "channels_first" in self.options
        self.rng = np.random.default_rng(0)
        self.restart()

    def is_set(self):
        """Be the stream's `cancel`."""
        self.progress("cancel")
        return False

    def progress(self, which):
        if self.raises == ("cancel" if which == "cancel" else "progress"):
            self.raised = True
            raise Interruption

    def chunk(self, size):
        """Return noise, in two channels of one place."""
        one = self.rng.standard_normal((size % self.most, 1))
        chunk = np.concatenate([one, 0.5 * one], axis=1)[:, : self.channels]
        return (1000 * chunk).astype(self.dtype)

    def turned(self, audio):
        """Return audio as the stream takes it, or what it gives back."""
        return audio.T if self.first else audio

    def doing(self, call):
        """Do what a stream may be asked for; where the callback raises, it has ended."""
        try:
            return call()
        except Interruption:
            assert self.raised
            for again in (lambda: self.stream.process(self.turned(self.came)), self.stream.flush):
                with pytest.raises(AlphaMFError, match="Interruption interrupted it"):
                    again()
            return None

    def restart(self):
        self.raises, self.raised, self.ending = None, False, False
        self.stream = Stream(
            *(RATE, self.channels, QUICK),
            **{"model": TINY, "progress": self.progress, "cancel": self, **self.options},
        )
        self.came = np.empty((0, self.channels), self.dtype)
        self.stream.process(self.turned(self.came))  # from here on it is one of such samples
        self.out = [self.came]

    def took(self, chunk, parts):
        if parts is None:
            self.restart()
        else:
            self.came = np.concatenate([self.came, chunk])
            self.out += map(self.turned, parts)

    @precondition(lambda self: not self.ending)
    @rule(size=st.integers(0, 10**6))
    def process(self, size):
        chunk = self.chunk(size)
        memory = self.turned(chunk).copy()
        parts = self.doing(lambda: [self.stream.process(memory)])
        memory[:] = 99  # as devices use a buffer again
        self.took(chunk, parts)

    @precondition(lambda self: not self.ending)
    @rule(size=st.integers(0, 10**6), taken=st.integers(0, 3))
    def leave_segments(self, size, taken):
        chunk = self.chunk(size)

        def call():
            return [each.audio for each in islice(self.stream.segments(self.turned(chunk)), taken)]

        self.took(chunk, self.doing(call))

    @precondition(lambda self: not self.ending and len(self.came))
    @rule()
    def leave_rest(self):
        segment = self.doing(lambda: list(islice(self.stream.rest(), 1)))
        self.ending = True
        self.took(self.came[:0], None if segment is None else [each.audio for each in segment])

    @rule(way=st.sampled_from(range(len(COPIES))), used=st.integers(0, 3000))
    def replace_by_a_copy(self, way, used):
        try:
            copied = COPIES[way](self.stream)
        except Interruption:  # of a segment that was waited for
            assert self.raised and self.kind == "side by side"
            assert self.doing(lambda: list(self.stream.rest())) is None
            self.restart()
            return
        self.raises = None
        if not self.ending:
            self.stream.process(self.turned(self.chunk(used)))  # of which the copy learns nothing
        self.stream.close()
        self.stream = copied  # which calls nobody

    @precondition(lambda self: not self.ending)
    @rule(chunk=st.sampled_from(range(len(REFUSED))))
    def be_refused(self, chunk):
        for call in (self.stream.process, self.stream.segments):
            with pytest.raises(AlphaMFError, match=r"audio|started with"):
                call(REFUSED[chunk])

    @precondition(lambda self: self.ending)
    @rule()
    def come_too_late(self):
        for call in (self.stream.process, self.stream.segments):
            with pytest.raises(AlphaMFError, match="has ended; no chunk can follow"):
                call(self.turned(self.chunk(9)))

    @rule(which=st.sampled_from(["progress", "cancel"]))
    def raise_from_now_on(self, which):
        self.raises = which

    @rule(flushed=st.booleans())
    def finish(self, flushed):
        def call():
            if flushed and not self.ending:
                return [self.stream.flush()]
            return [each.audio for each in self.stream.rest()]

        parts = self.doing(call)
        if parts is not None:
            found = np.concatenate([*self.out, *map(self.turned, parts)])
            assert found.dtype == self.dtype
            np.testing.assert_array_equal(found, self.in_one_go())
            for call in (self.stream.flush, lambda: self.stream.process(self.turned(self.came))):
                with pytest.raises(AlphaMFError, match="has ended"):
                    call()
        self.restart()

    def in_one_go(self):
        if not len(self.came):
            return self.came
        if self.kind != "low":
            return denoise(self.came, RATE, QUICK, model=TINY).audio
        with Stream(RATE, self.channels, QUICK, model=TINY, latency="low") as stream:
            return np.concatenate([stream.process(self.came), stream.flush()])

    @invariant()
    def no_more_comes_out_than_came_in(self):
        assert sum(map(len, self.out)) <= len(self.came)

    def teardown(self):
        if hasattr(self, "stream"):
            self.stream.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("examples", [10, pytest.param(150, marks=pytest.mark.slow)])
def test_any_order_of_calls_gives_what_one_call_gives(kind, examples, monkeypatch):
    monkeypatch.setattr(segments, "SEGMENT_SECONDS", 1)
    monkeypatch.setattr(segments, "OVERLAP_SECONDS", 0.25)
    machine = type("OneKind", (Streams,), {"kinds": (kind,)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=20,
            deadline=None,
            derandomize=True,
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
