"""The table of voices and noises that nothing was trained on."""

from __future__ import annotations

from benchmarks import unheard


def test_rows_are_grouped_by_kind_level_and_language():
    rows = [
        unheard.Row("a", "babble", -5, "en", {"fast": [1.0, 2.0, 0.5]}),
        unheard.Row("b", "babble", 10, "fr", {"fast": [3.0, 3.0, 0.7]}),
        unheard.Row("c", "street", 5, "fr", {"fast": [5.0, float("nan"), 0.9]}),
    ]
    names = [name for name, _ in unheard.groups(rows)]
    assert names == "all,babble,street,-5 dB,5 dB,10 dB,language en,language fr".split(",")
    lines = unheard.table(rows).splitlines()
    assert lines[2] == "| all (3) | 3.00 ± 1.15 / 2.50 / 0.700 |"
    assert lines[3] == "| babble (2) | 2.00 ± 1.00 / 2.50 / 0.600 |"


def test_a_method_is_compared_with_the_others_clip_by_clip():
    rows = [
        unheard.Row("a", "babble", -5, "en", {"dtln": [1.0, 2.0, 0.5], "fast": [2.0, 2.5, 0.6]}),
        unheard.Row("b", "street", 10, "fr", {"dtln": [3.0, 3.0, 0.7], "fast": [6.0, 2.9, 0.7]}),
    ]
    lines = unheard.ahead(rows, "fast").splitlines()
    assert lines[0] == "| fast: noise | against dtln |"
    assert lines[2] == "| all | +2.00 ± 1.00 / +0.200 / +0.050 |"
