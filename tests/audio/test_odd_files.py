"""What ffmpeg writes is read whole, and copied with its channels at their places, or refused."""

import shutil

import pytest

from tests.support import odd_files


@pytest.mark.slow
@pytest.mark.skipif(not shutil.which("ffmpeg"), reason="ffmpeg is not installed")
def test_files_of_each_kind_are_read_and_copied(tmp_path):
    found = odd_files.results(tmp_path)
    assert len(found) > 200
    kinds = {what: [each.path.name for each, it in found if it == what] for _, what in found}
    assert "WRONG" not in kinds, kinds["WRONG"]
    assert {name.rpartition(".")[2] for name in kinds.get("refused", [])} <= {"voc", "aptx"}
