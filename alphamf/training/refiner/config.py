"""The configuration of a training run: a TOML file, read into checked dataclasses.

Every key of a section must be there, but for those that have a default, and no other may be: a run
is what its file says. The files of the shipped networks are ``models/NAME.toml``.
"""

from __future__ import annotations

import math
import tomllib
from dataclasses import MISSING, asdict, dataclass, field, fields
from pathlib import Path
from typing import Any, get_type_hints

from alphamf.errors import AlphaMFError
from alphamf.learnt.network import Sizes
from alphamf.tools.files import reason, shown

KINDS = ("place", "coloured", "hum", "babble", "crackle", "events", "recorded")
"""Kinds of a layer of noise."""

CHAINS = ("em-15", "fast", "balanced")
"""Chains that a clip's posterior may be of."""

LOSSES = (
    "distortion",
    "compression",
    "intelligibility",
    "likelihood",
    "resolutions",
    "perception",
)
"""Terms of the objective (`alphamf.training.refiner.losses`)."""

SHORTEST = 0.5
"""The least that a clip must last, in seconds: ESTOI has a segment of .4 s."""


@dataclass(frozen=True)
class Network:
    """What is trained.

    Attributes
    ----------
    model
        Dictionary that the mixtures are read with; it gives the rate and the window.
    width, hidden, blocks, maps, local, deep
        As in `alphamf.learnt.network.Sizes`.
    exponent
        As in `alphamf.learnt.network_file.TrainedNetwork`.
    second_stage_of
        Refiner whose output a second stage corrects; empty: the network is a refiner.
    start
        Network to go on from; empty: a new one.
    """

    model: str
    width: int
    hidden: int
    blocks: int
    maps: int
    local: int
    deep: int
    exponent: float = 1.0
    second_stage_of: str = ""
    start: str = ""

    @property
    def sizes(self) -> Sizes:
        """The sizes as `alphamf.learnt.network` takes them."""
        return Sizes(self.width, self.hidden, self.blocks, self.maps, self.local, self.deep)


@dataclass(frozen=True)
class Data:
    """Where recordings lie: folders, as `alphamf.training.refiner.recordings` finds them.

    Attributes
    ----------
    voices, sounds, rooms
        Of clean speech, of other sounds, and of room responses (may be empty).
    """

    voices: tuple[str, ...]
    sounds: tuple[str, ...]
    rooms: tuple[str, ...] = ()


@dataclass(frozen=True)
class Mixtures:
    """The recipe of the mixtures. All but the first five are shares of the mixtures, or ranges.

    Attributes
    ----------
    clips, dev_clips
        How many there are, to train on and to score with.
    seconds
        Length of one.
    seed
        The same seed makes the same mixtures.
    snr
        Range of the signal-to-noise ratio in dB.
    nearly_clean
        Share that has 20 to 50 dB instead.
    level
        Range of the peak in dBFS.
    layers
        Probabilities of a second layer of noise, and of a third.
    rumble
        Share with rumble below the voice.
    pauses
        Share in which the noise pauses.
    rooms, made_up_rooms, image_rooms
        Shares in which the voice is in a recorded room, in one of decaying noise, and in a box by
        the image method (needs pyroomacoustics).
    telephone, band
        Shares that come by telephone, and by a microphone of a narrower band.
    codec
        Share that went through a codec.
    clipped
        Share whose peaks are cut off.
    kinds, chains
        Probabilities of the kinds of a layer of noise, and of the chain that reads a mixture.
    """

    clips: int
    dev_clips: int
    seconds: float
    seed: int
    snr: tuple[float, ...]
    nearly_clean: float
    level: tuple[float, ...]
    layers: tuple[float, ...]
    rumble: float
    pauses: float
    rooms: float
    made_up_rooms: float
    telephone: float
    band: float
    codec: float
    clipped: float
    kinds: dict[str, float]
    chains: dict[str, float]
    image_rooms: float = 0.0


