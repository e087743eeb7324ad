"""Names that options can have: for type checkers, for the command line, which imports no NumPy."""

from typing import Literal

PresetName = Literal["fast", "transcription", "plain", "paper"]
"""The names in `alphamf.denoising.settings.PRESETS`."""

ChannelsName = Literal["linked", "separate"]
"""How the channels of a recording are denoised."""

LatencyName = Literal["segments", "low"]
"""How much delay is allowed: whole segments, or low latency."""
