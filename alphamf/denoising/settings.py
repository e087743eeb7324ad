"""Settings of a denoising run, and the presets."""

from dataclasses import dataclass, replace
from math import inf
from typing import Any, get_args

from alphamf.denoising.choices import ChannelsName, PresetName
from alphamf.errors import AlphaMFError
from alphamf.factorization.priors import Flat, Gamma, Prior
from alphamf.factorization.stable import ALPHAS
from alphamf.inference.protocols import Sampler
from alphamf.inference.samplers.registry import SAMPLERS
from alphamf.tools.arguments import (
    flag,
    one_of,
    real_number,
    replace_numbers,
    shown_value,
    whole_number,
)

_FRICTION = {"step_size": 3e-4, "leaps": 1, "friction": 50.0}
_THERMOSTAT = {"step_size": 3e-4, "leaps": 1, "diffusion": 50.0}
_HAMCMC = {"step_size": 1e-6, "memory": 5, "gamma": 1.0, "trust": 1e6}

HYPERPARAMETERS: dict[str, dict[str, Any]] = {
    "sgld": {"step_size": 1e-6},
    "psgld": {"step_size": 3e-4, "damping": 1.0},
    "psgld-lagged": {"step_size": 1e-3, "damping": 300.0},
    "sgrld": {"step_size": 0.5, "decay": 0.5, "freeze": 150},
    "em": {"relaxation": 1.5},
    "hamcmc": _HAMCMC,
    "hamcmc-positive": {"step_size": 0.5, "decay": 0.5, "freeze": 100},
    "naive-qn": _HAMCMC,
    "hmc-positive": {"step_size": 0.2, "decay": 0.5, "freeze": 4},
    **dict.fromkeys(("sghmc", "sghmc-splitting", "sghmc-baoab", "sghmc-em"), _FRICTION),
    **dict.fromkeys(("sgnht", "sgnht-em"), _THERMOSTAT),
    **dict.fromkeys(("sg-nphmc", "sg-nphmc-em", "sg-nphmc-em-q"), _FRICTION),
}
"""Hyperparameters of samplers, by name, for W and H of a power spectrogram with mean one.

The masses of the -em samplers do not adapt within the steps of a preset, so these samplers behave
like those without the ending -em.
"""

METROPOLIS = ("hmc-positive",)
"""Usable samplers that accept or reject each step of W and H, by the potential U of all rows."""

UNSUITABLE = {
    **dict.fromkeys(
        ("hmc", "hmc-em", "qnhmc-lbfgs"),
        "it mirrors factors at zero, where most of them are, and rejects nearly all steps",
    ),
    "qnhmc": "it holds a matrix of all pairs of factors, and rejects nearly all steps",
    "hmc-bfgs": "the members of its ensemble would share Phi",
}
"""Samplers that cannot be used although their needs are met, with the reason for each."""

FALLBACK = {"step_size": 1e-6}
"""Hyperparameters of a sampler that has none in `HYPERPARAMETERS`, such as a new sampler."""

CHANNELS: tuple[str, ...] = get_args(ChannelsName)
"""Allowed values of `channels`."""

OFFERED = ("bounded gradient", "parts", "value")
"""Needs of a sampler that the denoiser's posterior meets."""


def kernel(name: str) -> Sampler[Any]:
    """Return the sampler of a name; raise an AlphaMFError if it is unknown or cannot denoise."""
    if not isinstance(name, str) or name not in SAMPLERS:
        raise AlphaMFError(
            f"unknown `sampler` {shown_value(name)}; it must be a name in "
            "alphamf.SAMPLERS, such as sgrld, hamcmc-positive or em"
        )
    sampler: Sampler[Any] = SAMPLERS[name](**HYPERPARAMETERS.get(name, FALLBACK))
    missing = [need for need in sampler.needs if need not in OFFERED]
    if missing:
        raise AlphaMFError(
            f"the `sampler` {name!r} cannot be used for denoising; it needs "
            f"{', '.join(missing)}, which the posterior of W and H does not provide"
        )
    if name in UNSUITABLE:
        raise AlphaMFError(
            f"the `sampler` {name!r} cannot be used for denoising, because {UNSUITABLE[name]}; "
            "use 'hmc-positive'"
        )
    return sampler


