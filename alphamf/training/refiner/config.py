"""The configuration of a training run, as dataclasses; `config_file` reads it from a TOML file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, get_args

from alphamf.audio.stft import Frame
from alphamf.denoising import asymmetric_windows
from alphamf.learnt import second_stage
from alphamf.learnt.bands import FULL_BAND
from alphamf.learnt.causal import CausalHighBand, CausalRefiner, CausalSecondStage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.network import Sizes
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import Dereverberator, SecondStage

KINDS = ("place", "coloured", "hum", "babble", "crackle", "events", "recorded", "music")
"""Kinds of a layer of noise."""

CHAINS = ("em-15", "18+20", "20+40", "12+12")
"""Chains that may produce a clip's posterior."""

LOSSES = (
    "distortion",
    "waveform",
    "compression",
    "intelligibility",
    "resolutions",
    "pesq",
    "perception",
    "residue",
    "distance",
)
"""Terms of the objective (`alphamf.training.refiner.losses`)."""

NARROW = 64
"""Bins whose weights are tied to no others: up to 1 kHz in windows of 64 ms."""


@dataclass(frozen=True)
class _AnyKind:
    """What the kinds of networks share, unless one differs."""

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Networks that run before this one."""
        return ()

    def frame(self, dictionary: Dictionary) -> Frame:
        """Return the windows that the network reads, next to a dictionary."""
        return second_stage.frame(dictionary.rate)

    def rate(self, dictionary: Dictionary) -> int:
        """Return the sampling rate of the mixtures in Hz."""
        return dictionary.rate


@dataclass(frozen=True)
class RefinerKind(_AnyKind):
    """The refiner of whole recordings."""

    name: ClassVar[str] = "refiner"
    network: ClassVar[type[TrainedNetwork]] = Refiner
    cell_shape: ClassVar[tuple[int, int]] = Refiner.cell_shapes[0]

    def frame(self, dictionary: Dictionary) -> Frame:
        """Return the windows that the network reads, next to a dictionary."""
        return dictionary.frame


@dataclass(frozen=True)
class CausalKind(_AnyKind):
    """The refiner of the online chain, which reads no later frames.

    Attributes
    ----------
    made_from
        Refiner that a new one starts from (`alphamf.training.refiner.causal_start`); empty: from
        random parameters.
    """

    made_from: str = ""

    name: ClassVar[str] = "causal"
    network: ClassVar[type[TrainedNetwork]] = CausalRefiner
    cell_shape: ClassVar[tuple[int, int]] = CausalRefiner.cell_shapes[0]

    def frame(self, dictionary: Dictionary) -> Frame:
        """Return the windows that the network reads, next to a dictionary."""
        return asymmetric_windows.frame_of(dictionary.frame)


@dataclass(frozen=True)
class SecondStageKind(_AnyKind):
    """The second stage, which corrects the output of a refiner in short windows.

    Attributes
    ----------
    of
        The refiner.
    taps
        Whether its coefficients are complex, and of three frames.
    """

    of: str
    taps: bool = False

    name: ClassVar[str] = "second-stage"
    network: ClassVar[type[TrainedNetwork]] = SecondStage

    @property
    def cell_shape(self) -> tuple[int, int]:
        """Numbers of features and of outputs per time-frequency cell."""
        return SecondStage.cell_shapes[self.taps]

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Networks that run before this one."""
        return (self.of,)


@dataclass(frozen=True)
class DereverberatorKind(SecondStageKind):
    """The second stage that removes echo, too; its mixtures are without late reverberation.

    Attributes
    ----------
    of, taps
        As for the second stage.
    """

    taps: bool = True

    name: ClassVar[str] = "dereverberator"
    network: ClassVar[type[TrainedNetwork]] = Dereverberator


