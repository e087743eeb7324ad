"""A stand-in for the module sounddevice: a microphone, headphones and what else a desk has.

Its streams do nothing by themselves, and a test calls them (`Stream.call`); after `run_alone` they
run at their own pace, as devices do.
"""

from __future__ import annotations

import sys
import threading
import time
from types import SimpleNamespace

import numpy as np

NAMES = ("Microphone", "Headphones", "Cable One", "Cable Two", "Old headset")
DEVICES = [
    {"name": "Microphone", "hostapi": 0, "max_input_channels": 2, "max_output_channels": 0},
    {"name": "Headphones", "hostapi": 0, "max_input_channels": 0, "max_output_channels": 2},
    {"name": "Cable One", "hostapi": 1, "max_input_channels": 1, "max_output_channels": 2},
    {"name": "Cable Two", "hostapi": 1, "max_input_channels": 1, "max_output_channels": 2},
    {"name": "Old headset", "hostapi": 0, "max_input_channels": 1, "max_output_channels": 0},
]
RATES = [(48000, 16000), (48000, 44100), (48000,), (44100,), (8000,)]
"""Rates that each takes, its own first."""

FLAGS = ("input_underflow", "input_overflow", "output_underflow", "output_overflow")

default = SimpleNamespace(device=[0, 1])
opened: list[Stream] = []


class PortAudioError(Exception):
    """What PortAudio says, and its number."""

    def __str__(self) -> str:
        return f"{self.args[0]} [PaErrorCode -9997]"


class Stream:
    """One way of a device."""

    kind = ""

    def __init__(self, *, device, channels, samplerate, blocksize, latency, dtype, callback):
        check(self.kind, device, channels, samplerate)
        self.channels, self.rate, self.frames = channels, samplerate, blocksize
        self.latency, self.callback = latency, callback
        self.active = False
        opened.append(self)

    def start(self):
        self.active = True

    def close(self):
        self.active = False

    def call(self, data=None, **flags):
        """Call back as the device does, and return what it was given or has got."""
        if data is None:
            data = np.full((self.frames, self.channels), 7, np.float32)
        status = SimpleNamespace(**dict.fromkeys(FLAGS, False) | flags)
        self.callback(data, len(data), None, status)
        return data


class InputStream(Stream):
    kind = "input"


class OutputStream(Stream):
    kind = "output"


def check(kind, device, channels, samplerate):
    found = DEVICES[device]
    if channels > found[f"max_{kind}_channels"]:
        raise PortAudioError("Invalid number of channels")
    if samplerate not in RATES[device]:
        raise PortAudioError("Invalid sample rate")


def check_input_settings(device, channels, dtype, samplerate):
    check("input", device, channels, samplerate)


def check_output_settings(device, channels, dtype, samplerate):
    check("output", device, channels, samplerate)


def query_devices():
    rates = (float(rates[0]) for rates in RATES)
    return [
        found | {"default_samplerate": rate} for found, rate in zip(DEVICES, rates, strict=True)
    ]


def query_hostapis():
    return [{"name": "Core"}, {"name": "Virtual"}]


def run_alone(seconds: float) -> None:
    """Take the place of sounddevice, with streams that run until the input is unplugged."""

    def start(stream):
        stream.active = True
        threading.Thread(target=run, args=(stream,), daemon=True).start()

    def run(stream):
        rng = np.random.default_rng(0)
        began, k = time.monotonic(), 0
        while stream.active:
            noise = 0.1 * rng.standard_normal((stream.frames, stream.channels))
            stream.call(noise.astype(np.float32) if stream.kind == "input" else None)
            k += 1
            time.sleep(max(0.0, began + k * stream.frames / stream.rate - time.monotonic()))
            if stream.kind == "input" and k * stream.frames >= seconds * stream.rate:
                stream.active = False

    Stream.start = start
    sys.modules["sounddevice"] = sys.modules[__name__]
