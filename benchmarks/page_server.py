"""A running `alphamf serve` and a headless Chromium, for tests and measurements of the page."""

import http.client
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlsplit


class Server:
    """A running `alphamf serve` in its own process, with a folder for its temporary files."""

    def __init__(
        self,
        folder: Path,
        *options: str,
        environment: Mapping[str, str] | None = None,
        opens: bool = False,
    ) -> None:
        self.folder = folder
        self.headers: dict[str, str] = {}  # Headers that are sent with each request
        folder.mkdir(parents=True, exist_ok=True)
        self.log = (folder.parent / f"{folder.name}.log").open("w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [
                *(sys.executable, "-m", "benchmarks.page_server", "serve"),
                *([] if opens else ["--no-browser"]),
                *options,
            ],
            stderr=self.log,
            env={**os.environ, "TMPDIR": str(folder), **(environment or {})},
        )
        until = time.monotonic() + 60
        while "Ctrl-C" not in self.said():
            if self.process.poll() is not None or time.monotonic() > until:
                said = self.said()
                self.stop()
                raise RuntimeError(f"the server did not start: {said}")
            time.sleep(0.02)
        self.page = next(word for word in self.said().split() if word.startswith("http"))
        self.host = urlsplit(self.page).netloc
        self.path = urlsplit(self.page).path

    def said(self) -> str:
        """Return what the command has printed to standard error so far."""
        return Path(self.log.name).read_text(encoding="utf-8")

    def ask(
        self,
        method: str,
        path: str,
        body: bytes | None = None,
        headers: Mapping[str, str] | None = None,
        *,
        whole: bool = False,
    ) -> tuple[int, http.client.HTTPMessage, bytes]:
        """Send a request below the page (`whole`: anywhere); return status, headers and body."""
        connection = http.client.HTTPConnection(self.host, timeout=60)
        try:
            address = path if whole else self.path + path
            connection.request(method, address, body, {**self.headers, **(headers or {})})
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, method: str, path: str, body: bytes | None = None) -> Any:
        """Send a request, and return the answer's JSON as Python values."""
        return json.loads(self.ask(method, path, body)[2])

    def send(self, path: Path, preset: str = "fast", seed: int = 0, name: str | None = None) -> str:
        """Upload a file, and return the recording's id; raise RuntimeError if it is refused."""
        query = f"name={quote(name or path.name)}&preset={preset}&seed={seed}"
        answer = self.json("POST", f"api/recordings?{query}", path.read_bytes())
        if "id" not in answer:
            raise RuntimeError(str(answer))
        return str(answer["id"])

    def wait(self, key: str, *states: str, seconds: float = 240) -> dict[str, Any]:
        """Wait for one of `states` (default: done, failed); return the data on the recording."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            found: dict[str, Any] = self.json("GET", f"api/recordings/{key}")
            if found["state"] in (states or ("done", "failed")):
                return found
            time.sleep(0.05)
        raise TimeoutError(f"still {found['state']} after {seconds} s")

    def files(self) -> set[str]:
        """Return the paths of the server's temporary files, relative to `folder`."""
        walk = os.walk(next(self.folder.glob("alphamf-serve-*")))
        return {
            str(Path(place, name).relative_to(self.folder)) for place, _, n in walk for name in n
        }

    def stop(self) -> int:
        """End the command by SIGTERM, and return its exit code."""
        if self.process.poll() is None:
            self.process.terminate()
        try:
            return self.process.wait(30)
        finally:
            self.process.kill()
            self.log.close()


@contextmanager
def running(folder: Path, *options: str, **more: Any) -> Iterator[Server]:
    """Yield a running server, and stop it at the end."""
    server = Server(folder, *options, **more)
    try:
        yield server
    finally:
        server.stop()


def chromium(profile: Path) -> Any:
    """Return a headless Chromium with sound and microphone; None if it or its driver is missing."""
    binary = shutil.which("chromium") or shutil.which("chromium-browser")
    driver = shutil.which("chromedriver")
    if binary is None or driver is None:
        return None
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = binary
    for option in (
        "headless", "no-sandbox", "disable-gpu", "disable-quic", "no-first-run",
        "disable-background-networking", "disable-component-update", "disable-sync",
        "disable-dev-shm-usage", "autoplay-policy=no-user-gesture-required",
        "use-fake-device-for-media-stream", "use-fake-ui-for-media-stream",
        f"user-data-dir={profile}",
    ):  # fmt: skip
        options.add_argument(f"--{option}")
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    return webdriver.Chrome(options, webdriver.ChromeService(driver))


def resize(browser: Any, width: int, height: int) -> None:
    """Give the page a size in pixels; below a width of 500, it is shown as on a phone."""
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
    browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)


if __name__ == "__main__":
    from alphamf.cli.start import main

    sys.argv[0] = "alphamf"
    main()
