"""Write the figures of the documentation.

Pictures of the page of `alphamf serve` need Chromium with its driver.
"""

import base64
import io
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import av
import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from PIL import Image

from alphamf.audio.reader import read
from alphamf.audio.stft import Frame, forward
from alphamf.errors import AlphaMFError
from alphamf.tools.arrays import Floats
from alphamf.tools.files import atomic_file
from benchmarks import scored
from benchmarks.page_server import chromium, resize, running
from benchmarks.report import ROOT, SAMPLE, run_main

# Methods of the chart of README.md, and their names there
BARS = {
    "fast": "alphamf",
    "dtln": "DTLN",
    "deepfilternet": "DeepFilterNet3",
    "gtcrn": "GTCRN",
    "rnnoise": "RNNoise",
    "logmmse": "logMMSE",
}
FIGURES = ROOT / "docs" / "figures"
FRAMES_PER_SECOND = 8
COLOURS = 96  # Colours of the file, which keep it below 200 kB


def small(path: Path) -> None:
    """Reduce a PNG to `COLOURS` colours, in place."""
    with Image.open(path) as drawn:
        few = drawn.convert("RGB").quantize(COLOURS)
    with atomic_file(path) as part:
        few.save(part, format="png", optimize=True)


def spectrograms(sounds: dict[str, Floats], rate: int, highest: int | None = None) -> Figure:
    """Return a figure with the spectrograms of sounds, shape (samples,), two in a row."""
    highest, rows, frame = highest or rate // 2, len(sounds) // 2, Frame(1024, 256)
    figure = Figure((10, 3.5 * rows), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(rows, 2, sharex=True, sharey=True).ravel()
    for panel, (title, sound) in zip(panels, sounds.items(), strict=True):
        spectra = forward(sound, frame)[: round(highest * frame.n_fft / rate)]
        levels = 20 * np.log10(np.abs(spectra) + 1e-6)
        span = (0, len(sound) / rate, 0, highest / 1000)
        panel.imshow(levels, origin="lower", aspect="auto", extent=span, vmin=-50, vmax=30)
        panel.set(title=title, xlabel="s", ylabel="kHz")
    return figure


def bars() -> tuple[list[float], list[float]]:
    """Return the gains in SI-SDR of `BARS` in dB, and their times in units of RNNoise's."""
    quality, speed = (scored.read(name) for name in ("unheard-test.csv", "speed-peers.csv"))
    level = {name: float(quality["all", name]["SI-SDR dB"]) for name in (*BARS, "noisy")}
    times = [float(speed["all", name]["rnnoise = 1, 16 kHz"]) for name in BARS]
    return [level[name] - level["noisy"] for name in BARS], times


def draw_bars() -> None:
    """Draw README's chart: the quality on new voices and noises, and the time beside RNNoise's."""
    figure = Figure((9, 2.5), layout="constrained")
    FigureCanvasAgg(figure)
    panels = figure.subplots(1, 2, sharey=True)
    figure.get_layout_engine().set(wspace=0.08)
    gains, times = bars()
    titles = (
        "dB gained in SI-SDR: longer is cleaner",
        "processor time, RNNoise = 1: shorter is faster",
    )
    for panel, values, title in zip(panels, (gains, times), titles, strict=True):
        colours = ["#0f6b62" if name == "fast" else "#a9b0b5" for name in BARS]
        drawn = panel.barh(list(BARS.values()), values, color=colours)
        panel.bar_label(drawn, [f"{value:.1f}" for value in values], padding=3)
        panel.set_title(title, fontsize=10, loc="left")
        panel.set_xlim(0, 1.12 * max(values))
        panel.xaxis.set_visible(False)
        panel.spines[["top", "right", "bottom"]].set_visible(False)
        panel.tick_params(left=False)
    panels[0].invert_yaxis()
    figure.savefig(FIGURES / "bars.png", dpi=110)
    small(FIGURES / "bars.png")


def draw_sample() -> None:
    """Denoise the sample, and write a film of it and the picture of ``--plot``."""
    with TemporaryDirectory() as place:
        output, picture = f"{place}/out.wav", FIGURES / "plot.png"
        words = ["denoise", SAMPLE, "-o", output, "--plot", picture, "--overwrite", "-q"]
        subprocess.run([sys.executable, "-m", "alphamf", *words], check=True)
        before, after = (read(path)[0][:, 0] for path in (SAMPLE, output))
    small(picture)
    film({"before": before, "after": after}, 16000, FIGURES / "sample.mp4")


def film(sounds: dict[str, Floats], rate: int, path: Path) -> None:
    """Write an MP4 in which the sounds are played, and a line moves over their spectrograms."""
    figure = spectrograms(sounds, rate)
    canvas = FigureCanvasAgg(figure)
    with av.open(path, "w") as container:
        picture = container.add_stream("libx264", FRAMES_PER_SECOND, options={"crf": "30"})
        picture.width, picture.height, picture.pix_fmt = *canvas.get_width_height(), "yuv420p"
        track = container.add_stream("aac", rate, layout="mono")
        for panel, sound in zip(figure.axes, sounds.values(), strict=True):
            for k in range(len(sound) * FRAMES_PER_SECOND // rate):
                line = panel.axvline(k / FRAMES_PER_SECOND, color="white")
                canvas.draw()
                line.remove()
                still = np.asarray(canvas.buffer_rgba())[..., :3]
                container.mux(picture.encode(av.VideoFrame.from_ndarray(still, format="rgb24")))
        whole = np.concatenate(list(sounds.values())).astype(np.float32)
        frame = av.AudioFrame.from_ndarray(whole[None], format="fltp", layout="mono")
        frame.sample_rate = rate
        for stream, last in ((track, frame), (track, None), (picture, None)):
            container.mux(stream.encode(last))


VIEWS = (("desktop", 1200, "light"), ("dark", 1200, "dark"), ("phone", 390, "light"))


def wide(path: Path) -> Path:
    """Write 30 s of the sample at 48 kHz, in stereo with noise of its own in each channel."""
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
    with TemporaryDirectory() as place:
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
    shot = {"captureBeyondViewport": whole, "format": "png"}
    data = base64.b64decode(browser.execute_cdp_cmd("Page.captureScreenshot", shot)["data"])
    return Image.open(io.BytesIO(data)).convert("RGB")


def save(browser: Any, name: str) -> None:
    """Write a picture of the whole page, with 128 colours so that the file is small."""
    few = picture(browser).quantize(128, dither=Image.Dither.NONE)
    few.save(FIGURES / f"page-{name}.png", optimize=True)


def movie() -> None:
    """Write docs/figures/page.gif: a sample is denoised, played before and after, and mixed."""
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
    run_main({"sample": draw_sample, "bars": draw_bars, "screenshots": screenshots, "movie": movie})
