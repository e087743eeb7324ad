"""What axe, a checker of accessibility, finds on a page."""

from typing import Any

import pytest

from tests.support.places import ROOT

AXE = ROOT / "node_modules/axe-core/axe.min.js"


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
