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


@pytest.mark.parametrize(
    ("paths", "rule", "names"),
    [
        (LIBRISPEECH, "folder", ["103", "1034"]),
        (LIBRISPEECH, "prefix", ["103", "1034"]),
        (LIBRISPEECH, "file", LIBRISPEECH),
        (["a/p225_001.wav", "b/p225_002.wav", "sp01.wav"], "prefix", ["p225", "sp01"]),
        (["x/a-1.wav"], "prefix", ["a"]),
    ],
)
def test_voices_by_each_rule(paths, rule, names):
    assert [voice.name for voice in group(paths, rule)] == names


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ("folder", "the rule folder finds only one voice in 2 files"),
        ("prefix", "the rule prefix finds only one voice in 2 files"),
        ("name", "unknown rule 'name' for voices"),
    ],
)
def test_rules_that_do_not_do(rule, sentence):
    with pytest.raises(AlphaMFError, match=sentence):
        group(["x/a-1.wav", "x/a-2.wav"], rule)


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
