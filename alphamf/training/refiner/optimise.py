"""The training loop: Muon and AdamW, a running mean of the parameters, and checkpoints.

All random numbers of a step depend on the configuration's seed and the step's number, so that a run
that was killed and resumed makes the same steps as an uninterrupted one.

References
----------
Loshchilov and Hutter, "Decoupled weight decay regularization", ICLR 2019 (AdamW).
Jordan et al., "Muon: an optimizer for hidden layers in neural networks" (2024).
"""

from __future__ import annotations

import io
import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alphamf.audio.stft import frame_of
from alphamf.errors import AlphaMFError
from alphamf.learnt import network, second_stage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.refiner import WINDOW, Refiner
from alphamf.tools.arrays import Array, Floats
from alphamf.tools.files import atomic_file, printable_name
from alphamf.training.refiner import band_losses, weight_tying
from alphamf.training.refiner.clips import BandClip, TrainingClip
from alphamf.training.refiner.config import Config, Schedule
from alphamf.training.refiner.losses import (
    BatchPart,
    NetworkSpeech,
    TrainingGrid,
    losses,
    run_network,
)
from alphamf.training.refiner.scores import Scores, scores

ORDER, CROP, EQUALISER, START = range(4)
"""Purposes of random numbers, as the second part of their seed."""

LAST_STEP_SIZE = 0.01
"""Final step size, relative to that after the warm-up."""

SCORED_TOGETHER = 4
"""Number of dev clips that the network processes at once."""


