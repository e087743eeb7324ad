"""Downloads of published files, with checksums, into the user's cache."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from alphamf.errors import AlphaMFError
from alphamf.tools.files import printable_name, reason

SECONDS = 30
"""Timeout of a server in seconds."""


@dataclass(frozen=True)
class PublishedFile:
    """A published file."""

    name: str  # Name of the file in the cache
    sha256: str  # Checksum
    addresses: tuple[str, ...]  # URLs, tried in order: its home, then mirrors


def cache() -> Path:
    """Return the user's folder for downloads, which may not exist."""
    import pooch

    return Path(pooch.os_cache("alphamf"))


def download(original: PublishedFile, folder: Path) -> Path:
    """Return the path of a file in `folder`; download it if it does not exist."""
    import pooch
    from requests import HTTPError, RequestException, Timeout

    pooch.get_logger().setLevel("WARNING")
    reasons = []
    for address in original.addresses:
        host = urlsplit(address).netloc
        try:
            folder.mkdir(parents=True, exist_ok=True)
            path = pooch.retrieve(
                address,
                original.sha256,
                fname=original.name,
                path=folder,
                downloader=pooch.HTTPDownloader(timeout=SECONDS),
            )
        except HTTPError as error:
            answer = "an error" if error.response is None else error.response.status_code
            reasons.append(f"{host} answered {answer}")
        except Timeout:
            reasons.append(f"{host} did not answer")
        except RequestException:
            reasons.append(f"no connection to {host}")
        except ValueError:
            reasons.append(f"{host} returned a file that differs from {original.name}")
        except OSError as error:
            raise AlphaMFError(
                f"{printable_name(folder)} cannot be written: {reason(error)}"
            ) from error
        else:
            return Path(path)
    raise AlphaMFError(", ".join(reasons))