@dataclass(frozen=True)
class CausalSecondStageKind(_AnyKind):
    """The second stage at low latency, which corrects the output of a causal refiner.

    Attributes
    ----------
    of
        The causal refiner; empty: that of the package.
    made_from
        Second stage that a new one starts from (`alphamf.training.refiner.causal_start`); empty:
        from random parameters.
    """

    of: str = ""
    made_from: str = ""

    name: ClassVar[str] = "causal-second-stage"
    network: ClassVar[type[TrainedNetwork]] = CausalSecondStage
    cell_shape: ClassVar[tuple[int, int]] = CausalSecondStage.cell_shapes[0]

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Networks that run before this one."""
        return (self.of,) if self.of else ()


@dataclass(frozen=True)
class HighBandKind(_AnyKind):
    """The network of the bands above 7.5 kHz, which runs after a refiner and a second stage.

    Attributes
    ----------
    after
        The refiner and the second stage; empty: those of the package.
    """

    after: tuple[str, ...] = ()

    name: ClassVar[str] = "high-band"
    network: ClassVar[type[TrainedNetwork]] = HighBand
    cell_shape: ClassVar[tuple[int, int]] = HighBand.cell_shapes[0]

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Networks that run before this one."""
        return self.after

    def rate(self, dictionary: Dictionary) -> int:
        """Return the sampling rate of the mixtures in Hz."""
        return FULL_BAND


@dataclass(frozen=True)
class CausalHighBandKind(HighBandKind):
    """The network of the bands above 7.5 kHz at low latency, which runs after a causal refiner.

    Attributes
    ----------
    after
        The causal refiner; empty: that of the package.
    """

    name: ClassVar[str] = "causal-high-band"
    network: ClassVar[type[TrainedNetwork]] = CausalHighBand

    def frame(self, dictionary: Dictionary) -> Frame:
        """Return the windows that the network reads, next to a dictionary."""
        return asymmetric_windows.frame_of(dictionary.frame)


Kind = (
    RefinerKind
    | CausalKind
    | SecondStageKind
    | DereverberatorKind
    | CausalSecondStageKind
    | HighBandKind
    | CausalHighBandKind
)
NETWORKS = {kind.name: kind for kind in get_args(Kind)}
"""Kinds of networks by their names in a configuration."""


@dataclass(frozen=True)
class Network:
    """The network to train.

    Attributes
    ----------
    model
        Dictionary that the mixtures are read with; it gives the rate and the window.
    width, hidden, blocks, maps, local, deep
        As in `alphamf.learnt.network.Sizes`.
    kind
        Kind of the network, with its settings.
    bands
        Number of bands in which weights are tied (`alphamf.training.refiner.weight_tying`), or 0.
    exponent
        As in `alphamf.learnt.network_file.TrainedNetwork`.
    start
        Network to start from; empty: a new one.
    moved
        How far the network goes from there to what training finds, 1: all the way. On sound unlike
        that of the mixtures a network between the two is often better than either (Wortsman et
        al., "Robust fine-tuning of zero-shot models", CVPR 2022).
    """

    model: str
    width: int
    hidden: int
    blocks: int
    maps: int
    local: int
    deep: int
    kind: Kind = RefinerKind()
    bands: int = 0
    exponent: float = 1.0
    start: str = ""
    moved: float = 1.0

    @property
    def sizes(self) -> Sizes:
        """The sizes in the form of `alphamf.learnt.network`."""
        each = (self.width, self.hidden, self.blocks, self.maps, self.local, self.deep)
        return Sizes(*each, *self.kind.cell_shape)


