"""A stream in any order of calls, beside a simple model: all that came in, denoised in one go."""

from __future__ import annotations

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

from alphamf import AlphaMFError, Settings, Stream
from alphamf.audio.stft import Frame
from alphamf.denoising import segments
from alphamf.learnt.dictionary import Dictionary

RATE = 8000
TINY = Dictionary(np.full((33, 2), 1 / 33, np.float32), 1.2, RATE, Frame(64, 32))
QUICK = Settings(sampler="em", warm_up=0, steps=2, keep=1, noise_rank=2)
KINDS = {
    "segments": ({}, 9000),
    "side by side": ({"jobs": 2}, 9000),
    "low": ({"latency": "low"}, 500),
}
"""Options, and the most samples of a chunk."""

REFUSED = [
    np.full((5, 1), np.nan),
    np.zeros((5, 2)),
    np.zeros((5, 1), np.int16),
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
        options, self.most = KINDS[self.kind]
        self.raises = self.raised = self.ending = False
        self.rng = np.random.default_rng(0)
        self.stream = Stream(RATE, 1, QUICK, model=TINY, progress=self.progress, **options)
        self.stream.process(np.zeros((0, 1), np.float32))  # from here on it is one of floats
        self.came = np.empty((0, 1), np.float32)
        self.out = [np.empty((0, 1), np.float32)]

    def progress(self, seconds):
        if self.raises:
            self.raised = True
            raise Interruption

    def chunk(self, size):
        return self.rng.standard_normal((size % self.most, 1)).astype(np.float32)

    def doing(self, call):
        """Do what a stream may be asked for; where the callback raises, it has ended."""
        try:
            return call()
        except Interruption:
            assert self.raised
            for again in (lambda: self.stream.process(self.came[:0]), self.stream.flush):
                with pytest.raises(AlphaMFError, match="Interruption interrupted it"):
                    again()
            return None

    def restart(self):
        options, _ = KINDS[self.kind]
        self.raises = self.raised = self.ending = False
        self.stream = Stream(RATE, 1, QUICK, model=TINY, progress=self.progress, **options)
        self.stream.process(np.zeros((0, 1), np.float32))
        self.came, self.out = self.came[:0], self.out[:1]

    def took(self, chunk, parts):
        if parts is None:
            self.restart()
        else:
            self.came = np.concatenate([self.came, chunk])
            self.out += parts

    @precondition(lambda self: not self.ending)
    @rule(size=st.integers(0, 10**6))
    def process(self, size):
        chunk = self.chunk(size)
        self.took(chunk, self.doing(lambda: [self.stream.process(chunk)]))

    @precondition(lambda self: not self.ending)
    @rule(size=st.integers(0, 10**6), taken=st.integers(0, 3))
    def leave_segments(self, size, taken):
        chunk = self.chunk(size)

        def call():
            return [each.audio for each in islice(self.stream.segments(chunk), taken)]

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
        self.raises = False
        if not self.ending:
            self.stream.process(self.chunk(used))  # of which the copy learns nothing
        self.stream.close()
        self.stream = copied  # which calls nobody

    @precondition(lambda self: not self.ending)
    @rule(chunk=st.sampled_from(range(len(REFUSED))))
    def be_refused(self, chunk):
        for call in (self.stream.process, self.stream.segments):
            with pytest.raises(AlphaMFError, match=r"audio|started with float32"):
                call(REFUSED[chunk])

    @precondition(lambda self: self.ending)
    @rule()
    def come_too_late(self):
        for call in (self.stream.process, self.stream.segments):
            with pytest.raises(AlphaMFError, match="has ended"):
                call(np.zeros((9, 1), np.float32))

    @rule()
    def raise_from_now_on(self):
        self.raises = True

    @rule(flushed=st.booleans())
    def finish(self, flushed):
        def call():
            if flushed and not self.ending:
                return [self.stream.flush()]
            return [each.audio for each in self.stream.rest()]

        parts = self.doing(call)
        if parts is not None:
            found = np.concatenate([*self.out, *parts])
            np.testing.assert_array_equal(found, self.in_one_go())
            with pytest.raises(AlphaMFError, match="has ended"):
                self.stream.flush()
        self.restart()

    def in_one_go(self):
        options, _ = KINDS[self.kind]
        with Stream(RATE, 1, QUICK, model=TINY, **{**options, "jobs": 1}) as stream:
            return np.concatenate([stream.process(self.came), stream.flush()])

    @invariant()
    def no_more_comes_out_than_came_in(self):
        assert sum(map(len, self.out)) <= len(self.came)

    def teardown(self):
        if hasattr(self, "stream"):
            self.stream.close()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("examples", [8, pytest.param(150, marks=pytest.mark.slow)])
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
