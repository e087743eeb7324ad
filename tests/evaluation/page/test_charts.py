"""Charts are drawn where their numbers are: places are read back from the SVG."""

import re

import numpy as np
import pytest

from alphamf.evaluation.page import charts


def test_points_are_where_their_numbers_are():
    chart = charts.Chart("", "x", 2.0, (0.01, 100.0), (-1.0, 3.0), left=40, log=True)
    for x, y in ((0.01, -1), (1, 1), (100, 3)):
        chart.marker(x, y, "o", charts.INK)
    places = re.findall(r'transform="translate\((-?[\d.]+) (-?[\d.]+)\)', str(chart.svg("points")))
    (x0, y0), (x1, y1), (x2, y2) = np.array(places, float)
    assert (x0, x2) == (40, charts.WIDTH - charts.RIGHT) and x1 == pytest.approx((x0 + x2) / 2)
    assert (y0, y2) == (144 - charts.BOTTOM, charts.TOP) and y1 == pytest.approx((y0 + y2) / 2)


def test_what_is_written_is_escaped():
    text = str(charts.Chart("<b>", "\x1b&", 2.0, (0, 1), (0, 1), left=40).svg('"><script>'))
    assert "<b>" not in text and "<script>" not in text and "\x1b" not in text
    assert "&lt;b&gt;" in text and r"\x1b&amp;" in text
