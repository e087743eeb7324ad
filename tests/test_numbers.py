"""Every figure of README, of the site's first page and of docs/guide/which.md has one source.

Each is read back from the table of docs/benchmarks/ that a command made. What is no measurement,
such as a sampling rate, stands in `SETTINGS`.
"""

import re

import pytest

from benchmarks import figures, scored
from tests.support.places import ROOT

README = {
    "noisy input": "noisy",
    "logMMSE": "logmmse",
    "RNNoise": "rnnoise",
    "DeepFilterNet3": "deepfilternet",
    "DTLN": "dtln",
    "UL-UNAS": "UL-UNAS",
    "alphamf `--preset plain`": "plain",
    "alphamf `--latency low` (40 ms)": "low",
    "alphamf": "fast",
}
COLUMNS = [
    *(("noizeus-5dB", score) for score in ("SI-SDR dB", "PESQ")),
    *(("mixed-16k", score) for score in ("SI-SDR dB", "PESQ")),
    *(("unheard-test", score) for score in ("SI-SDR dB", "PESQ")),
    ("speed-peers", "rnnoise = 1, 16 kHz"),
]
WHICH = [
    ("unheard-test", "all", "SI-SDR dB"),
    ("unheard-test", "all", "PESQ"),
    ("unheard-test", "quiet pauses", "PESQ"),
    ("unheard-test", "all", "ESTOI"),
    ("mixed-16k", "all", "SI-SDR dB"),
    ("mixed-16k", "all", "PESQ"),
    ("mixed-16k", "pauses at least 50 dB down", "PESQ"),
    ("words-mixed-16k", "all", "words wrong %"),
    ("speed-peers", "all", "rnnoise = 1, 16 kHz"),
    ("speed-peers", "all", "rnnoise = 1, 48 kHz"),
]
"""Rows of the table of which.md, whose columns are `fast`, `low` and DeepFilterNet3."""

SHARES = ("shares-dev", "all")
PROSE = [
    (r"networks are worth ([\d.]+) of the ([\d.]+) dB", [
        (*SHARES, f"fast less {name}", "SI-SDR dB") for name in ("chain-of-fast", "noisy")]),
    (r"gains ([\d.]+) dB and ([\d.]+) of PESQ more than spectral subtraction", [
        (*SHARES, "fast less subtraction", score) for score in ("SI-SDR dB", "PESQ")]),
    (r"heavy tails are worth ([\d.]+) dB", [(*SHARES, "fast less gaussian", "SI-SDR dB")]),
    (r"take (\d+) s at 16 kHz mono, and (\d+) s at 48 kHz stereo", [
        ("speed-rates", "all", f"{rate} kHz {way}", "s for three minutes")
        for rate, way in ((16, "mono"), (48, "stereo"))]),
    (r"\((\d+) MB; (\d+) MB without", [
        ("install-size", "all", name, "MB") for name in ("all", "default")]),
    (r"from ([\d.]+) to ([\d.]+) dB with alphamf, and to ([\d.]+) dB with DeepFilterNet3", [
        ("sample", "all", name, "SI-SDR dB") for name in ("noisy", "fast", "deepfilternet")]),
    (r"percent \((\d+) without denoising\)", [
        ("words-mixed-16k", "all", "noisy", "words wrong %")]),
    (r"(\d+) with `transcription`", [
        ("words-mixed-16k", "all", "transcription", "words wrong %")]),
]  # fmt: skip
"""Sentences, and the sources of their figures; a loss is told as what its cause is worth."""

SETTINGS = re.compile(
    r"""https?://\S+ | \]\([^)]*\) | ```.*?``` | `[^`]*` | <!--.*?--> | ^---.*?$
    | Python\ 3\.\d+(\ to\ 3\.\d+)? | [\d.]+(\ and\ [\d.]+)?\ (kHz|ms) | -5\ to\ 15\ dB | at\ 5\ dB
    | \b(80|100|120|66|16|20)\ ([a-z]+\ )?(clips|mixtures) | all\ 100 | DeepFilterNet3
    | CC\ BY\ 4\.0 | MP3 | Apache\ 2\.0 | (RNNoise|rnnoise)\ =\ 1 | \d{4}-\d\d-\d\d
    | CC0 | ^[:{].*?$""",
    re.VERBOSE | re.DOTALL | re.MULTILINE,
)
"""What is a name, a setting, or code."""


OWN_PROGRAM = {"deepfilternet": "DeepFilterNet3", "dtln": "DTLN"}
"""Networks that were run on the 120 mixtures by their own programs."""


def agrees(shown: str, table: str, group: str, method: str, column: str) -> bool:
    """Say whether a page shows a value of a table, rounded; a loss may be told without its sign."""
    found = scored.read(f"{table}.csv")
    own = f"{OWN_PROGRAM.get(method, method)}, own program"
    if table == "mixed-16k" and ("all", own) in found:
        method = own
    value = float(found[group, method][column])
    text = shown.strip("*")
    return abs(abs(value) - abs(float(text))) <= 0.5 * 10 ** -len(text.partition(".")[2]) + 1e-9


def rows_of(text: str, heading: str) -> list[list[str]]:
    table = text.partition(f"| {heading} |")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table]


def wrong_of_readme(text: str) -> list[str]:
    wrong = []
    for label, *cells in rows_of(text, "method"):
        for shown, (table, column) in zip(cells, COLUMNS, strict=True):
            if shown and not agrees(shown, table, "all", README[label], column):
                wrong.append(f"{label}, {table}, {column}: {shown}")
    return wrong


def wrong_of_which(text: str) -> list[str]:
    wrong = []
    for (label, *cells), (table, group, column) in zip(
        rows_of(text, "measured"), WHICH, strict=True
    ):
        for shown, method in zip(cells, ("fast", "low", "deepfilternet"), strict=True):
            if shown and not agrees(shown.split(";")[0], table, group, method, column):
                wrong.append(f"{label}, {method}: {shown}")
    return wrong


@pytest.mark.parametrize("page", ["README.md", "docs/index.md", "docs/guide/which.md"])
def test_every_figure_of_the_first_pages_is_that_of_its_table(page):
    text = (ROOT / page).read_text(encoding="utf-8")
    wrong = wrong_of_readme(text) if page == "README.md" else []
    wrong += wrong_of_which(text) if page.endswith("which.md") else []
    gains, times = figures.bars()
    alt = re.search(r"!\[Bars\..*?\]", text, re.DOTALL)
    if alt:
        told = re.findall(
            r"([\d.]+)[,.\]]", alt[0].replace("DeepFilterNet3", "").replace("RNNoise = 1", "")
        )
        assert [float(each) for each in told] == [round(each, 1) for each in (*gains, *times)]
        text = text.replace(alt[0], "")
    rest = re.sub(r"^\|.*\|$", "", text, flags=re.MULTILINE)
    for pattern, sources in PROSE:
        for match in re.finditer(pattern.replace(" ", r"\s+"), text):
            for shown, source in zip(match.groups(), sources, strict=True):
                if not agrees(shown, *source):
                    wrong.append(f"{match[0]!r}: {source}")
        rest = re.sub(pattern.replace(" ", r"\s+"), "", rest)
    assert wrong == []
    assert re.findall(r"[^\n]*?[\d.]*\d[^\n]*", SETTINGS.sub("", rest)) == []