class Fit:
    """A network in training, with its optimisers."""

    def __init__(
        self,
        config: Config,
        dictionary: Dictionary,
        start: Mapping[str, Array] | None,
        device: str = "cpu",
    ) -> None:
        torch.use_deterministic_algorithms(device == "cpu")
        torch.utils.deterministic.fill_uninitialized_memory = False  # True takes 5 % of the time
        self.grid: TrainingGrid = _grid(config, dictionary)
        self.config: Config = config
        self._device = device
        self.step: int = 0
        kind, bands = config.network.kind.network, config.network.bands
        self._longest = WINDOW if kind is Refiner else second_stage.WINDOW
        cells = kind.cells(self.grid.frame)
        shares = weight_tying.band_shares(cells, bands) if bands else None
        self._spread = None if shares is None else torch.from_numpy(shares).to(device)
        if start is None:
            rng = np.random.default_rng([config.schedule.seed, START])
            start = network.start(rng, bands or cells, config.network.sizes)
        self.parameters: dict[str, Any] = {
            name: torch.tensor(np.array(value), device=device, requires_grad=True)
            for name, value in start.items()
        }
        self.average: dict[str, Any] = {
            name: value.detach().clone() for name, value in self.parameters.items()
        }
        self._start = {name: value.clone() for name, value in self.average.items()}
        self._optimisers = _optimisers(self.parameters, config.schedule)

    def advance(self, clips: Sequence[TrainingClip]) -> dict[str, float]:
        """Make a step or raise an AlphaMFError; return losses and their weighted sum ``loss``."""
        schedule = self.config.schedule
        which = _batch(schedule.seed, self.step, schedule.batch, len(clips))
        batch = stack_clips(clips, which, self._device)
        terms = self._terms(self._run(self._whole(self.parameters), batch, self._part()))
        total = _weighted(terms, self.config.losses)
        for optimiser, _ in self._optimisers:
            optimiser.zero_grad()
        total.backward()
        values = list(self.parameters.values())
        norm = torch.nn.utils.clip_grad_norm_(values, schedule.largest_gradient)
        if not torch.isfinite(norm + total):
            raise AlphaMFError(f"training diverged in step {self.step + 1}")
        for optimiser, share in self._optimisers:
            for group in optimiser.param_groups:
                group["lr"] = share * step_size(self.config, self.step)
            optimiser.step()
        self.step += 1
        # The first steps are forgotten sooner.
        new = max(1 - schedule.averaging, 9 / (9 + self.step))
        with torch.no_grad():
            for name, value in self.parameters.items():
                self.average[name].lerp_(value, new)
        return _numbers({"loss": total} | terms)

    def result(self) -> dict[str, Any]:
        """Return the result's parameters, `moved` of the way from the start to the running mean."""
        return {name: value.cpu() for name, value in self._result().items()}

    def _result(self) -> dict[str, Any]:
        moved = self.config.network.moved
        between = {name: self._start[name].lerp(mean, moved) for name, mean in self.average.items()}
        return self._whole(between)

    def validate(self, clips: Sequence[TrainingClip]) -> tuple[dict[str, float], Scores | None]:
        """Return mean losses and scores of the network on the first frames of each dev clip.

        Losses ignore the gain's exponent. High-band clips are used whole; their scores are None.
        """
        found_losses: list[dict[str, float]] = []
        parameters = self._result()
        pairs: list[tuple[Floats, Floats]] = []
        with torch.no_grad():
            for first in range(0, len(clips), SCORED_TOGETHER):
                which = range(first, min(first + SCORED_TOGETHER, len(clips)))
                batch = stack_clips(clips, which, self._device)
                part = BatchPart(slice(self._longest))
                made = self._run(parameters, batch, part)
                terms = self._terms(made)
                terms = {"loss": _weighted(terms, self.config.losses)} | terms
                found_losses.append(
                    {name: value * len(which) for name, value in _numbers(terms).items()}
                )
                exponent = self.config.network.exponent
                if exponent != 1:
                    made = self._run(parameters, batch, part, exponent)
                pairs += self._sounds(made) if isinstance(made, NetworkSpeech) else []
        mean = {
            name: sum(each[name] for each in found_losses) / len(clips) for name in found_losses[0]
        }
        return mean, scores(pairs, self.grid.rate) if pairs else None

    def save(self, path: Path, rows: list[dict[str, float]]) -> None:
        """Write a checkpoint with the `rows` of the log, completely or not at all."""
        state = {
            "step": self.step,
            "parameters": {name: value.detach() for name, value in self.parameters.items()},
            "average": self.average,
            "optimisers": [optimiser.state_dict() for optimiser, _ in self._optimisers],
            "rows": rows,
        }
        packed = io.BytesIO()  # torch.save hides the reason why a file cannot be written
        torch.save(state, packed)
        with atomic_file(path, within=path.parent) as part, part.open("wb") as file:
            file.write(packed.getbuffer())

    def load(self, path: Path) -> list[dict[str, float]]:
        """Load a checkpoint and return the log's rows; raise an AlphaMFError if this fails."""
        try:
            state = torch.load(path, self._device, weights_only=True)
            with torch.no_grad():
                for name, value in self.parameters.items():
                    value.copy_(state["parameters"][name])
                    self.average[name].copy_(state["average"][name])
            for (optimiser, _), known in zip(self._optimisers, state["optimisers"], strict=True):
                optimiser.load_state_dict(known)
            self.step = int(state["step"])
            rows: list[dict[str, float]] = state["rows"]
        except Exception as error:  # pickle, zipfile and torch each have their own
            raise AlphaMFError(
                f"{printable_name(path)} is not a checkpoint of this run; remove it"
            ) from error
        return rows

    def _whole(self, parameters: dict[str, Any]) -> dict[str, Any]:
        return (
            parameters
            if self._spread is None
            else weight_tying.expand_tied(parameters, self._spread)
        )

    def _run(
        self,
        parameters: Mapping[str, Tensor],
        batch: TrainingClip,
        part: BatchPart,
        exponent: float = 1.0,
    ) -> NetworkSpeech | band_losses.NetworkBandGains:
        short, device = self.config.schedule.precision == "bfloat16", self._device
        with torch.device(device), torch.autocast(device, torch.bfloat16, enabled=short):
            if isinstance(batch, BandClip):
                return band_losses.run_band_network(
                    parameters, batch, exponent, causal=self.grid.causal
                )
            return run_network(parameters, batch, self.grid, part, exponent)

    def _terms(self, made: NetworkSpeech | band_losses.NetworkBandGains) -> dict[str, Tensor]:
        if isinstance(made, band_losses.NetworkBandGains):
            return band_losses.losses(made, self.config.losses)
        return losses(made, self.grid, self.config.losses)

    def _part(self) -> BatchPart:
        """Draw which frames of the clips this step uses, and an equaliser per clip."""
        schedule, mixtures = self.config.schedule, self.config.mixtures
        samples = int(self.grid.rate * mixtures.seconds)
        hop = self.grid.frame.hop_length
        frames = samples // hop if self.grid.asymmetric else 1 + -(-samples // hop)
        used = min(frames, self._longest)
        seed = [schedule.seed, CROP, self.step]
        first = int(np.random.default_rng(seed).integers(frames - used + 1))
        rng = np.random.default_rng([schedule.seed, EQUALISER, self.step])
        levels = equaliser(rng, schedule.batch, self.grid.frame.bins)
        return BatchPart(slice(first, first + used), torch.from_numpy(levels).to(self._device))

    def _sounds(self, made: NetworkSpeech) -> list[tuple[Floats, Floats]]:
        each = (self.grid.inverse(x).cpu().numpy() for x in (made.clean, made.estimate))
        return list(zip(*each, strict=True))


