"""Files of what a microphone recorded: their names, and that none is left where one fails."""

from __future__ import annotations

import os

import pytest

from alphamf.errors import AlphaMFError
from alphamf.live.take import Take, names

RATE = 16000


def test_names_of_other_audio_are_refused_and_make_no_folder(tmp_path):
    for name in ("talk.flac", "talk.MP3"):
        with pytest.raises(AlphaMFError, match=rf"cannot record to .*{name}; give a \.wav"):
            names(str(tmp_path / name))
    assert os.listdir(tmp_path) == []
    (tmp_path / "old.flac").mkdir()
    assert names(str(tmp_path / "old.flac")).before.parent == tmp_path / "old.flac"


@pytest.mark.parametrize("length", [245, 300])  # of 245 only the second name is
def test_a_name_that_is_too_long_is_told_and_leaves_nothing(tmp_path, length):
    files = names(str(tmp_path / f"{'a' * length}.wav"))
    with pytest.raises(AlphaMFError, match="cannot be written: "):
        Take(files, RATE, 1)
    assert os.listdir(tmp_path) == []


def test_channels_that_wav_does_not_take_are_told_and_leave_nothing(tmp_path):
    with pytest.raises(
        AlphaMFError, match=r"a\.wav cannot be written: WAV does not support 2000 ch"
    ):
        Take(names(str(tmp_path / "a.wav")), RATE, 2000)
    assert os.listdir(tmp_path) == []
