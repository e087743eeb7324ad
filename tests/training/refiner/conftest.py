"""Corpora to train on."""

import pytest

from tests.support import tones


@pytest.fixture(scope="module")
def corpora(tmp_path_factory):
    """Return a folder of voices, sounds, a room and a dictionary."""
    folder = tmp_path_factory.mktemp("corpora")
    tones.write_corpora(folder)
    return folder
