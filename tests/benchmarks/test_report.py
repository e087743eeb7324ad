"""Sections of a page."""

from benchmarks.report import write_section


def test_a_section_is_added_and_then_replaced(tmp_path):
    page = tmp_path / "PAGE.md"
    page.write_text("# Page\n\nWords.\n")
    for text in ("one", "two"):
        write_section(page, "kind:name", text)
    assert page.read_text() == (
        "# Page\n\nWords.\n\n## kind:name\n\n<!-- kind:name -->\ntwo\n<!-- /kind:name -->\n"
    )