@dataclass(frozen=True)
class Schedule:
    """How the network is fitted.

    Attributes
    ----------
    steps, batch
        Steps in all, and clips of a step.
    step_size
        Of AdamW after the warm-up, from which it falls to a hundredth along half a cosine.
    warm_up
        Steps in which it rises.
    weight_decay, largest_gradient
        Of AdamW; norm to which a gradient is cut.
    averaging
        Decay of the running mean of the parameters, which is what is scored and kept.
    precision
        Of products: ``bfloat16`` or ``float32``.
    seed
        Of the first parameters, of the order of the clips and of the random equalisers.
    report_every, score_every
        Steps between two lines of the log, and between two scores on dev clips.
    """

    steps: int
    batch: int
    step_size: float
    warm_up: int
    weight_decay: float
    largest_gradient: float
    averaging: float
    precision: str
    seed: int
    report_every: int
    score_every: int


@dataclass(frozen=True)
class Ladder:
    """What a short run of the whole configuration must reach.

    Attributes
    ----------
    step
        Where the run is compared: a multiple of `Schedule.report_every`.
    loss
        Objective recorded there, mean since the line of the log before; NaN: not yet known.
    within
        Largest difference.
    """

    step: int
    loss: float = math.nan
    within: float = 0.0


@dataclass(frozen=True)
class Config:
    """A training run.

    Attributes
    ----------
    network, data, mixtures, losses, schedule
        The sections; `losses` are weights by the names of `LOSSES`.
    ladder
        None where the file has none.
    """

    network: Network
    data: Data
    mixtures: Mixtures
    losses: dict[str, float]
    schedule: Schedule
    ladder: Ladder | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return it as JSON values, without the ladder, which changes nothing in the network."""
        return {key: value for key, value in asdict(self).items() if key != "ladder"}


def load(path: Path) -> Config:
    """Read a configuration.

    Raises
    ------
    AlphaMFError
        The file cannot be read, or a key is missing, unknown, of another type or out of range.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AlphaMFError(f"{shown(path)} cannot be read: {reason(error)}") from error
    try:
        return parsed(table)
    except AlphaMFError as error:
        raise AlphaMFError(f"{shown(path)}: {error}") from error


def parsed(table: dict[str, Any]) -> Config:
    """Make a configuration of what TOML or JSON gave.

    Raises
    ------
    AlphaMFError
        As for `load`.
    """
    sections = {"network": Network, "data": Data, "mixtures": Mixtures, "schedule": Schedule}
    unknown = set(table) - {*sections, "losses", "ladder"}
    if unknown:
        raise AlphaMFError(f"there is no section [{min(unknown)}]")
    found: dict[str, Any] = {
        name: _section(name, kind, table.get(name, {})) for name, kind in sections.items()
    }
    found["losses"] = _probabilities("losses", table.get("losses", {}), LOSSES)
    ladder = _section("ladder", Ladder, table["ladder"]) if "ladder" in table else None
    config = Config(**found, ladder=ladder)
    _check(config)
    return config


def _section(name: str, kind: Any, table: Any) -> Any:
    """Make the dataclass of a section."""
    if not isinstance(table, dict):
        raise AlphaMFError(f"[{name}] must be a section")
    hints = get_type_hints(kind)
    unknown = set(table) - set(hints)
    if unknown:
        raise AlphaMFError(f"[{name}] has no key {min(unknown)}")
    values = {}
    for each in fields(kind):
        if each.name in table:
            values[each.name] = _value(f"[{name}] {each.name}", table[each.name], hints[each.name])
        elif each.default is MISSING:
            raise AlphaMFError(f"[{name}] lacks {each.name}")
    return kind(**values)


