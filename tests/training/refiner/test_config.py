"""Configurations of training runs: those that ship, and what is wrong with others."""

import sys
from dataclasses import asdict

import pytest

from alphamf.errors import AlphaMFError
from alphamf.learnt.dictionary import folder
from alphamf.learnt.network import shapes
from alphamf.learnt.network_file import shipped_networks
from alphamf.tools.extras import install_torch
from alphamf.training.refiner import command, config_file
from alphamf.training.refiner.config import NETWORKS
from tests.support import tones

NAMES = sorted(shipped_networks())


@pytest.mark.parametrize("name", NAMES)
def test_the_configuration_of_a_shipped_network_has_its_sizes(name):
    found = config_file.load(folder() / f"{name}.toml").network
    kind = NETWORKS[name.rpartition("-")[0]].network
    network = kind.load(shipped_networks()[name])
    assert found.sizes == network.sizes
    assert network.shapes == shapes(network.cells(network.frame), found.sizes)
    assert found.exponent == network.exponent
    assert found.kind.network is kind


def test_a_network_has_one_configuration_that_its_file_names():
    found = {path.stem: config_file.load(path) for path in folder().glob("*.toml")}
    assert set(NAMES) == set(found)
    refiner = found["refiner-16k"]
    assert refiner.data.floorless and refiner.data.quiet == 30 and refiner.losses["residue"] > 0


def test_a_configuration_comes_back_from_its_dictionary(tmp_path):
    found = tones.changed(tmp_path)
    assert config_file.parse_config(found.as_dict()) == found
    assert "ladder" not in found.as_dict() and "ladder" in asdict(found)


WRONG = [
    ({"network": {"wide": 3}}, r"unknown key wide in \[network\]"),
    ({"network": {"width": "many"}}, r"\[network\] width must be a whole number, not 'many'"),
    ({"network": {"maps": 1}}, r"\[network\] maps must be at least 2, not 1"),
    ({"network": {"kind": "causal"}}, r"\[network\] kind must be a table with a name"),
    ({"network": {"kind": {"name": "large"}}}, "kind.name must be one of refiner, causal, second"),
    ({"network": {"kind": {"name": "causal"}}},
     r"\[mixtures.chains\] cannot be used for a causal network"),
    ({"network": {"kind": {"name": "refiner", "taps": True}}},
     r"unknown key taps in \[network.kind\]"),
    ({"network": {"kind": {"name": "second-stage"}}}, r"the key of is missing in \[network.kind\]"),
    ({"network": {"kind": {"name": "second-stage", "of": "x", "taps": 1}}},
     r"\[network.kind\] taps must be true or false, not 1"),
    ({"network": {"kind": {"name": "high-band", "after": ["x"]}}},
     "must name a refiner and a second stage"),
    ({"data": {"voices": []}}, r"\[data\] voices names no folder"),
    ({"data": {"tilts": [0.0, 0.9]}}, r"\[data\] tilts needs voices in \[data\] narrow"),
    ({"data": {"narrow": ["x"]}}, r"\[data\] narrow can be used for a high-band network only"),
    ({"mixtures": {"echo": 0.5}}, r"\[mixtures\] echo can be used for a dereverberator only"),
    ({"mixtures": {"codec": 1.5}}, r"\[mixtures\] codec must be from 0 to 1, not 1.5"),
    ({"mixtures": {"snr": [5]}}, r"\[mixtures\] snr must be \[lowest, highest\]"),
    ({"mixtures": {"kinds": {"rain": 1}}}, r"\[mixtures.kinds\] has no key rain; its keys are"),
    ({"mixtures": {"chains": {}}}, r"\[mixtures.chains\] needs one of em-15, 12\+12 above 0"),
    ({"mixtures": {"clips": 2}}, r"\[mixtures\] clips must be at least 5, not 2"),
    ({"losses": {"distortion": -1}}, r"\[losses\] distortion must not be below 0"),
    ({"schedule": {"precision": "half"}}, "precision must be bfloat16 or float32, not 'half'"),
    ({"ladder": {"step": 7}}, r"\[ladder\] step must be a multiple of report_every"),
    ({"losses": {"distance": 1}}, r"\[losses\] has no key distance; its keys are distortion, "),
    ({"network": {"kind": {"name": "high-band"}}},
     r"\[losses\] has no key compression; its keys are distortion, distance"),
    ({"network": {"moved": 0.5}}, r"moved is below 1, but there is no start"),
    ({"extra": {"step": 7}}, r"unknown section \[extra\]"),
]  # fmt: skip


@pytest.mark.parametrize("value", [float("inf"), float("nan"), 2.5])
def test_only_a_whole_number_counts_as_one(tmp_path, value):
    with pytest.raises(AlphaMFError, match=rf"width must be a whole number, not {value}"):
        tones.changed(tmp_path, network={"width": value})
    assert tones.changed(tmp_path, network={"width": 16.0}).network.width == 16


@pytest.mark.parametrize(("outer", "name"), [((), "losses"), (("mixtures",), "kinds")])
def test_a_section_cannot_be_a_number(tmp_path, outer, name):
    table = tones.table(tmp_path)
    (table[outer[0]] if outer else table)[name] = 3
    with pytest.raises(AlphaMFError, match=rf"{name}\]? must be a section, not 3"):
        config_file.parse_config(table)


@pytest.mark.parametrize(("values", "sentence"), WRONG, ids=[each[1][:30] for each in WRONG])
def test_a_wrong_value_is_named_in_a_sentence(tmp_path, values, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        tones.changed(tmp_path, **values)


def test_a_missing_key_is_named(tmp_path):
    table = tones.table(tmp_path)
    del table["schedule"]["seed"]
    with pytest.raises(AlphaMFError, match=r"the key seed is missing in \[schedule\]"):
        config_file.parse_config(table)


@pytest.fixture
def refused(monkeypatch, empty, capsys):
    """Return a function that runs the command, which writes nothing and says one sentence."""
    monkeypatch.setattr(command, "end_on_signals", lambda: None)

    def run(*words):
        before = sorted(empty.iterdir())
        monkeypatch.setattr(sys, "argv", ["train", *words, "--run", "run"])
        with pytest.raises(SystemExit, match="2"):
            command.main()
        assert sorted(empty.iterdir()) == before
        said = capsys.readouterr()
        assert said.out == "" and len(said.err.splitlines()) == 1
        return said.err

    return run


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("[network]\nmodel = 3\n", "[network] model must be a text in quotes, not 3"),
        ("[network\n", "cannot be read"),
        (None, "cannot be read: No such file"),
    ],
)
def test_the_command_names_what_is_wrong(refused, tmp_path, text, sentence):
    pytest.importorskip("torch", reason="the command needs PyTorch: pip install 'alphamf[learn]'")
    if text:
        (tmp_path / "a.toml").write_text(text)
    assert sentence in refused("a.toml")


@pytest.mark.parametrize(
    ("output", "sentence"),
    [
        (".", "is a folder; give a file name"),
        ("absent/x.npz", "the folder does not exist"),
        ("x" * 300 + ".npz", "cannot be written: File name too long"),
    ],
)
def test_outputs_that_cannot_be_written_are_refused_before_the_work(refused, output, sentence):
    assert sentence in refused("x.toml", "-o", output)


def test_without_pytorch_one_sentence_says_what_to_install(refused, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    said = refused("x.toml")
    assert f"needs PyTorch; install it with {install_torch('learn')}" in said and " GB" in said
