"""report.html: it stands alone, and works in a browser."""

import base64
import hashlib
import re

import pytest

from alphamf.evaluation.page import report
from tests.support.browser import opened
from tests.support.report_page import SETTINGS, Page, result, sounds


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """Two methods on four clips, with sound: results and the file."""
    folder = tmp_path_factory.mktemp("small")
    scores = [(2.0, 3.0), (-1.0, 8.5), (5.0, 10.0), (0.5, -20.0)]
    results = [
        result(method, k, si_sdr=score, si_sdr_gain=score - 0.5)
        for k, each in enumerate(scores)
        for method, score in zip(("logmmse", "fast"), each, strict=True)
    ]
    sounds(folder, results, seconds=2)
    return results, report.write(folder, results, SETTINGS)


@pytest.mark.slow
def test_the_page_needs_no_other_file_and_runs_one_script(small):
    found = Page(small[1].read_text(encoding="utf-8"))
    for _, attributes in found.elements:
        for name in ("src", "href", "xlink:href"):
            if name in attributes:
                assert attributes[name].startswith(("data:", "#")), attributes[name][:80]
    # Names of namespaces are no addresses.
    source = re.sub(r' xmlns(:\w+)?="[^"]*"', "", found.source).replace("http-equiv", "")
    assert "http" not in source and "@import" not in source
    assert "url(" not in re.sub(r"url\(#\w+\)", "", source)
    script = found.source.partition("<script>")[2].partition("</script>")[0]
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    policy = next(m["content"] for m in found.of("meta") if "http-equiv" in m)
    assert "default-src 'none'" in policy and f"script-src 'sha256-{digest}'" in policy


@pytest.mark.slow
def test_charts_are_text_in_the_colours_of_the_page_with_names_of_their_own(small):
    found = Page(small[1].read_text(encoding="utf-8"))
    assert len(found.charts) == len(set(found.charts)) == 3
    names = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    assert len(names) == len(set(names))
    styles = " ".join(attributes.get("style") or "" for _, attributes in found.elements)
    assert "var(--m0)" in styles and "var(--ink)" in styles
    assert "#0a0" not in styles
    assert "difference to logmmse, dB" in found.text


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    with opened(tmp_path_factory.mktemp("chromium")) as running:
        yield running


@pytest.fixture
def shown(browser, small):
    """Open the small page."""
    browser.get(small[1].as_uri())
    return browser


@pytest.mark.slow
def test_the_browser_has_nothing_to_complain_of(shown):
    assert shown.get_log("browser") == []
    assert shown.title == "Denoising evaluated: 4 clips, 2 methods"
    wide = "return document.documentElement.scrollWidth - document.documentElement.clientWidth"
    for width in (360, 1400):
        size = {"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500}
        shown.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
        assert shown.execute_script(wide) == 0


@pytest.mark.slow
def test_every_sound_can_be_played_one_at_a_time_and_takes_over(shown):
    ready = """
        const done = arguments[0];
        const all = [...document.querySelectorAll("audio")];
        Promise.all(all.map((audio) => new Promise((next) => {
          const check = () => audio.readyState >= 2 && next([audio.duration, audio.error]);
          audio.preload = "auto";
          audio.addEventListener("canplay", check);
          audio.addEventListener("error", () => next([null, audio.error.message]));
          check();
        }))).then(done);
    """
    sounds = shown.execute_async_script(ready)
    assert len(sounds) == 3 * 4
    assert all(
        error is None and seconds == pytest.approx(2, abs=0.01) for seconds, error in sounds
    ), sounds
    switch = """
        const done = arguments[0];
        const [first, second] = document.querySelectorAll("audio");
        first.muted = second.muted = true;
        first.playbackRate = second.playbackRate = 0.1;
        first.currentTime = 0.2;
        first.play().then(() => second.play()).then(
          () => done([first.paused, second.paused, second.currentTime]),
          (error) => done([String(error), null, null]));
    """
    first, second, place = shown.execute_async_script(switch)
    assert (first, second) == (True, False) and 0.2 <= place < 1.5


@pytest.mark.slow
def test_a_click_or_a_key_on_a_heading_sorts(shown):
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    table = shown.find_element(By.CSS_SELECTOR, "#summary table")
    heads = {head.text.split("\n")[0]: head for head in table.find_elements(By.TAG_NAME, "button")}

    def order() -> list[str]:
        return [each.text for each in table.find_elements(By.CSS_SELECTOR, "tbody th")]

    def sorting(name: str) -> str | None:
        return heads[name].find_element(By.XPATH, "..").get_attribute("aria-sort")

    assert order() == ["logmmse", "fast"]
    # The means are 1.6 and 0.4.
    heads["SI-SDR"].click()
    assert (order(), sorting("SI-SDR")) == (["logmmse", "fast"], "descending")
    heads["SI-SDR"].send_keys(Keys.ENTER)
    assert (order(), sorting("SI-SDR")) == (["fast", "logmmse"], "ascending")
    heads["method"].click()
    assert (order(), sorting("method")) == (["fast", "logmmse"], "ascending")
    assert sorting("SI-SDR") is None
    heads["method"].send_keys(Keys.SPACE)
    assert order() == ["logmmse", "fast"]
