"""Small texts for the tests: a world of documents whose fate is known, in every format."""

from __future__ import annotations

import gzip
import hashlib
import json
from pathlib import Path

import numpy as np

_WORDS = """
    the of and to that have with be a small river stone runs under old bridge near town where people walk
    every morning before light comes over hills carrying bread letters tools some water from deep well
    children school music paper letters winter summer garden market council weather harbour engine number
""".split()  # noqa: SIM905 - words read better as text


def document(number: int, words: int = 80) -> str:
    """A text of its own that every rule set lets pass: sentences, stop words, nothing repeated."""
    rng = np.random.default_rng(number)
    chosen = [_WORDS[i] for i in rng.integers(0, len(_WORDS), words)]
    sentences = [" ".join(chosen[i : i + 10]).capitalize() + "." for i in range(0, words, 10)]
    return f"Note {number} says this. " + "\n".join(sentences)


def write_hub_folder(folder: Path, rows: list[dict], files: int = 3, config: str = "sample-10BT") -> Path:
    """A folder laid out like a data set on the Hub: Parquet files and a README with its configurations."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    data = folder / "sample" / "10BT"
    data.mkdir(parents=True)
    for k, part in enumerate(np.array_split(np.arange(len(rows)), files)):
        table = pa.Table.from_pylist([rows[i] for i in part])
        pq.write_table(table, data / f"{k:03d}_00000.parquet", row_group_size=50)
    (folder / "README.md").write_text(
        "---\nconfigs:\n- config_name: default\n  data_files:\n  - split: train\n    path: sample/*/*\n"
        f"- config_name: {config}\n  data_files:\n  - split: train\n    path: sample/10BT/*\n---\n# A data set\n"
    )
    return folder


def write_jsonl(path: Path, rows: list[dict]) -> Path:
    """JSON lines, packed where the name ends in .gz."""
    text = "".join(json.dumps(row) + "\n" for row in rows)
    path.write_bytes(gzip.compress(text.encode()) if path.suffix == ".gz" else text.encode())
    return path


GOOD = [document(i) for i in range(300)]
#: 300 good documents, 40 copies (half of them wrapped anew), 25 too short, 5 without text, scores 0 to 5.
ROWS = [
    {"text": text, "int_score": i % 6}
    for i, text in enumerate(
        [
            *GOOD[:150],
            *(f"Too short {i}." for i in range(25)),
            *GOOD[40:60],
            None,
            "  \n ",
            *GOOD[150:],
            *(text.replace("\n", "\n   ") for text in GOOD[200:220]),
            "",
            None,
            None,
        ]
    )
]


def hashes(folder: Path) -> dict[str, str]:
    """Every file in a folder by its content."""
    files = (p for p in folder.rglob("*") if p.is_file())
    return {str(p.relative_to(folder)): hashlib.sha256(p.read_bytes()).hexdigest() for p in files}


def prepare_slowly(settings, out: Path) -> None:
    """What a process to be killed does: prepare, and save after every twelve documents."""
    from reference_trainer.data import prepare as module

    module.BATCH = 12
    module.prepare(settings, out, made="2026-01-02", save_seconds=0)
