"""Find, load and check the dictionary and networks of a run."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from operator import call
from typing import Any, TypeVar

import numpy as np

from alphamf.audio.stft import Frame, frame_of
from alphamf.errors import AlphaMFError
from alphamf.learnt import dictionary as dictionaries
from alphamf.learnt import network_file
from alphamf.learnt.causal import (
    CausalHighBand,
    CausalNetworks,
    CausalRefiner,
    CausalSecondStage,
)
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import Dereverberator, SecondStage
from alphamf.learnt.second_stage import frame as second_stage_frame
from alphamf.tools.arguments import check_instance, file_name, flag

N = TypeVar("N", bound=TrainedNetwork)

Choice = str | os.PathLike[str]
"""The file of a network or dictionary, the name of a shipped one, ``"auto"`` or ``"none"``."""

MODELS = "a file, the name of a shipped dictionary, a Dictionary or Weights"
"""Description of what `model` accepts, for error messages."""

NARROW_RATE = 8000
"""Rate in Hz of the weights for sound with nothing above half of it, such as telephone calls."""

_load_once = cache(call)
"""Calls a function with a file, once for each pair; later calls return the same result."""

NETWORKS: dict[str, type[TrainedNetwork]] = {
    "refiner": Refiner,
    "second_stage": SecondStage,
    "dereverberator": Dereverberator,
    "high_band": HighBand,
    "causal": CausalRefiner,
    "causal_second_stage": CausalSecondStage,
    "causal_high_band": CausalHighBand,
}
"""The class of each network of `Weights`, by the name of its field."""


@dataclass(frozen=True)
class Weights:
    """The dictionary and networks of a run.

    Attributes
    ----------
    dictionary
        Spectra of clean speech.
    refiner
        Network that predicts the gain from the posterior; None: the gain is the posterior mean.
    second_stage
        Network that corrects the result in windows of 16 ms; None for none. It needs a refiner.
    dereverberator
        Network in place of the second stage where echo is removed; None for none.
    high_band
        Network of the wide bands above the second stage's band; None: the gain at the top of that
        band is used there.
    causal
        Network that predicts the gain from the chain at low latency; None: the gain is the chain's.
    causal_second_stage
        Network that corrects the result of low latency in windows of 16 ms; None for none.
    causal_high_band
        Network of the wide bands at low latency; None: the gain at the top of the dictionary's band
        is used there.
    narrow
        Whether segments without sound above 4.4 kHz may use the shipped weights for 8 kHz instead.

    Raises
    ------
    AlphaMFError
        A value has the wrong type, a network is for another rate or window than the dictionary
        needs (`high_band` is not checked), or there is a second stage and no refiner.

    Examples
    --------
    >>> from alphamf.learnt.dictionary import load
    >>> Weights(load("speech-8k")).refiner is None  # the dictionary alone
    True
    """

    dictionary: Dictionary
    refiner: Refiner | None = None
    second_stage: SecondStage | None = None
    dereverberator: Dereverberator | None = None
    high_band: HighBand | None = None
    causal: CausalRefiner | None = None
    causal_second_stage: CausalSecondStage | None = None
    causal_high_band: CausalHighBand | None = None
    narrow: bool = False

    def __repr__(self) -> str:
        networks = {name: getattr(self, name) for name in NETWORKS}
        names = [f"{name} {each.name!r}" for name, each in networks.items() if each is not None]
        return f"Weights({', '.join([repr(self.dictionary), *names])})"

    def __post_init__(self) -> None:
        check_instance("dictionary", self.dictionary, Dictionary, "a Dictionary")
        object.__setattr__(self, "narrow", flag("narrow", self.narrow))
        for name, kind in NETWORKS.items():
            if getattr(self, name) is not None:
                check_instance(name, getattr(self, name), kind, f"a {kind.__name__} or None")
        networks = (getattr(self, name) for name in NETWORKS if name != "high_band")
        for each in networks:
            if each is not None and not _fits(each, self.dictionary):
                raise AlphaMFError(
                    f"the {_role(each)} {each.name} ({each.rate} Hz, windows of {each.frame.n_fft} "
                    f"samples) does not fit the dictionary {self.dictionary.name}, which needs "
                    f"{self.dictionary.rate} Hz and windows of "
                    f"{frame_for(type(each), self.dictionary).n_fft} samples"
                )
        if self.second_stage is not None and self.refiner is None:
            raise AlphaMFError(
                f"the second stage {self.second_stage.name} needs a refiner, but there is none"
            )

    @property
    def online(self) -> CausalNetworks:
        """The networks for low latency."""
        return CausalNetworks(self.causal, self.causal_second_stage, self.causal_high_band)

    def for_narrow_sound(self) -> Weights:
        """Return the shipped 8 kHz weights; refiner, dereverberator: None if they are None here."""
        refiner = "none" if self.refiner is None else "auto"
        return find(NARROW_RATE, refiner=refiner, dereverb=self.dereverberator is not None)

    def to_module(self, xp: Any) -> Weights:
        """Return weights whose networks, but for the causal ones, are on the device of `xp`."""
        if xp is np:
            return self
        whole = ("refiner", "second_stage", "dereverberator", "high_band")
        networks: dict[str, Any] = {name: getattr(self, name) for name in whole}
        return replace(self, **{k: each and each.to_module(xp) for k, each in networks.items()})


def find(
    rate: int,
    model: Choice | Dictionary | Weights = "auto",
    *,
    refiner: Choice = "auto",
    second_stage: Choice = "auto",
    causal: Choice = "none",
    dereverb: bool = False,
) -> Weights:
    """Find and load the weights for sound at `rate` in Hz; `Weights` are returned as they are."""
    if isinstance(model, Weights):
        return model
    networks = {str(refiner), str(second_stage)}
    if isinstance(model, Dictionary):
        dictionary = model
    else:
        dictionary = dictionaries.choose(file_name("model", model, MODELS), rate)
    first = network(Refiner, refiner, dictionary.rate)
    if first is not None and str(refiner) == "auto" and not _fits(first, dictionary):
        first = None
    if str(second_stage) == "auto" and (
        first is None or first.name not in network_file.shipped_networks()
    ):
        second_stage = "none"
    second = network(SecondStage, second_stage, dictionary.rate)
    shipped = second is not None and second.name in network_file.shipped_networks()
    above = dictionary.above is not None and rate > dictionary.rate
    high = network(HighBand, "auto", dictionary.rate) if shipped and above else None
    online = network(CausalRefiner, causal, dictionary.rate)
    if online is not None and str(causal) == "auto" and not _fits(online, dictionary):
        online = None
    corrected = wide = None
    if online is not None and online.name in network_file.shipped_networks():
        corrected = network(CausalSecondStage, "auto", dictionary.rate)
        if rate > dictionary.rate:
            wide = network(CausalHighBand, "auto", dictionary.rate)
    room = None
    if dereverb and first is not None and first.name in network_file.shipped_networks():
        room = network(Dereverberator, "auto", dictionary.rate)
    own = isinstance(model, str) and model == "auto" and networks <= {"auto", "none"}
    narrow = own and str(causal) == "none" and dictionary.rate > NARROW_RATE
    every = first, second, room, high, online, corrected, wide
    return Weights(dictionary, *every, narrow=narrow)


def find_online(
    rate: int, model: Choice | Dictionary | Weights = "auto", *, refine: bool = True
) -> Weights:
    """Find and load low-latency weights for a `rate` in Hz; `Weights` are returned as they are."""
    choice = "auto" if refine else "none"
    return find(rate, model, refiner="none", second_stage="none", causal=choice)


def roles(networks: Sequence[str]) -> tuple[str, str]:
    """Return the names of refiner and second stage, "none" if absent; both "auto" for no names."""
    if not networks:
        return "auto", "auto"
    found: dict[type[TrainedNetwork], str] = {}
    for name in networks if networks != ["none"] else ():
        loaded = TrainedNetwork.load(network_file.find(name))
        kind = next((kind for kind in (Refiner, SecondStage) if kind.supports(loaded)), None)
        if kind is None:
            raise AlphaMFError(f"`network` {name} is neither a refiner nor a second stage")
        if kind in found:
            raise AlphaMFError(
                f"`network` {found[kind]} and `network` {name} are both {kind.kind}s; give one"
            )
        found[kind] = name
    return found.get(Refiner, "none"), found.get(SecondStage, "none")


def network(kind: type[N], choice: Choice, rate: int) -> N | None:
    """Load a network; ``"none"``: None, ``"auto"``: the shipped one for `rate`, if any."""
    name = str(choice)
    if name == "none":
        return None
    if name == "auto":
        path = network_file.shipped_networks().get(f"{kind.kind}-{rate // 1000}k")
        return _load_once(kind.load, path) if path else None
    return kind.load(network_file.find(name))


def _fits(network: TrainedNetwork, dictionary: Dictionary) -> bool:
    frame = frame_for(type(network), dictionary)
    return (network.rate, network.frame) == (dictionary.rate, frame)


def frame_for(kind: type[TrainedNetwork], dictionary: Dictionary) -> Frame:
    """Return the window and hop that a network must have to fit a dictionary."""
    if issubclass(kind, SecondStage | CausalSecondStage | HighBand):  # a dereverberator, too
        return second_stage_frame(dictionary.rate)
    return frame_of(dictionary.frame) if issubclass(kind, CausalRefiner) else dictionary.frame


def _role(network: TrainedNetwork) -> str:
    if isinstance(network, Dereverberator):
        return "dereverberator"
    return "second stage" if isinstance(network, SecondStage | CausalSecondStage) else "refiner"


def missing_refiner_note(weights: Weights, refiner: Choice) -> str | None:
    """Return a note if `refiner` is "auto" but none fits the dictionary, or else None."""
    if weights.refiner is not None or str(refiner) != "auto":
        return None
    name = weights.dictionary.name
    return f"no shipped network fits the rate and window of {name}; denoising without one"


def narrow_recording_note(weights: Weights, rate: int) -> str | None:
    """Return a note if the dictionary's rate is at least twice the sound's `rate`, or None."""
    dictionary = weights.dictionary
    if dictionary.rate < 2 * rate:
        return None
    return (
        f"{dictionary.name} is for sound at {dictionary.rate} Hz or more; the result "
        f"for {rate} Hz will be poor"
    )
