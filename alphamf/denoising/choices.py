"""Allowed values of options, as types; the command line reads them without importing NumPy."""

from typing import Literal

PresetName = Literal["fast", "transcription", "plain", "paper"]
"""The names in `alphamf.denoising.settings.PRESETS`."""

ChannelsName = Literal["linked", "separate"]
"""How the channels of a recording are denoised: linked, or each alone."""

LatencyName = Literal["segments", "low"]
"""How much delay is allowed: that of whole segments, or 40 ms."""
