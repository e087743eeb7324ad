r"""Put the scores of an `alphamf evaluate` into docs/benchmarks/, with differences clip by clip.

For example, with denoisers that `alphamf evaluate` cannot run, scored elsewhere::

    alphamf evaluate --pairs mixed/pairs.csv --clean mixed --noisy mixed -o mixed-16k
    python -m benchmarks.evaluation mixed-16k --peers peers-16k.csv -o mixed-16k.csv

The peers' file has the columns method, noisy, noise, snr, si_sdr, pesq_wb and estoi, one line per
clip and method; its methods become "NAME, own program". Clips are grouped by noise, SNR, pauses of
the clean file, and voice, which is the folder of the noisy file.
"""

import csv
from pathlib import Path

from alphamf.errors import AlphaMFError
from alphamf.evaluation.summary import describe_pauses
from benchmarks import scored
from benchmarks.report import run_main
from benchmarks.scored import Row

OWN = ("fast", "low")


def read(path: Path, suffix: str = "") -> dict[str, Row]:
    """Return the rows of a file by noisy clip; `suffix` is added to the methods' names."""
    found: dict[str, Row] = {}
    try:
        with path.open(newline="", encoding="utf-8") as file:
            lines = list(csv.DictReader(file))
    except OSError as error:
        raise AlphaMFError(f"{path} does not hold scores: {error.strerror}") from None
    for line in lines:
        clip = found.setdefault(line["noisy"], Row(line["noisy"], groups(line), {}))
        quality = line.get("pesq_wb") or line["pesq"]
        values = (line["si_sdr"], quality, line["estoi"])
        clip.scores[line["method"] + suffix] = [float(each) for each in values]
    return found


def groups(line: dict[str, str]) -> tuple[str, ...]:
    """Return the groups of a line's clip: noise, SNR, depth of the pauses, and folder."""
    pauses = describe_pauses(float(line.get("pause_depth") or "nan"))
    return line["noise"], f"{line['snr']} dB", pauses, Path(line["noisy"]).parent.name


def main(folder: Path, *, peers: Path | None = None, output: str) -> None:
    """Read the scores, add the differences from `OWN`, and write the table."""
    rows = read(folder / "results.csv")
    if peers:
        for name, row in read(peers, ", own program").items():
            if name in rows:
                rows[name].scores.update(row.scores)
    methods = list(dict.fromkeys(name for row in rows.values() for name in row.scores))
    found = scored.with_differences(
        list(rows.values()), [(own, other) for own in OWN for other in methods]
    )
    scored.publish(output, scored.summary(found))


if __name__ == "__main__":
    run_main(main)
