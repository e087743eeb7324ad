"""Whose voice a file holds."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from alphamf.errors import AlphaMFError
from alphamf.training.dictionary.speech import RULES, group

LIBRISPEECH = [
    "speech/103/1240/103-1240-0000.flac",
    "speech/1034/121119/1034-121119-0000.flac",
    "speech/103/1241/103-1241-0000.flac",
]


@pytest.mark.parametrize("rule", ["folder", "prefix"])
def test_speakers_of_librispeech(rule):
    voices = group(LIBRISPEECH, rule)
    assert [voice.name for voice in voices] == ["103", "1034"]
    assert voices[0].files == (LIBRISPEECH[0], LIBRISPEECH[2])


def test_by_default_every_file_is_a_voice():
    assert [voice.files for voice in group(LIBRISPEECH)] == [(path,) for path in LIBRISPEECH]


def test_prefix():
    paths = ["a/p225_001.wav", "b/p225_002.wav", "sp01.wav", "sp02.wav"]
    assert [voice.name for voice in group(paths, "prefix")] == ["p225", "sp01", "sp02"]


@pytest.mark.parametrize("rule", ["folder", "prefix"])
def test_one_voice_in_several_files_is_not_meant(rule):
    with pytest.raises(AlphaMFError, match=f"the rule {rule} finds only one voice in 2 files"):
        group(["x/a-1.wav", "x/a-2.wav"], rule)
    assert len(group(["x/a-1.wav"], rule)) == 1


def test_rules():
    with pytest.raises(AlphaMFError, match="unknown rule 'name' for voices"):
        group(LIBRISPEECH, "name")


NAMES = st.lists(
    st.tuples(st.sampled_from("abc"), st.sampled_from(["1", "2"]), st.integers(0, 9)),
    min_size=1,
    unique=True,
)


@given(names=NAMES, rule=st.sampled_from(RULES))
def test_every_file_has_one_voice(names, rule):
    paths = [f"root/{folder}/{prefix}-{number}.wav" for folder, prefix, number in names]
    try:
        voices = group(paths, rule)
    except AlphaMFError:
        assert rule != "file"
        return
    assert sorted(file for voice in voices for file in voice.files) == sorted(paths)
    assert len({voice.name for voice in voices}) == len(voices)
    for voice in voices:
        assert list(voice.files) == [path for path in paths if path in voice.files]
