"""The configuration of a training run, as dataclasses; `config_file` reads it from a TOML file."""

import math
from dataclasses import asdict, dataclass, field
from typing import Any, ClassVar, get_args

from alphamf.audio.stft import Frame
from alphamf.denoising.settings import Settings
from alphamf.denoising.weights import frame_for
from alphamf.learnt.bands import FULL_BAND
from alphamf.learnt.causal import CausalHighBand, CausalRefiner, CausalSecondStage
from alphamf.learnt.dictionary import Dictionary
from alphamf.learnt.high_band import HighBand
from alphamf.learnt.network import Sizes
from alphamf.learnt.network_file import TrainedNetwork
from alphamf.learnt.refiner import Refiner
from alphamf.learnt.second_stage import Dereverberator, SecondStage

KINDS = ("place", "coloured", "hum", "babble", "crackle", "events", "recorded", "music")
"""Kinds of noise, of which one is drawn for each layer of a mixture's noise."""

CHAINS = {
    "em-15": Settings(sampler="em", warm_up=0, steps=15, keep=3, thin=1),
    "12+12": Settings(warm_up=12, steps=12, keep=8, alpha_noise=2.0),
}
"""Chains that may produce a clip's posterior: EM that stops early, which is cheap, so that there
may be many mixtures; and the chain of the preset `fast` but for `coarse`, named by its steps."""

NARROW = 64
"""Number of the lowest bins, up to 1 kHz in windows of 64 ms, whose weights are not tied."""


