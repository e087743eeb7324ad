"""What the comparisons of methods on clips made here share."""

from __future__ import annotations

import sys

import pytest

from benchmarks import nearly_clean, unheard


@pytest.mark.parametrize("command", [unheard, nearly_clean])
def test_an_unknown_method_is_one_sentence(command, monkeypatch, capsys, tmp_path):
    monkeypatch.setattr(sys, "argv", ["command", "--methods", "good", "-o", str(tmp_path / "a")])
    with pytest.raises(SystemExit):
        command.main()
    assert "there is no method 'good'" in capsys.readouterr().err
