"""Read the configuration of a training run from a TOML file, and check it.

A section must contain all keys without a default, and no unknown keys, so that the file defines the
run completely. The files of the shipped networks are ``models/NAME.toml``.
"""

import math
import tomllib
from collections.abc import Iterable
from dataclasses import MISSING, fields
from pathlib import Path
from typing import Any, get_type_hints

from alphamf.errors import AlphaMFError
from alphamf.learnt.network import DEEP
from alphamf.tools.files import printable_name, reason
from alphamf.training.refiner.config import (
    CHAINS,
    KINDS,
    NARROW,
    NETWORKS,
    CausalHighBandKind,
    Config,
    Data,
    DereverberatorKind,
    HighBandKind,
    Kind,
    Ladder,
    Mixtures,
    Network,
    Schedule,
)

SHORTEST = 0.5
"""Minimum length of a clip, in seconds: a segment of ESTOI lasts 0.4 s."""

SHARES = tuple(each.name for each in fields(Mixtures) if each.type is float)[1:]
"""Keys of `Mixtures` that are probabilities: all fields of type float but the first, `seconds`."""


def load(path: Path) -> Config:
    """Read a configuration; raise an AlphaMFError if it is unreadable or not valid."""
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise AlphaMFError(f"{printable_name(path)} cannot be read: {reason(error)}") from error
    try:
        return parse_config(table)
    except AlphaMFError as error:
        raise AlphaMFError(f"{printable_name(path)}: {error}") from error


def parse_config(table: dict[str, Any]) -> Config:
    """Make a configuration from parsed TOML or JSON; raise an AlphaMFError if it is not valid."""
    sections = {"network": Network, "data": Data, "mixtures": Mixtures, "schedule": Schedule}
    unknown = set(table) - {*sections, "losses", "ladder"}
    if unknown:
        raise AlphaMFError(f"unknown section [{min(unknown)}]")
    found: dict[str, Any] = {
        name: _section(name, kind, table.get(name, {})) for name, kind in sections.items()
    }
    _check_network(found["network"])
    losses = found["network"].kind.losses
    found["losses"] = _probabilities("losses", table.get("losses", {}), losses)
    ladder = _section("ladder", Ladder, table["ladder"]) if "ladder" in table else None
    config = Config(**found, ladder=ladder)
    _check_mixtures(config)
    _check_schedule(config.schedule, config.ladder)
    return config


def _section(name: str, kind: Any, table: Any) -> Any:
    """Make an instance of the dataclass `kind` from `table`, the section `name` of a file."""
    if not isinstance(table, dict):
        raise AlphaMFError(f"[{name}] must be a section")
    hints = get_type_hints(kind)
    unknown = set(table) - {each.name for each in fields(kind)}
    if unknown:
        raise AlphaMFError(f"unknown key {min(unknown)} in [{name}]")
    values = {}
    for each in fields(kind):
        if each.name in table:
            values[each.name] = _value(f"[{name}] {each.name}", table[each.name], hints[each.name])
        elif each.default is MISSING and each.default_factory is MISSING:
            raise AlphaMFError(f"the key {each.name} is missing in [{name}]")
    return kind(**values)


