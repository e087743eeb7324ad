"""Screenshots of the page, and the memory of the server.

python -m benchmarks.page screenshots       writes docs/figures/page-*.png
python -m benchmarks.page memory            four recordings at a time

Needs Chromium with its driver, and psutil. The recordings are made from data/sample-noisy.wav.
"""

from __future__ import annotations

import base64
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.page_server import Server, chromium, resize, running

ROOT = Path(__file__).parents[1]
SAMPLE = ROOT / "data/sample-noisy.wav"
FIGURES = ROOT / "docs/figures"

VIEWS = (("desktop", 1200, "light"), ("dark", 1200, "dark"), ("phone", 390, "light"))


def wide(path: Path, minutes: float) -> Path:
    """Write the sample again and again, at 48 kHz, in stereo with other noise in each channel."""
    import numpy as np
    import soundfile
    import soxr

    audio, rate = soundfile.read(SAMPLE)
    once = soxr.resample(audio, rate, 48_000)
    count = round(minutes * 60 * 48_000)
    mono = np.tile(once, -(-count // len(once)))[:count]
    noise = np.random.default_rng(1).standard_normal((count, 2))
    soundfile.write(path, mono[:, None] * [1.0, 0.8] + 0.003 * noise, 48_000)
    return path


@contextmanager
def opened(folder: Path, query: str = "", *options: str) -> Iterator[tuple[Server, Any]]:
    """Yield a server, and a browser that shows its page."""
    browser = chromium(folder / "profile")
    if browser is None:
        raise SystemExit("chromium and chromedriver are not installed")
    try:
        with running(folder / "tmp", *options) as server:
            browser.get(f"{server.page}{query}")
            yield server, browser
    finally:
        browser.quit()


def wait(browser: Any, condition: str) -> None:
    """Wait until a condition in JavaScript holds."""
    while not browser.execute_script(f"return Boolean({condition})"):
        time.sleep(0.02)


SHOWN = "document.getElementById('download').checkVisibility()"


def screenshots(folder: Path) -> None:
    """Write the pictures of the docs."""
    with opened(folder) as (_, browser):
        resize(browser, 1200, 700)
        time.sleep(0.5)
        save(browser, "empty")
        browser.find_element("id", "files").send_keys(str(SAMPLE))
        wait(browser, SHOWN)
        browser.execute_script(
            "for (const [id, value] of [['strength', 90]]) {"
            "const s = document.getElementById(id); s.value = value;"
            "s.dispatchEvent(new Event('input', {bubbles: true})) }"
        )
        browser.find_element("id", "timeline").send_keys("\ue014")  # right arrow
        browser.execute_script("document.activeElement.blur()")
        for name, width, scheme in VIEWS:
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            resize(browser, width, 800)
            time.sleep(1)
            save(browser, name)


def save(browser: Any, name: str) -> None:
    """Write a picture of the whole page, of few colours so that it is small."""
    from io import BytesIO

    from PIL import Image

    shot = {"captureBeyondViewport": True, "format": "png"}
    data = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])
    picture = Image.open(BytesIO(data)).convert("RGB").quantize(128, dither=Image.Dither.NONE)
    picture.save(FIGURES / f"page-{name}.png", optimize=True)


def processes(server: Server) -> list[Any]:
    """Return the server's processes."""
    import psutil

    first = psutil.Process(server.process.pid)
    return [first, *first.children(recursive=True)]


def memory(folder: Path) -> None:
    """Print the most memory that the server's processes take with four recordings at a time."""
    with running(folder / "tmp", "--jobs", "4") as server:
        alone = shares(server)
        keys = [server.send(wide(folder / f"{k}.wav", 0.5)) for k in range(4)]
        most, count = 0.0, 0
        while any(server.json("GET", f"api/recordings/{k}")["state"] != "done" for k in keys):
            most, count = max(most, shares(server)), max(count, len(processes(server)))
            time.sleep(0.3)
    print(f"{alone:.0f} MB before the first recording; with four at a time {most:.0f} MB in all,")
    print(f"in {count} processes")


def shares(server: Server) -> float:
    """Return the memory of the processes in MB, what they share counted once."""
    import psutil

    total = 0
    for each in processes(server):
        try:
            total += each.memory_full_info().pss
        except psutil.Error:
            continue
    return total / 1e6


if __name__ == "__main__":
    actions = {"screenshots": screenshots, "memory": memory}
    if len(sys.argv) != 2 or sys.argv[1] not in actions:
        raise SystemExit(__doc__)
    with tempfile.TemporaryDirectory() as place:
        actions[sys.argv[1]](Path(place))
