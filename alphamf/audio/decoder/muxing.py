"""Write a media file in a confined process, which also reads the tracks to copy."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from alphamf.audio.decoder import messages
from alphamf.audio.decoder.confined_process import ConfinedProcess
from alphamf.audio.media.copy import Original
from alphamf.audio.sink import Sink
from alphamf.tools.files import printable_name


class ConfinedMuxer:
    """A `Muxer` in a confined process that can use only the original and the output."""

    def __init__(
        self,
        original: Original,
        sink: Sink,
        output: str,
        rate: int,
        channels: int,
        *,
        muxer: str,
        subtype: str,
        history: str | None,
    ) -> None:
        about = {**vars(original.track), "others": ()}
        about["start"] = original.track.start.as_integer_ratio()
        asked = {
            "name": original.name,
            "ending": "",
            "output": output,
            "rate": rate,
            "channels": channels,
            "muxer": muxer,
            "subtype": subtype,
            "history": history,
            "about": about,
            "cut": original.cut,
        }
        self.subtype: str = subtype
        with original.path.open("rb") as file:
            files = [file.fileno(), sink.fileno()]
            self._process = ConfinedProcess(asked, files, f"{output} cannot be written")
        try:
            found = self._process.facts(self._process.answer())
            self.omitted_tracks: tuple[str, ...] = tuple(
                printable_name(str(words)) for words in found
            )
        except BaseException:
            self._process.close()
            raise

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        """Write the end, unless something failed."""
        try:
            if kind is None:
                self._process.ask(messages.FINISH)
        finally:
            self._process.close()

    def write(self, data: Any) -> None:
        """Append samples, shape (n, channels): float32, or int32 that uses the upper bits."""
        kind = messages.INTEGERS if data.dtype == np.int32 else messages.FLOATS
        self._process.ask(kind, np.ascontiguousarray(data))
