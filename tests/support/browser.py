"""A browser for tests of pages, and what axe, a checker of accessibility, finds in it."""

from contextlib import contextmanager
from typing import Any

import pytest

from benchmarks.page_server import chromium
from tests.support.places import ROOT

AXE = ROOT / "node_modules/axe-core/axe.min.js"


@contextmanager
def opened(profile):
    """Yield a headless Chromium; without one the test skips."""
    pytest.importorskip("selenium.webdriver", reason="selenium is not installed")
    running = chromium(profile)
    if running is None:
        pytest.skip("chromium and chromedriver are not installed")
    running.set_script_timeout(60)
    yield running
    running.quit()


def by_id(page, name):
    return page.find_element("id", name)


def until(page, condition, seconds=240):
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(page, seconds, 0.1).until(condition)


def violations(page: Any, scheme: str) -> list[Any]:
    """Return what axe finds on the open page in a colour scheme; without axe the test skips."""
    if not AXE.exists():
        pytest.skip("axe-core is not installed: npm install --no-save axe-core@4")
    page.execute_cdp_cmd(
        "Emulation.setEmulatedMedia",
        {"features": [{"name": "prefers-color-scheme", "value": scheme}]},
    )
    page.execute_script(AXE.read_text(encoding="utf-8"))
    found: list[Any] = page.execute_async_script(
        """
        const done = arguments[0];
        axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "best-practice"] })
          .then(({ violations }) => done(violations.map(
            ({ id, nodes }) => [id, nodes.map((node) => node.html)])));
        """
    )
    return found