def _value(name: str, value: Any, hint: Any) -> Any:
    """Return a value as a field of this type has it."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int and number and value == int(value):
        return int(value)
    if hint is float and number:
        return float(value)
    if hint is str and isinstance(value, str):
        return value
    if hint == tuple[str, ...] and isinstance(value, list | tuple):
        return tuple(_value(name, each, str) for each in value)
    if hint == tuple[float, ...] and isinstance(value, list | tuple):
        return tuple(_value(name, each, float) for each in value)
    if hint == dict[str, float] and isinstance(value, dict):
        return {key: _value(f"{name} {key}", each, float) for key, each in value.items()}
    wanted = {int: "a whole number", float: "a number", str: "a text in quotes"}.get(hint, "a list")
    raise AlphaMFError(f"{name} must be {wanted}, not {value!r}")


def _probabilities(name: str, table: Any, known: tuple[str, ...]) -> dict[str, float]:
    found: dict[str, float] = _value(f"[{name}]", table, dict[str, float])
    for key, value in found.items():
        if key not in known:
            raise AlphaMFError(f"[{name}] has no key {key}: there are {', '.join(known)}")
        if not value >= 0:
            raise AlphaMFError(f"[{name}] {key} must not be below 0, not {value:g}")
    if not sum(found.values()) > 0:
        raise AlphaMFError(f"[{name}] needs one of {', '.join(known)} above 0")
    return {key: found[key] for key in known if key in found}


def _check(config: Config) -> None:
    """Check the ranges of all values."""
    mixtures, schedule, network = config.mixtures, config.schedule, config.network
    for name, table, known in (
        ("mixtures.kinds", mixtures.kinds, KINDS),
        ("mixtures.chains", mixtures.chains, CHAINS),
    ):
        _probabilities(name, table, known)
    for key in ("voices", "sounds"):
        if not getattr(config.data, key):
            raise AlphaMFError(f"[data] {key} names no folder")
    if mixtures.rooms and not config.data.rooms:
        raise AlphaMFError("[mixtures] rooms is above 0, and [data] rooms names no folder")
    shares = (
        "nearly_clean rumble pauses rooms made_up_rooms image_rooms telephone band codec clipped"
    )
    for key in shares.split():
        _within(f"[mixtures] {key}", getattr(mixtures, key), 0, 1)
    for key in ("snr", "level"):
        low_high = getattr(mixtures, key)
        if len(low_high) != 2 or not low_high[0] <= low_high[1]:
            raise AlphaMFError(f"[mixtures] {key} must be [lowest, highest], not {list(low_high)}")
    _within("[mixtures] seconds", mixtures.seconds, SHORTEST, 60)
    least: list[tuple[str, Any, float]] = [
        (f"[schedule] {key}", getattr(schedule, key), 1)
        for key in ("steps", "batch", "report_every", "score_every")
    ]
    least += [
        (f"[network] {key}", getattr(network, key), 1) for key in ("width", "hidden", "blocks")
    ]
    least += [("[network] maps", network.maps, 2), ("[network] local", network.local, 1)]
    least += [("[mixtures] clips", mixtures.clips, schedule.batch)]
    least += [("[mixtures] dev_clips", mixtures.dev_clips, 1)]
    least += [("[mixtures] seed", mixtures.seed, 0), ("[schedule] seed", schedule.seed, 0)]
    least += [("[schedule] warm_up", schedule.warm_up, 0)]
    for name, value, bound in least:
        _within(name, value, bound, math.inf)
    _within("[network] deep", network.deep, 0, 3)
    _within("[schedule] averaging", schedule.averaging, 0, 1)
    if not (schedule.step_size > 0 and schedule.largest_gradient > 0 and network.exponent > 0):
        raise AlphaMFError("step_size, largest_gradient and exponent must be above 0")
    if schedule.precision not in ("bfloat16", "float32"):
        raise AlphaMFError(
            f"[schedule] precision must be bfloat16 or float32, not {schedule.precision!r}"
        )
    if config.ladder and (
        config.ladder.step % schedule.report_every or not 0 < config.ladder.step <= schedule.steps
    ):
        raise AlphaMFError(
            "[ladder] step must be a multiple of report_every up to steps, not "
            f"{config.ladder.step}"
        )


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        bounds = f"from {low:g} to {high:g}" if high < math.inf else f"at least {low:g}"
        raise AlphaMFError(f"{name} must be {bounds}, not {value:g}")
