"""What an extra brings is asked for by name, before any work, and only by what needs it."""

import sys

import pytest

from alphamf.tools import extras
from alphamf.tools.extras import install_extra
from tests.support.commands import QUICK, run
from tests.support.places import ROOT

SAMPLE = ROOT / "data" / "sample-noisy.wav"


@pytest.fixture
def bare(monkeypatch):
    """Hide what the extra `report` brings."""
    for name in ("jinja2", "markupsafe", "matplotlib", "PIL"):
        for loaded in [each for each in sys.modules if each.partition(".")[0] == name]:
            monkeypatch.delitem(sys.modules, loaded)
        monkeypatch.setitem(sys.modules, name, None)


@pytest.mark.parametrize(
    "arguments",
    [
        ["denoise", SAMPLE, "--plot", "picture.png"],
        ["evaluate", "--clean", "clean", "--noisy", "noisy"],
        ["experiment", "linear-gaussian"],
    ],
    ids=lambda words: words[0],
)
def test_pictures_ask_for_the_extra(bare, empty, arguments):
    result = run(*arguments, code=2)
    assert (
        f"needs the package matplotlib; install it with {install_extra('report')}" in result.stderr
    )
    assert list(empty.iterdir()) == []


@pytest.fixture
def prefix(tmp_path, monkeypatch):
    """Make an environment with pip and a Python, which is not on the PATH."""
    folder = tmp_path / "my env"
    (folder / "bin").mkdir(parents=True)
    for name in ("python", "pip"):
        (folder / "bin" / name).write_text("#!/bin/sh\n")
        (folder / "bin" / name).chmod(0o755)
    monkeypatch.setattr(sys, "prefix", str(folder))
    monkeypatch.setattr(sys, "executable", str(folder / "bin" / "python"))
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setattr(extras, "find_spec", lambda name: object())
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    return folder


def test_commands_name_the_pip_of_this_python(prefix, monkeypatch):
    python = f"'{prefix}/bin/python'"
    assert install_extra("web") == f"{python} -m pip install 'alphamf[web]'"
    assert install_extra("live", "web") == f"{python} -m pip install 'alphamf[live,web]'"
    assert extras.install_packages("av") == f"{python} -m pip install av"
    monkeypatch.setenv("PATH", f"{prefix}/bin:/usr/bin")  # it is activated
    assert install_extra("web") == "pip install 'alphamf[web]'"


def test_commands_name_the_program_that_installed_alphamf(prefix, monkeypatch):
    monkeypatch.setattr(
        extras, "installed_version", lambda name: None
    )  # uv's environments have no pip
    (prefix / "bin" / "uv").write_text("#!/bin/sh\n")
    (prefix / "bin" / "uv").chmod(0o755)
    monkeypatch.setenv("PATH", f"{prefix}/bin")
    python = f"'{prefix}/bin/python'"
    assert install_extra("web") == f"uv pip install --python {python} 'alphamf[web]'"
    (prefix / "pipx_metadata.json").touch()
    assert install_extra("web") == "pipx runpip 'my env' install 'alphamf[web]'"
    (prefix / "pipx_metadata.json").unlink()
    (prefix / "uv-receipt.toml").touch()
    monkeypatch.setattr(extras, "_origin", lambda: " @ file:///a/clone")
    assert install_extra("web") == "uv tool install 'alphamf[web] @ file:///a/clone'"


def test_sound_needs_none_of_it(bare, tmp_path):
    made = tmp_path / "out.wav"
    numbers = tmp_path / "out.npz"
    run("denoise", SAMPLE, "-o", made, *QUICK, "--end", "1", "--uncertainty", numbers)
    assert made.exists() and numbers.exists()
    run("experiment", "list")
    run("info", SAMPLE)