@dataclass(frozen=True)
class _AnyKind:
    """Defaults for all kinds of networks; a kind may override them."""

    # Terms that the objective may have (`alphamf.training.refiner.losses`).
    losses: ClassVar[tuple[str, ...]] = (
        "distortion",
        "waveform",
        "compression",
        "intelligibility",
        "resolutions",
        "pesq",
        "perception",
        "residue",
    )

    network: ClassVar[type[TrainedNetwork]]

    @property
    def cell_shape(self) -> tuple[int, int]:
        """Numbers of features and of outputs per time-frequency cell."""
        return self.network.cell_shapes[0]

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Names or files of the networks before this one; empty: none, or those of the package."""
        of: str = getattr(self, "of", "")
        return (of,) if of else ()

    def frame(self, dictionary: Dictionary) -> Frame:
        """Return the window and hop in samples that the network must have to fit a dictionary."""
        return frame_for(self.network, dictionary)

    def rate(self, dictionary: Dictionary) -> int:
        """Return the sampling rate of the mixtures in Hz."""
        return dictionary.rate


@dataclass(frozen=True)
class RefinerKind(_AnyKind):
    """The refiner of whole recordings."""

    name: ClassVar[str] = "refiner"
    network: ClassVar[type[TrainedNetwork]] = Refiner


@dataclass(frozen=True)
class CausalKind(_AnyKind):
    """The refiner of the online chain, which reads no later frames."""

    name: ClassVar[str] = "causal"
    network: ClassVar[type[TrainedNetwork]] = CausalRefiner


@dataclass(frozen=True)
class SecondStageKind(_AnyKind):
    """The second stage, which corrects the output of a refiner in short windows."""

    of: str  # Name or file of the refiner
    taps: bool = False  # Whether the outputs include complex coefficients of three frames

    name: ClassVar[str] = "second-stage"
    network: ClassVar[type[TrainedNetwork]] = SecondStage

    @property
    def cell_shape(self) -> tuple[int, int]:
        """Numbers of features and of outputs per time-frequency cell."""
        return SecondStage.cell_shapes[self.taps]


@dataclass(frozen=True)
class DereverberatorKind(SecondStageKind):
    """The second stage that also removes echo; `Mixtures.echo` describes its targets."""

    taps: bool = True

    name: ClassVar[str] = "dereverberator"
    network: ClassVar[type[TrainedNetwork]] = Dereverberator


@dataclass(frozen=True)
class CausalSecondStageKind(_AnyKind):
    """The second stage at low latency, which corrects the output of a causal refiner."""

    of: str = ""  # Name or file of the causal refiner; empty: that of the package

    name: ClassVar[str] = "causal-second-stage"
    network: ClassVar[type[TrainedNetwork]] = CausalSecondStage


@dataclass(frozen=True)
class HighBandKind(_AnyKind):
    """The network of the bands above 7.5 kHz, which runs after a refiner and a second stage."""

    # Names or files of the refiner and the second stage, or a causal refiner; empty: shipped ones.
    after: tuple[str, ...] = ()
    # Terms that the objective may have (`alphamf.training.refiner.band_losses`).
    losses: ClassVar[tuple[str, ...]] = ("distortion", "distance")
    name: ClassVar[str] = "high-band"
    network: ClassVar[type[TrainedNetwork]] = HighBand

    @property
    def earlier_networks(self) -> tuple[str, ...]:
        """Names or files of the networks before this one; empty: those of the package."""
        return self.after

    def rate(self, dictionary: Dictionary) -> int:
        """Return the sampling rate of the mixtures in Hz."""
        return FULL_BAND


@dataclass(frozen=True)
class CausalHighBandKind(HighBandKind):
    """The network of the bands above 7.5 kHz at low latency, which runs after a causal refiner."""

    name: ClassVar[str] = "causal-high-band"
    network: ClassVar[type[TrainedNetwork]] = CausalHighBand


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
    """The network to train."""

    model: str  # Name or file of the dictionary, which determines the rate and the window
    # width, hidden, blocks, maps, local, deep: as in `alphamf.learnt.network.Sizes`.
    width: int
    hidden: int
    blocks: int
    maps: int
    local: int
    deep: int
    kind: Kind = RefinerKind()  # Kind of the network, with its settings
    # Number of bands with tied weights (`alphamf.training.refiner.weight_tying`); 0: none is tied.
    bands: int = 0
    exponent: float = 1.0  # As in `alphamf.learnt.network_file.TrainedNetwork`
    start: str = ""  # Name or file of the network to start from; empty: a new one
    # Weight of the trained parameters in their mean with those of `start`, which is the result; 1:
    # trained ones only. On sound unlike the mixtures such a mean is often better than either
    # (Wortsman et al., "Robust fine-tuning of zero-shot models", CVPR 2022).
    moved: float = 1.0

    @property
    def sizes(self) -> Sizes:
        """The sizes of the network, with the numbers of features and outputs per cell."""
        each = (self.width, self.hidden, self.blocks, self.maps, self.local, self.deep)
        return Sizes(*each, *self.kind.cell_shape)


@dataclass(frozen=True)
class Data:
    """Folders of recordings (`alphamf.training.refiner.recordings`), and how they are used."""

    # voices, sounds, rooms: folders of clean speech, of other sounds, and of room responses (may be
    # empty).
    voices: tuple[str, ...]
    sounds: tuple[str, ...]
    rooms: tuple[str, ...] = ()
    # Folders of clean speech at 16 kHz or more, which gets a synthetic band above 7.6 kHz
    # (`alphamf.training.refiner.recordings`); only for the high-band networks.
    narrow: tuple[str, ...] = ()
    # As in `alphamf.training.refiner.recordings.widen_band`.
    tilts: tuple[float, ...] = (0.0, 0.0)
    # Folders of other sounds that are used for training only, never for scores.
    unscored: tuple[str, ...] = ()
    # Maximum number of files per speaker, evenly spaced; 0: all. The manifest names the speakers.
    most: int = 0
    # Take only voices whose quietest tenth of frames lies at least this many dB below the loudest
    # tenth, by the manifest's columns level_p10_db and level_p90_db; 0: all.
    quiet: float = 0.0
    # Whether the targets are the voices without their own hiss (`alphamf.denoising.gain`).
    # The mixtures keep this hiss, so that it counts as noise.
    floorless: bool = False


@dataclass(frozen=True)
class Mixtures:
    """The recipe of the mixtures: how many and how long, then probabilities and ranges."""

    # clips, dev_clips: numbers of mixtures to train on and to score with.
    clips: int
    dev_clips: int
    seconds: float  # Length of a mixture
    seed: int  # The same seed makes the same mixtures
    snr: tuple[float, ...]  # Range of the signal-to-noise ratio in dB
    nearly_clean: float  # Fraction whose signal-to-noise ratio is 20 to 50 dB instead
    level: tuple[float, ...]  # Range of the peak in dBFS
    layers: tuple[float, ...]  # Probability of each layer of noise beyond the first
    rumble: float  # Fraction with rumble, at frequencies below the voice
    pauses: float  # Fraction in which the noise pauses
    # rooms, made_up_rooms: fractions in which the voice gets the response of a recorded room, or
    # decaying noise as response; the target is the voice in the room.
    rooms: float
    made_up_rooms: float
    # telephone, band: fractions with the band of a telephone, and with a random narrower band.
    telephone: float
    band: float
    codec: float  # Fraction that is encoded by a lossy codec and decoded
    clipped: float  # Fraction whose peaks are cut off
    kinds: dict[str, float]  # Relative probabilities of the kinds of a layer of noise
    # Relative probabilities of the `CHAINS` that sample a mixture's posterior; empty for a causal
    # network, which uses the online chain.
    chains: dict[str, float] = field(default_factory=dict)
    # Fraction in which the voice, and most noises, are in a room (`draw_room`), and the target
    # is the voice's early part; only for a dereverberator.
    echo: float = 0.0
    sibilant: float = 0.0  # Fraction whose piece of a voice is chosen for strong sibilants
    late: float = 0.0  # Fraction in which the voice begins after a pause
    # Whether the losses leave out the bands above the voice's highest band with sound, for example
    # because MP3 removed their sound; only for the high-band networks.
    until_edge: bool = False


@dataclass(frozen=True)
class Schedule:
    """Settings of the training loop: optimisers, batch size, and how often to report."""

    # steps, batch: numbers of steps, and of clips per step.
    steps: int
    batch: int
    # Step size of AdamW after the warm-up; it falls to a hundredth along half a cosine.
    step_size: float
    warm_up: int  # Number of first steps in which the step size rises; at most half of all steps
    # weight_decay, largest_gradient: weight decay of both optimisers; norm to which a gradient is
    # clipped.
    weight_decay: float
    largest_gradient: float
    # Decay per step of the parameters' running mean, which is scored and saved; lower at first.
    averaging: float
    precision: str  # Precision of products: ``bfloat16`` or ``float32``
    seed: int  # Seed of the first parameters, of the clips' order and cuts, and of equalisers
    # report_every, score_every: steps between two lines of the log, and between two scores on dev
    # clips.
    report_every: int
    score_every: int
    # Step size of Muon, as a multiple of `step_size`: Muon then updates the network's matrices, and
    # AdamW the other parameters; 0: AdamW updates all.
    muon: float = 0.0


@dataclass(frozen=True)
class Ladder:
    """Loss that a short run of the configuration must reproduce at a given step."""

    step: int  # Step at which the run is compared: a multiple of `Schedule.report_every`
    # Objective recorded at this step: a mean over the steps of its log line; NaN: not yet known.
    loss: float = math.nan
    within: float = 0.0  # Largest difference from `loss` that passes


@dataclass(frozen=True)
class Config:
    """The configuration of a training run."""

    # network, data, mixtures, losses, schedule: the sections; `losses` are weights by name.
    network: Network
    data: Data
    mixtures: Mixtures
    losses: dict[str, float]
    schedule: Schedule
    ladder: Ladder | None = field(default=None, compare=False)  # None if the file has none

    def as_dict(self) -> dict[str, Any]:
        """Return the configuration as JSON values, without the ladder."""
        values = {key: value for key, value in asdict(self).items() if key != "ladder"}
        values["network"]["kind"]["name"] = self.network.kind.name
        return values