@dataclass(frozen=True)
class Data:
    """Folders of recordings, in the layout of `alphamf.training.refiner.recordings`.

    Attributes
    ----------
    voices, sounds, rooms
        Folders of clean speech, of other sounds, and of room responses (may be empty).
    narrow
        Folders of clean speech at 16 kHz or more, which gets a synthetic band above 8 kHz
        (`alphamf.training.refiner.synthetic_band`): only for the high-band networks.
    tilts
        As in `alphamf.training.refiner.synthetic_band.widen_band`.
    unscored
        Folders of other sounds that are used for training only: their split dev belongs to another
        test.
    most
        Maximum number of files per speaker, evenly spaced; 0: all. The manifest names the speakers.
    quiet
        Take voices only whose quietest tenth of frames lies at least so many dB below the loudest
        tenth, by the manifest's columns level_p10_db and level_p90_db; 0: all.
    floorless
        Whether the targets are the voices without their own hiss
        (`alphamf.training.refiner.floors`). Mixtures keep it, so that it counts as noise.
    """

    voices: tuple[str, ...]
    sounds: tuple[str, ...]
    rooms: tuple[str, ...] = ()
    narrow: tuple[str, ...] = ()
    tilts: tuple[float, ...] = (0.0, 0.0)
    unscored: tuple[str, ...] = ()
    most: int = 0
    quiet: float = 0.0
    floorless: bool = False


@dataclass(frozen=True)
class Mixtures:
    """The recipe of the mixtures; all but the first four fields are probabilities or ranges.

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
    late
        Share in which the voice begins after a pause.
    rooms, made_up_rooms
        Shares in which the voice is in a recorded room, and in one of decaying noise; the target is
        the voice in the room.
    echo
        Share in which the voice, and most noises, are in a room (`rooms.draw_room`), and the target
        is the voice's early part; only for a dereverberator.
    telephone, band
        Shares that come by telephone, and by a microphone of a narrower band.
    codec
        Share that went through a codec.
    clipped
        Share whose peaks are cut off.
    sibilant
        Share whose voice is chosen for strong sibilants.
    until_edge
        Whether nothing is learned from above the end of the voice's band, which may be that of MP3;
        only for the high-band networks.
    kinds
        Probabilities of the kinds of a layer of noise.
    chains
        Probabilities of the chains that read a mixture; a causal network has none but the online
        chain.
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
    chains: dict[str, float] = field(default_factory=dict)
    echo: float = 0.0
    sibilant: float = 0.0
    late: float = 0.0
    until_edge: bool = False


@dataclass(frozen=True)
class Schedule:
    """Settings of the training loop: optimisers, batch size, and how often to report.

    Attributes
    ----------
    steps, batch
        Steps in all, and clips of a step.
    step_size
        Step size of AdamW after the warm-up; it falls to a hundredth along half a cosine.
    muon
        Step size of Muon, in that of AdamW: it moves the network's matrices then, and AdamW the
        rest; 0: AdamW moves all.
    warm_up
        Steps in which it rises.
    weight_decay, largest_gradient
        Weight decay of both optimisers; norm to which a gradient is clipped.
    averaging
        Decay of the running mean of the parameters, which is what is scored and kept.
    precision
        Precision of products: ``bfloat16`` or ``float32``.
    seed
        Seed of the first parameters, the order of the clips and the random equalisers.
    report_every, score_every
        Steps between two lines of the log, and between two scores on dev clips.
    minutes
        The training ends after so many minutes at the latest, with the wait for mixtures, and the
        step size falls accordingly; for a machine that is there for a time. 0: it makes all steps.
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
    muon: float = 0.0
    minutes: float = 0.0


@dataclass(frozen=True)
class Ladder:
    """Scores that a short run of the configuration must reach.

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
    """The configuration of a training run.

    Attributes
    ----------
    network, data, mixtures, losses, schedule
        The sections; `losses` are weights by the names of `LOSSES`.
    ladder
        None if the file has none.
    """

    network: Network
    data: Data
    mixtures: Mixtures
    losses: dict[str, float]
    schedule: Schedule
    ladder: Ladder | None = field(default=None, compare=False)

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as JSON values, without the ladder."""
        values = {key: value for key, value in asdict(self).items() if key != "ladder"}
        values["network"]["kind"]["name"] = self.network.kind.name
        return values
