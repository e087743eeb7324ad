"""No room grows: what is added to one is taken from it."""

from tests.support import size


def over(cap, now):
    return {key: (most, now[key]) for key, most in cap.items() if now.get(key, 0) > most}


def test_each_room_stays_within_its_cap():
    caps, sizes = size.caps(), size.rooms()
    grown = {room: found for room, now in sizes.items() if (found := over(caps[room], now))}
    assert not grown, f"larger than the cap in tests/size.toml (cap, now): {grown}"


def test_a_wav_enters_no_more_files_than_its_cap(tmp_path):
    assert len(size.entered(tmp_path)) <= size.caps()["a wav"]["files"]


def test_blank_lines_and_comments_are_neither_code_nor_docstring():
    text = '"""One.\n\nTwo."""\n\nx = 1  # why\n# a comment\n\n\ny = """a\nb"""\n"""Of y."""\n'
    assert size.count(text) == {"files": 1, "lines": 11, "code": 3, "docstrings": 4}


def test_caps_only_go_down(tmp_path, monkeypatch):
    monkeypatch.setattr(size, "CAPS", tmp_path / "size.toml")
    size.lower({"a": {"lines": 5}, "b": {"lines": 7}})
    size.lower({"a": {"lines": 6}, "b": {"lines": 3}})
    assert size.caps() == {"a": {"lines": 5}, "b": {"lines": 3}}
