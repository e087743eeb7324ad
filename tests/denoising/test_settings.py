"""Settings that cannot be met raise one sentence that names them."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, fields, replace
from math import nan

import pytest

from alphamf.cli.denoise import Preset
from alphamf.denoising.settings import KERNELS, PRESETS, Settings
from alphamf.errors import AlphaMFError
from alphamf.inference.samplers import SAMPLERS

WRONG = [
    ("sampler", "gibbs"),
    ("steps", 0),
    ("keep", 0),
    ("keep", -3),
    ("thin", 0),
    ("warm_up", -1),
    ("chains", 0),
    ("blocks", 0),
    ("noise_rank", 0),
    ("alpha_speech", 0.4),
    ("alpha_speech", 2.1),
    ("alpha_speech", nan),
    ("alpha_noise", 0.0),
    ("alpha_noise", nan),
    ("dry", -0.1),
    ("dry", 1.1),
    ("dry", nan),
    ("max_attenuation", -1.0),
    ("max_attenuation", nan),
]


@pytest.mark.parametrize(("name", "value"), WRONG, ids=str)
@pytest.mark.parametrize("preset", sorted(PRESETS))
def test_out_of_range(preset, name, value):
    with pytest.raises(AlphaMFError, match=name) as caught:
        replace(PRESETS[preset], **{name: value})
    assert str(value) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_no_more_is_kept_than_made():
    with pytest.raises(AlphaMFError, match="keep must be at most steps = 10, not 11"):
        Settings(steps=10, keep=11)
    assert Settings(steps=10, keep=10).keep == 10


@pytest.mark.parametrize("limit", [None, 0.0, 12.0])
def test_limits_are_allowed(limit):
    assert Settings(max_attenuation=limit, dry=1.0, alpha_speech=2.0, alpha_noise=0.5)


def test_presets_are_those_of_the_command_line():
    assert list(PRESETS) == [each.value for each in Preset]
    assert [name for name in PRESETS if not PRESETS[name].refine] == ["plain", "paper"]


def test_presets_cannot_be_changed():
    name = fields(Settings)[0].name
    with pytest.raises(FrozenInstanceError):
        setattr(PRESETS["fast"], name, "em")


def test_kernels_are_named_as_their_samplers():
    for name, sampler in KERNELS.items():
        # Factors are what the denoiser samples, so that there the shorter name will do.
        assert type(sampler) is SAMPLERS["sgrld-factors" if name == "sgrld" else name]
