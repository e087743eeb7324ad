"""Results to report, and a parser of report.html."""

import base64
from html.parser import HTMLParser

import numpy as np
import soundfile

from alphamf.evaluation.page import report
from alphamf.evaluation.runner import audio_name
from alphamf.evaluation.summary import Result

RATE = 8000
MINUS = "\N{MINUS SIGN}"
SCORES = ("si_sdr", "si_sdr_gain", "sdr", "sir", "sar", "stoi", "estoi", "pesq")
VOID = ("meta", "link", "img", "br")
BLOCKS = ("p", "div", "dt", "dd", "td", "th", "li", "h1", "h2", "h3", "text", "small", "title")
SETTINGS = {
    "version": "9.8.7",
    "packages": {"numpy": "2.4.6"},
    "python": "3.13.1",
    "platform": "Linux-x86_64",
    "cpus": 2,
    "methods": {
        "noisy": {"summary": "the input, left alone", "model": "auto"},
        "paper": {"summary": "a preset", "model": "auto", "settings": {"steps": 321}},
    },
    "clean": "corpus/clean",
    "noisy": ["corpus/car", "corpus/train"],
    "pairs": None,
    "seed": 17,
    "command": "alphamf evaluate --clean 'a b'",
    "date": "2026-11-20",
}


class Page(HTMLParser):
    """A parsed page: tables of (text, value, class) cells, elements, and visible text."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tables: dict[str, list[list[tuple[str, str | None, str]]]] = {}
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.text = ""
        self.open: list[str] = []
        self._rows: list = []
        self._cell: list | None = None
        self.source = text
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        self.elements.append((tag, given))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self._rows = self.tables.setdefault(given.get("aria-label") or "", [])
        elif tag == "tr":
            self._rows.append([])
        elif tag in ("td", "th"):
            self._cell = ["", given.get("data-value"), given.get("class") or ""]

    def handle_startendtag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag
        self.text += " " * (tag in BLOCKS)
        if tag in ("td", "th"):
            self._cell[0] = " ".join(self._cell[0].split())
            self._rows[-1].append(tuple(self._cell))
            self._cell = None

    def handle_data(self, data):
        if self.open and self.open[-1] in ("script", "style"):
            return
        self.text += data
        if self._cell is not None:
            self._cell[0] += data

    def of(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def table(self, label: str) -> list[list[tuple[str, str | None, str]]]:
        return next(rows for name, rows in self.tables.items() if name.startswith(label))

    def column(self, label: str, heading: str) -> dict[str, tuple[str, str | None, str]]:
        head, *rows = self.table(label)
        place = next(k for k, cell in enumerate(head) if cell[0] == heading)
        return {row[0][1]: row[place] for row in rows}

    @property
    def charts(self) -> list[str]:
        return [
            each["aria-label"]
            for each in self.of("svg")
            if each.get("role") == "img" and each.get("class") != "spectrogram"
        ]


def result(method: str, clip: int = 0, **changed) -> Result:
    """Return a result such as a run gives; scores are keyword arguments."""
    scores = {name: changed.pop(name) for name in SCORES if name in changed}
    fields = {
        "version": "9.8.7", "key": "0", "noisy": f"car_5dB/sp{clip:02}.wav",
        "clean": f"sp{clip:02}.wav", "noise": "car", "snr": 5.0, "seed": 0, "rate": RATE,
        "seconds": 1.0, "cpu_seconds": 0.5, "real_time_factor": 0.5, "peak_memory_mb": 100.0,
        "scores": scores,
    }  # fmt: skip
    if "audio" not in changed:
        fields["audio"] = audio_name(method, f"car_5dB/sp{clip:02}.wav")
    return Result(method=method, **{**fields, **changed})


def corpus(methods: dict[str, float], clips: int = 11, seed: int = 0, **changed) -> list[Result]:
    """Return results, with all scores, of methods with given mean gains in SI-SDR."""
    rng = np.random.default_rng(seed)
    results = []
    for clip in range(clips):
        before = rng.normal(5, 2)
        for method, level in methods.items():
            gain = 0.0 if method == "noisy" else float(rng.normal(level, 0.7))
            after = float(before + gain)
            scores = {
                "si_sdr": after, "si_sdr_gain": gain, "sdr": after + 0.5, "sir": after + 6,
                "sar": after + 1, "stoi": 0.7 + gain / 100, "estoi": 0.5 + gain / 100,
                "pesq": 1.5 + gain / 10,
            }  # fmt: skip
            results.append(result(method, clip, **scores, **changed))
    return results


def written(folder, results, about=SETTINGS) -> Page:
    path = report.write(folder, results, about)
    assert path == folder / "report.html"
    return Page(path.read_text(encoding="utf-8"))


def sounds(folder, results, seconds: float = 0.5, level: float = 0.1) -> None:
    """Write the inputs and outputs of the results: noise."""
    rng = np.random.default_rng(1)
    names = {audio_name("clean", r.clean) for r in results}
    names |= {audio_name("noisy", r.noisy) for r in results}
    names |= {r.audio for r in results if r.audio}
    for name in sorted(names):
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        audio = level * rng.standard_normal(int(seconds * RATE))
        soundfile.write(path, audio, RATE, "PCM_16", format="FLAC")


def data(address: str) -> bytes:
    return base64.b64decode(address.partition(";base64,")[2], validate=True)


MIXED = {"noisy": 0.0, "oracle-mask": 9.0, "logmmse": 2.0, "is-nmf": 1.0, "fast": 3.0, "plain": 4.0}