@dataclass(frozen=True)
class Settings:
    """Settings of a denoising run.

    Attributes
    ----------
    sampler
        Kernel for W and H: a name in `alphamf.SAMPLERS` that `kernel` accepts.
    steps, keep
        Steps of each chain, and how many of the last ones are averaged.
    thin
        Distance between the steps whose gains are averaged; `keep` if that is smaller.
    warm_up
        Steps of EM before those of the sampler.
    coarse
        The warm-up reads every `coarse`-th frame; in its last 3 steps, and in short segments, all.
    chains
        Number of independent chains, whose results are averaged.
    blocks
        Number of blocks of rows: each step reads one of them, the minibatch.
    alpha_speech
        Stability index alpha of the speech; None for the dictionary's own.
    alpha_noise, noise_rank
        Stability index of the noise, and number of its spectra, which each segment learns.
    prior_speech, prior_noise, prior_noise_basis
        Priors of H_speech, H_noise and W_noise. `prior_speech` may be None: a Gamma prior of shape
        0.1 (sparse), or of shape 1 if the sampler needs a bounded gradient.
    learn_channel
        Whether the dictionary is fitted to the recording's frequency response (`sampling`).
    refine
        Whether the networks in `Weights` are used. They were trained on posteriors of 15 to 24
        steps, warm-up included; with far more steps the result may be worse than without networks.
        Without them, the gain is the posterior mean, and with 100 steps or more, linked channels
        that share a voice are sampled together (`components`) unless a noise is known.
    dry
        Proportion of the input in the output, from 0 to 1: 1 minus the strength.
    dereverb
        Proportion of the room's echo that is removed, from 0 (none) to 1: late reverberation, by
        `late_reverberation` and a network for it. Nothing is done where there is no echo.
    max_attenuation
        Largest attenuation of a time-frequency cell in dB; None for no limit.
    channels
        ``"linked"``: a voice that channels share keeps its position between them (`spatial`);
        ``"separate"``: each channel is denoised alone.

    Raises
    ------
    AlphaMFError
        A value has the wrong type or is out of range, or the sampler cannot be used for denoising.

    Examples
    --------
    >>> from dataclasses import replace
    >>> milder = replace(PRESETS["fast"], dry=0.1)
    >>> Settings(dry=2)
    Traceback (most recent call last):
    alphamf.errors.AlphaMFError: `dry` must be from 0 to 1, not 2
    """

    sampler: str = "sgrld"
    steps: int = 230
    keep: int = 90
    thin: int = 2
    warm_up: int = 30
    coarse: int = 1
    chains: int = 1
    blocks: int = 1
    alpha_speech: float | None = None
    alpha_noise: float = 1.89
    noise_rank: int = 4
    prior_speech: Prior | None = None
    prior_noise: Prior = Gamma(30.0, 30.0)
    prior_noise_basis: Prior = Flat()
    learn_channel: bool = True
    refine: bool = True
    dry: float = 0.0
    dereverb: float = 0.0
    max_attenuation: float | None = None
    channels: ChannelsName = "linked"

    @property
    def speech_prior(self) -> Prior:
        """Prior of the activations H_speech: `prior_speech`, or a Gamma prior if it is None."""
        shape = 1.0 if "bounded gradient" in kernel(self.sampler).needs else 0.1
        return self.prior_speech or Gamma(shape, 20.0)

    def __post_init__(self) -> None:
        self._check_words()
        numbers = {
            name: whole_number(f"`{name}`", getattr(self, name), 1)
            for name in ("steps", "keep", "thin", "coarse", "chains", "blocks", "noise_rank")
        }
        numbers["warm_up"] = whole_number("`warm_up`", self.warm_up, 0)
        if self.blocks > 1 and self.sampler in METROPOLIS:
            raise AlphaMFError(
                f"`blocks` must be 1 for the sampler {self.sampler!r}, which reads all rows, "
                f"not {self.blocks}"
            )
        if self.keep > self.steps:
            raise AlphaMFError(f"`keep` must be at most `steps` = {self.steps}, not {self.keep}")
        reals = {"alpha_noise": ALPHAS, "dry": (0, 1), "dereverb": (0, 1)}
        if self.alpha_speech is not None:
            reals["alpha_speech"] = ALPHAS
        if self.max_attenuation is not None:
            reals["max_attenuation"] = (0, inf)
        floats = {
            name: real_number(f"`{name}`", getattr(self, name), *ends)
            for name, ends in reals.items()
        }
        replace_numbers(self, numbers | floats)

    def _check_words(self) -> None:
        kernel(self.sampler)
        for name in ("learn_channel", "refine"):
            flag(f"`{name}`", getattr(self, name))
        one_of("`channels`", self.channels, CHANNELS)
        for name in ("prior_speech", "prior_noise", "prior_noise_basis"):
            prior = getattr(self, name)
            if not (isinstance(prior, Prior) or (prior is None and name == "prior_speech")):
                raise AlphaMFError(
                    f"`{name}` must be a prior, such as Gamma(30.0, 30.0), not {shown_value(prior)}"
                )


FAST = Settings(warm_up=12, coarse=4, steps=12, keep=8, alpha_noise=2.0)

PRESETS: dict[str, Settings] = {
    "fast": FAST,
    # Speech recognisers make fewer errors if a part of the input is mixed in.
    "transcription": replace(FAST, dry=0.3),
    "plain": Settings(refine=False),
    "paper": Settings(
        sampler="hamcmc",
        steps=2500,
        keep=200,
        blocks=10,
        alpha_speech=1.2,
        noise_rank=5,
        learn_channel=False,
        refine=False,
    ),
}


def choose_settings(
    preset: PresetName | Settings,
    strength: float | None = None,
    dereverb: float | None = None,
    max_attenuation: float | None = None,
) -> Settings:
    """Return a preset's settings, or those given; arguments that are not None override fields."""
    if isinstance(preset, Settings):
        settings = preset
    elif isinstance(preset, str) and preset in PRESETS:
        settings = PRESETS[preset]
    else:
        raise AlphaMFError(
            f"preset must be one of {', '.join(PRESETS)}, or alphamf.Settings, not "
            f"{shown_value(preset)}"
        )
    if strength is not None:
        settings = replace(settings, dry=round(1 - real_number("strength", strength, 0, 1), 9))
    if dereverb is not None:
        part = float(dereverb) if isinstance(dereverb, bool) else dereverb
        settings = replace(settings, dereverb=real_number("dereverb", part, 0, 1))
    if max_attenuation is not None:
        settings = replace(settings, max_attenuation=max_attenuation)
    return settings
