"""report.html: names of files and methods, and sentences, are text and nothing else."""

import pytest

from tests.support.report_page import SETTINGS, Page, result, written

NASTY = [
    "<script>alert(1)</script>", '"><img src=x onerror=alert(1)>', "' onload='alert(1)",
    "--><svg/onload=alert(1)>", "{{ 7 * 191 }}", "$x_1$ and \\frac", "]]>", "</title></style>",
    "a\nb\x07c\x1b", "\N{CJK UNIFIED IDEOGRAPH-4E2D}\N{GRINNING FACE}", "\udc80.wav", "&lt;b&gt;",
    'style="fill: #0a0b01"',
]  # fmt: skip


def outline(found: Page) -> list[tuple[str, list[str]]]:
    """Return the elements of a page and the names of their attributes, but not words' spans."""
    return [(t, sorted(given)) for t, given in found.elements if given.get("class") != "word"]


def named(folder, names: list[str]) -> Page:
    """Write a page with names in all places that a user can name."""
    results = [result("fast", k, noise=names[0], si_sdr=1.0 + k, si_sdr_gain=1.0) for k in range(2)]
    for name in names:
        results += [
            result(
                name, noisy=name, clean=name, noise=name, si_sdr=1.0, si_sdr_gain=5.0, audio=None
            ),
            result("fast", noisy=f"{name}.wav", noise=name, error=f"{name} {name}", audio=None),
            result("fast", noisy=name, noise=name, si_sdr=None, reasons={"pesq": f"no {name}"}),
        ]
    about = {
        **SETTINGS, "command": names[0], "clean": names[0], "packages": {names[0]: names[0]},
        "methods": {name: {"summary": name, "settings": {"a": name}} for name in names},
    }  # fmt: skip
    return written(folder, results, about)


def assert_only_text(folder, names: list[str]) -> None:
    found = named(folder, names)
    assert len(found.of("script")) == 1
    # Plain names in the same order.
    plain = [f"plain {chr(ord('a') + sorted(names).index(name))}" for name in names]
    assert outline(found) == outline(named(folder, plain))
    text = " ".join(found.text.split())
    for name in names:
        wanted = name.encode(errors="backslashreplace").decode()
        assert " ".join(wanted.split()) in text


@pytest.mark.slow
def test_names_and_sentences_are_never_markup(tmp_path):
    assert_only_text(tmp_path, NASTY)
