"""Sections of a page, and wide tables as CSV."""

from __future__ import annotations

import csv

from alphamf.tools.tables import markdown
from benchmarks.report import write_section

HEADINGS = ["method", *"ABCDEF"]
WIDE = markdown(HEADINGS, [["one", "1 ± 2", *"23456"], ["two", "3 ± 4", *"bcdef"]])
GROUPS = [markdown([f"{name} by noise", *"ABCDEF"], [["car", *"123456"]]) for name in "XY"]


def read(path):
    with open(path, newline="") as file:
        return list(csv.reader(file))


def test_wide_tables_keep_chosen_columns_and_go_to_csv_whole(tmp_path):
    page = tmp_path / "PAGE.md"
    text = "\n\n".join([WIDE, *GROUPS, "Caption."])
    for _ in range(2):
        write_section(page, "kind:name", text, columns=("method", "A", "F", "Y by noise"))
    folder = tmp_path / "docs/benchmarks"
    assert read(folder / "kind-name.csv") == [
        ["method", "A", "error of A", *"BCDEF"],
        ["one", "1", "2", *"23456"],
        ["two", "3", "4", *"bcdef"],
    ]
    assert read(folder / "kind-name-groups.csv") == [
        ["table", "group", *"ABCDEF"],
        ["X by noise", "car", *"123456"],
        ["Y by noise", "car", *"123456"],
    ]
    section = page.read_text().split("<!-- kind:name -->\n")[1].split("\n<!-- /kind:name -->")[0]
    chosen = markdown(["method", "A", "F"], [["one", "1 ± 2", "6"], ["two", "3 ± 4", "f"]])
    group = markdown(["Y by noise", "A", "F"], [["car", "1", "6"]])
    links = (
        "All columns: [kind-name.csv](docs/benchmarks/kind-name.csv). X by noise, Y by noise: "
        "[kind-name-groups.csv](docs/benchmarks/kind-name-groups.csv)."
    )
    assert section == "\n\n".join([chosen, group, links, "Caption."])


def test_a_cell_of_several_scores_is_one_cell_of_the_csv(tmp_path):
    table = markdown(HEADINGS, [["one", "1 ± 2 / 3", *"23456"]])
    write_section(tmp_path / "PAGE.md", "name", table, columns=("method", "A"))
    found = read(tmp_path / "docs/benchmarks/name.csv")
    assert found == [HEADINGS, ["one", "1 ± 2 / 3", *"23456"]]


def test_narrow_tables_stay_as_they_are(tmp_path):
    table = markdown(["a|b", *"BCDEF"], [[*"123456"]])
    write_section(tmp_path / "PAGE.md", "name", f"{table}\n\nCaption.")
    assert f"\n{table}\n\nCaption.\n" in (tmp_path / "PAGE.md").read_text()
    assert not (tmp_path / "docs").exists()