def _value(name: str, value: Any, hint: Any) -> Any:
    """Convert a value to the type of a field, or raise an AlphaMFError."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if hint == Kind and isinstance(value, dict):
        return _kind(value)
    if hint is bool and isinstance(value, bool):
        return value
    if hint is int and number and (isinstance(value, int) or value.is_integer()):
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
    wanted: dict[Any, str] = {
        int: "a whole number",
        float: "a number",
        str: "a text in quotes",
        bool: "true or false",
        Kind: "a table with a name",
        dict[str, float]: "a section",
    }
    raise AlphaMFError(f"{name} must be {wanted.get(hint, 'a list')}, not {value!r}")


def _kind(table: dict[str, Any]) -> Any:
    """Make the kind of a network from its table; the key `name` selects it."""
    name = table.get("name")
    if not isinstance(name, str) or name not in NETWORKS:
        raise AlphaMFError(
            f"[network] kind.name must be one of {', '.join(NETWORKS)}, not {name!r}"
        )
    rest = {key: value for key, value in table.items() if key != "name"}
    return _section("network.kind", NETWORKS[name], rest)


def _probabilities(name: str, table: Any, known: Iterable[str]) -> dict[str, float]:
    found: dict[str, float] = _value(f"[{name}]", table, dict[str, float])
    for key, value in found.items():
        if key not in known:
            raise AlphaMFError(f"[{name}] has no key {key}; its keys are {', '.join(known)}")
        if not value >= 0:
            raise AlphaMFError(f"[{name}] {key} must not be below 0, not {value:g}")
    if not sum(found.values()) > 0:
        raise AlphaMFError(f"[{name}] needs one of {', '.join(known)} above 0")
    return {key: found[key] for key in known if key in found}


def _check_network(network: Network) -> None:
    for key, least in (("width", 1), ("hidden", 1), ("blocks", 1), ("maps", 2), ("local", 1)):
        _within(f"[network] {key}", getattr(network, key), least, math.inf)
    _within("[network] deep", network.deep, 0, len(DEEP))
    if network.bands:
        _within("[network] bands", network.bands, NARROW + 2, math.inf)
    kind = network.kind
    if isinstance(kind, CausalHighBandKind) and len(kind.after) > 1:
        raise AlphaMFError("[network] kind.after must name a causal refiner")
    if type(kind) is HighBandKind and len(kind.after) not in (0, 2):
        raise AlphaMFError("[network] kind.after must name a refiner and a second stage")
    _above("[network] exponent", network.exponent)
    _within("[network] moved", network.moved, 0, 1)
    if network.moved < 1 and not network.start:
        raise AlphaMFError("[network] moved is below 1, but there is no start to interpolate from")


def _check_mixtures(config: Config) -> None:
    mixtures = config.mixtures
    _probabilities("mixtures.kinds", mixtures.kinds, KINDS)
    if not config.network.kind.network.causal:
        _probabilities("mixtures.chains", mixtures.chains, CHAINS)
    elif mixtures.chains:
        raise AlphaMFError(
            "[mixtures.chains] cannot be used for a causal network, which has the online chain"
        )
    for key in ("voices", "sounds"):
        if not getattr(config.data, key):
            raise AlphaMFError(f"[data] {key} names no folder")
    _within("[data] most", config.data.most, 0, math.inf)
    _within("[data] quiet", config.data.quiet, 0, math.inf)
    if config.data.narrow and not isinstance(config.network.kind, HighBandKind):
        raise AlphaMFError("[data] narrow can be used for a high-band network only")
    if mixtures.until_edge and not isinstance(config.network.kind, HighBandKind):
        raise AlphaMFError("[mixtures] until_edge can be used for a high-band network only")
    if any(config.data.tilts) and not config.data.narrow:
        raise AlphaMFError("[data] tilts needs voices in [data] narrow")
    if mixtures.rooms and not config.data.rooms:
        raise AlphaMFError("[mixtures] rooms is above 0, but [data] rooms names no folder")
    if mixtures.echo and not isinstance(config.network.kind, DereverberatorKind):
        raise AlphaMFError("[mixtures] echo can be used for a dereverberator only")
    for key in SHARES:
        _within(f"[mixtures] {key}", getattr(mixtures, key), 0, 1)
    for chance in mixtures.layers:
        _within("[mixtures] layers", chance, 0, 1)
    ranges = {
        "[mixtures] snr": mixtures.snr,
        "[mixtures] level": mixtures.level,
        "[data] tilts": config.data.tilts,
    }
    for key, low_high in ranges.items():
        if len(low_high) != 2 or not low_high[0] <= low_high[1]:
            raise AlphaMFError(f"{key} must be [lowest, highest], not {list(low_high)}")
    _within("[mixtures] seconds", mixtures.seconds, SHORTEST, 60)
    _within("[mixtures] clips", mixtures.clips, config.schedule.batch, math.inf)
    _within("[mixtures] dev_clips", mixtures.dev_clips, 1, math.inf)
    _within("[mixtures] seed", mixtures.seed, 0, math.inf)


def _check_schedule(schedule: Schedule, ladder: Ladder | None) -> None:
    for key, least in (
        *((key, 1) for key in ("steps", "batch", "report_every", "score_every")),
        *((key, 0) for key in ("seed", "warm_up", "weight_decay", "muon")),
    ):
        _within(f"[schedule] {key}", getattr(schedule, key), least, math.inf)
    _within("[schedule] averaging", schedule.averaging, 0, 1)
    _above("[schedule] step_size", schedule.step_size)
    _above("[schedule] largest_gradient", schedule.largest_gradient)
    if schedule.score_every % schedule.report_every:
        raise AlphaMFError("[schedule] score_every must be a multiple of report_every")
    if schedule.precision not in ("bfloat16", "float32"):
        raise AlphaMFError(
            f"[schedule] precision must be bfloat16 or float32, not {schedule.precision!r}"
        )
    if ladder and (ladder.step % schedule.report_every or not 0 < ladder.step <= schedule.steps):
        raise AlphaMFError(
            f"[ladder] step must be a multiple of report_every up to steps, not {ladder.step}"
        )


def _above(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise AlphaMFError(f"{name} must be above 0, not {value:g}")


def _within(name: str, value: float, low: float, high: float) -> None:
    if not low <= value <= high:
        bounds = f"from {low:g} to {high:g}" if high < math.inf else f"at least {low:g}"
        raise AlphaMFError(f"{name} must be {bounds}, not {value:g}")
