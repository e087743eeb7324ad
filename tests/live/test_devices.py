"""Devices: which is meant, which rate suits two, and what is lost between them is counted."""

import sys

import numpy as np
import pytest

from alphamf.errors import AlphaMFError
from alphamf.live.devices import choose_lines, find
from alphamf.live.duplex import HELD, PATIENCE, Duplex, LostSound, Playout
from tests.support import sound_cards

RATE = 48000
BLOCK = 480


@pytest.fixture(autouse=True)
def desk(monkeypatch):
    monkeypatch.setitem(sys.modules, "sounddevice", sound_cards)
    monkeypatch.setattr(sound_cards, "opened", [])


def duplex(channels=1, source="Microphone", target="Headphones", buffer=0.04):
    return Duplex(
        *choose_lines(find(source, "input"), find(target, "output"), channels, None),
        channels,
        buffer,
    )


@pytest.mark.parametrize(
    ("wanted", "kind", "number"),
    [(None, "input", 0), (None, "output", 1), ("3", "output", 3), ("cable, two", "input", 3),
     ("virtual one", "output", 2), ("head", "output", 1)],
)  # fmt: skip
def test_a_device_is_found(wanted, kind, number):
    assert find(wanted, kind).number == number


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [("cable", "matches several output devices 2 (Cable One, Virtual), 3 (Cable Two, Virtual)"),
     ("microphone", "there is no output device 'microphone'"), ("99", "output device '99'")],
)  # fmt: skip
def test_a_device_is_not_found(wanted, sentence):
    with pytest.raises(AlphaMFError) as caught:
        find(wanted, "output")
    assert sentence in str(caught.value)


def test_no_device_at_all(monkeypatch):
    monkeypatch.setattr(sound_cards, "query_devices", list)
    with pytest.raises(AlphaMFError, match="no input device was found"):
        find(None, "input")


@pytest.mark.parametrize(
    ("source", "target", "wanted", "rate"),
    [("Microphone", "Headphones", None, 48000), ("Microphone", "Headphones", 16000, 48000),
     ("Cable Two", "Headphones", None, 44100), ("Cable Two", "Headphones", 48000, 44100)],
)  # fmt: skip
def test_the_rate_suits_both(source, target, wanted, rate):
    lines = choose_lines(find(source, "input"), find(target, "output"), 1, wanted)
    assert [line.rate for line in lines] == [rate, rate]


def test_a_rate_that_both_take_is_taken():
    lines = choose_lines(find("Microphone", "input"), find("Headphones", "output"), 2, 48000)
    assert [line.channels for line in lines] == [2, 2]
    with pytest.raises(AlphaMFError, match="Old headset at 48000 Hz: Invalid sample rate"):
        choose_lines(find("Old headset", "input"), find("Headphones", "output"), 1, None)
    with pytest.raises(AlphaMFError, match="Cable One has only 1 channel, not 2"):
        choose_lines(find("Cable One", "input"), find("Headphones", "output"), 2, None)


def test_an_output_that_takes_no_mono_gets_it_twice(monkeypatch):
    def check_output(device, channels, dtype, samplerate):
        if channels == 1:
            raise sound_cards.PortAudioError("Invalid number of channels")

    monkeypatch.setattr(sound_cards, "check_output_settings", check_output)
    with duplex() as running:
        output = sound_cards.opened[1]
        assert output.channels == 2
        running.write(np.ones((2000, 1), np.float32))
        assert (output.call() == 1).all()


def test_sound_goes_through_in_order_after_the_margin():
    sound = np.random.default_rng(0).standard_normal((20 * BLOCK, 1)).astype(np.float32)
    with duplex() as running:
        source, target = sound_cards.opened
        got = []
        for k in range(0, len(sound), BLOCK):
            source.call(sound[k : k + BLOCK])
            running.write(running.read(0))
            got.append(target.call())
        running.check()
    margin = round(0.02 * RATE)
    np.testing.assert_array_equal(
        np.concatenate(got), np.pad(sound, ((margin, 0), (0, 0)))[:-margin]
    )
    assert running.lost == LostSound()
    assert not source.active and not target.active


def test_what_is_lost_is_counted():
    with duplex() as running:
        source, target = sound_cards.opened
        source.call(input_overflow=True)
        target.call(output_underflow=True)
        assert running.lost == LostSound(overflows=1, underflows=1)
        running.read(0)
        most = round((HELD + 0.04) * RATE / BLOCK)
        for _ in range(most + 3):
            source.call()
        assert running.lost.dropped == 3
        assert len(running.read(0)) == most * BLOCK
        running.write(np.ones((3 * BLOCK, 1), np.float32))
        heard = np.concatenate([target.call() for _ in range(5)])[:, 0]
        assert running.lost.gaps == 1
        np.testing.assert_array_equal(heard, np.repeat([1, 0], [3 * BLOCK, 2 * BLOCK]))


def test_sound_is_not_late_for_ever():
    """A delay of half a second passes, and what came late is dropped but for the margin."""
    lost = LostSound()
    playout = Playout(RATE, 1, round(0.02 * RATE), lost)
    playout.put(np.zeros((RATE // 2, 1), np.float32))
    for _ in range(250):
        playout.put(np.ones((BLOCK, 1), np.float32))
        playout.take(BLOCK)
    playout.put(np.full((BLOCK, 1), 2, np.float32))
    assert next(k for k in range(10_000) if playout.take(1)[0, 0] == 2) <= 3 * BLOCK
    assert lost.dropped == 1 and lost.gaps == 0


def test_a_device_that_goes_is_told():
    with duplex() as running:
        sound_cards.opened[0].active = False
        with pytest.raises(AlphaMFError, match="the input Microphone was disconnected"):
            running.check()


def test_a_device_is_not_lost_by_a_process_that_was_suspended(monkeypatch):
    times = [0.0]
    monkeypatch.setattr("time.monotonic", lambda: times[0])
    with duplex() as running:
        times[0] += 100
        running.check()
        for _ in range(round(PATIENCE)):
            running.check()
            times[0] += 1
        with pytest.raises(AlphaMFError, match="Microphone was disconnected or has stopped"):
            running.check()


def test_a_device_that_does_not_open_is_told(monkeypatch):
    def refuse(self):
        raise sound_cards.PortAudioError("Device unavailable")

    monkeypatch.setattr(sound_cards.OutputStream, "start", refuse)
    with pytest.raises(AlphaMFError, match="the output Headphones cannot be opened: Device unav"):
        duplex().__enter__()
    assert not sound_cards.opened[0].active