def _optimisers(
    parameters: Mapping[str, Tensor], schedule: Schedule
) -> list[tuple[torch.optim.Optimizer, float]]:
    """Return AdamW, and Muon for the matrices if requested, with their relative step sizes."""
    matrices: list[Tensor] = []
    rest: list[Tensor] = []
    for name, value in parameters.items():
        # Taps have two axes, but each channel has its own: they are no matrix.
        matrix = value.ndim == 2 and not name.endswith(".taps")
        (matrices if matrix and schedule.muon else rest).append(value)
    decay = schedule.weight_decay
    found: list[tuple[torch.optim.Optimizer, float]] = [
        (torch.optim.AdamW(rest, weight_decay=decay, fused=True), 1.0)
    ]
    if matrices:
        muon = torch.optim.Muon(matrices, weight_decay=decay, adjust_lr_fn="match_rms_adamw")
        found.append((muon, schedule.muon))
    return found


def _grid(config: Config, dictionary: Dictionary) -> TrainingGrid:
    """Return the grid of a configuration's network."""
    kind = config.network.kind
    frame, causal = kind.frame(dictionary), kind.network.causal
    asymmetric = causal and frame == frame_of(dictionary.frame)
    return TrainingGrid(frame, dictionary.rate, causal, asymmetric)


def step_size(config: Config, step: int) -> float:
    """Return the step size after `step` steps: a linear rise, then a fall along half a cosine."""
    schedule = config.schedule
    rise = min(schedule.warm_up, schedule.steps // 2)
    if step < rise:
        return schedule.step_size * (step + 1) / (rise + 1)
    part = min(1.0, (step - rise) / max(schedule.steps - rise, 1))
    low = LAST_STEP_SIZE
    return schedule.step_size * (low + (1 - low) * 0.5 * (1 + math.cos(math.pi * part)))


def equaliser(rng: np.random.Generator, clips: int, bins: int) -> Floats:
    """Draw filters that make the network independent of the recordings' frequency responses.

    Returns: log powers, linear between 8 frequencies, shape (clips, bins, 1), float32.
    """
    knots = rng.normal(0, 1.0, (clips, 8))
    knots += rng.normal(0, 0.5, (clips, 1))
    places = np.linspace(0, 7, bins)
    curves = [np.interp(places, np.arange(8), each) for each in knots]
    return np.stack(curves).astype(np.float32)[..., None]


def stack_clips(
    clips: Sequence[TrainingClip], which: Iterable[int], device: str = "cpu"
) -> TrainingClip:
    """Stack the clips with the indices `which` as tensors on a device, along a new first axis."""
    chosen = [clips[k] for k in which]
    each = (torch.from_numpy(np.stack(arrays)).to(device) for arrays in zip(*chosen, strict=True))
    kind: Any = type(chosen[0])
    return kind(*each)


def _batch(seed: int, step: int, size: int, count: int) -> list[int]:
    """Return the indices of a step's clips: in order in the first pass, then in random order.

    A short run therefore needs only the first clips.
    """
    passes, place = divmod(step, count // size)
    if passes == 0:
        return list(range(place * size, (place + 1) * size))
    order = np.random.default_rng([seed, ORDER, passes]).permutation(count)
    return sorted(order[place * size : (place + 1) * size].tolist())


def _weighted(terms: Mapping[str, Tensor], weights: Mapping[str, float]) -> Tensor:
    return torch.stack([weights[name] * value for name, value in terms.items()]).sum()


def _numbers(terms: Mapping[str, Tensor]) -> dict[str, float]:
    """Return scalar tensors as floats, with one synchronisation of the device."""
    values = torch.stack([value.detach() for value in terms.values()]).tolist()
    return dict(zip(terms, values, strict=True))
