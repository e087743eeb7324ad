"""Make pictures of the page of `alphamf serve`, for the documentation.

This needs Chromium with its driver. The recordings are made from data/sample-noisy.wav.
"""

import base64
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alphamf.errors import AlphaMFError
from benchmarks.page_server import chromium, resize, running
from benchmarks.report import ROOT, SAMPLE, run_main

FIGURES = ROOT / "docs/figures"

VIEWS = (("desktop", 1200, "light"), ("dark", 1200, "dark"), ("phone", 390, "light"))


def wide(path: Path) -> Path:
    """Write 30 s of the sample at 48 kHz, in stereo with noise of its own in each channel."""
    import numpy as np
    import soundfile
    import soxr

    audio, rate = soundfile.read(SAMPLE)
    once = soxr.resample(audio, rate, 48_000)
    mono = np.resize(once, 30 * 48_000)
    noise = np.random.default_rng(1).standard_normal((len(mono), 2))
    soundfile.write(path, mono[:, None] * [1.0, 0.8] + 0.003 * noise, 48_000)
    return path


@contextmanager
def opened() -> Iterator[tuple[Path, Any]]:
    """Yield a folder, and a browser that shows the page of a server."""
    with tempfile.TemporaryDirectory() as place:
        browser = chromium(Path(place, "profile"))
        if browser is None:
            raise AlphaMFError("chromium and chromedriver are not installed")
        with browser, running(Path(place, "tmp")) as server:
            browser.get(server.page)
            yield Path(place), browser


def wait(browser: Any, condition: str) -> None:
    """Wait until a condition in JavaScript holds."""
    while not browser.execute_script(f"return Boolean({condition})"):
        time.sleep(0.02)


SHOWN = "document.getElementById('download').checkVisibility()"


def set_control(browser: Any, name: str, value: object) -> None:
    """Set a slider or a menu."""
    browser.execute_script(
        "const s = document.getElementById(arguments[0]); s.value = arguments[1];"
        "s.dispatchEvent(new Event('input', {bubbles: true}))",
        name,
        value,
    )


def screenshots() -> None:
    """Write docs/figures/page-*.png."""
    with opened() as (folder, browser):
        resize(browser, 1200, 700)
        time.sleep(0.5)
        save(browser, "empty")
        browser.find_element("id", "files").send_keys(str(SAMPLE))
        wait(browser, SHOWN)
        set_control(browser, "strength", 90)
        browser.find_element("id", "timeline").send_keys("\ue014")  # right arrow
        browser.execute_script("document.activeElement.blur()")
        for name, width, scheme in VIEWS:
            feature = {"name": "prefers-color-scheme", "value": scheme}
            browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [feature]})
            resize(browser, width, 800)
            time.sleep(1)
            save(browser, name)
        browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": []})
        resize(browser, 1200, 800)
        browser.find_element("id", "files").send_keys(str(wide(folder / "interview.wav")))
        wait(browser, "document.querySelectorAll('#items .state').length == 2")
        wait(browser, SHOWN)
        browser.find_element("id", "together").click()
        time.sleep(1)
        save(browser, "several")


def picture(browser: Any, *, whole: bool = True) -> Any:
    """Return a picture (PIL) of the whole page, or of the part that the window shows."""
    from io import BytesIO

    from PIL import Image

    shot = {"captureBeyondViewport": whole, "format": "png"}
    data = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])
    return Image.open(BytesIO(data)).convert("RGB")


def save(browser: Any, name: str) -> None:
    """Write a picture of the whole page, with 128 colours so that the file is small."""
    from PIL import Image

    small = picture(browser).quantize(128, dither=Image.Dither.NONE)
    small.save(FIGURES / f"page-{name}.png", optimize=True)


def movie() -> None:
    """Write docs/figures/page.gif: a sample is denoised, played before and after, and mixed."""
    from PIL import Image

    frames: list[tuple[Any, int]] = []

    def take(milliseconds: int) -> None:
        frames.append((picture(browser, whole=False), milliseconds))

    with opened() as (_, browser):
        resize(browser, 900, 680)
        browser.execute_cdp_cmd("Emulation.setScrollbarsHidden", {"hidden": True})
        time.sleep(0.5)
        take(1500)
        browser.find_element("id", "sample").click()
        wait(browser, "document.getElementById('sound').checkVisibility()")
        take(500)
        wait(browser, SHOWN)
        browser.execute_script("document.getElementById('editor').scrollIntoView()")
        time.sleep(0.5)
        take(1200)
        for mode in ("before", "after"):
            browser.execute_script(f"document.querySelector('[name=mode][value={mode}]').click()")
            browser.execute_script("document.getElementById('play').click()")
            for _ in range(4):
                time.sleep(0.5)
                take(600)
            browser.execute_script("document.getElementById('play').click()")
        for strength in (95, 90, 85):
            set_control(browser, "strength", strength)
            take(250)
        set_control(browser, "format", "mp3")
        take(2500)
    colours = frames[2][0].quantize(48, dither=Image.Dither.NONE)
    first, *rest = (f.quantize(palette=colours, dither=Image.Dither.NONE) for f, _ in frames)
    first.save(
        FIGURES / "page.gif", save_all=True, append_images=rest, loop=0, optimize=True,
        duration=[milliseconds for _, milliseconds in frames],
    )  # fmt: skip


if __name__ == "__main__":
    run_main({"screenshots": screenshots, "movie": movie})
