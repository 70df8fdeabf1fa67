"""The text of the worked case: packages that registries carry, or a data set by name, through one preparation."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from experiments.x1 import encyclopaedia, sample
from experiments.x1.clean import Paragraphs, clean
from experiments.x1.profile import Profile
from experiments.x1.stages import write_json
from reference_trainer.data.corpus import Source
from reference_trainer.data.prepare import prepare
from reference_trainer.data.settings import Settings
from scaling.errors import DataError
from scaling.storage import write_atomically
from scaling.units import format_count

PACKAGES, SAMPLE = "packages", "sample"
#: A text is seen at most so often: beyond, repeated tokens are worth less than new ones (arXiv 2305.16264).
EPOCHS = 4
#: Share of documents held out, by hash, and the most tokens kept of them.
_HELD_OUT, _VAL_TOKENS = 0.05, 262_144
#: Documents shuffled together: all of the packages; of a stream what is read before the first token comes.
_WINDOW, _STREAM_WINDOW = 20_000, 1_000
#: Documents that are shorter are stubs.
_SHORTEST = 200


def find(choice: str, folder: Path) -> dict[str, Any]:
    """Return which texts there are: what the corpus depends on.

    Parameters
    ----------
    choice : str
        ``packages``, ``sample`` (what ships), the name of a data set on the Hub with its configuration after a
        colon (``HuggingFaceFW/fineweb-edu:sample-10BT``), or a local file.
    folder : pathlib.Path
        Where packages are kept.
    """
    found: dict[str, Any] = {
        "choice": choice,
        "missing": "",
        "tokenizer_path": os.environ.get("GPT2_VOCAB_DIR"),
    }
    if choice not in (PACKAGES, SAMPLE):
        return found
    found |= {"sample": sample.entry()["sha256"], "wheel": None}
    if choice == PACKAGES:
        wheel, why = encyclopaedia.fetch(folder)
        found |= {"wheel": str(wheel) if wheel else None, "missing": why}
    return found


def build(profile: Profile, texts: dict[str, Any], out: Path, say: Callable[[str], None]) -> list[Path]:
    """Make the shards and ``corpus.json``; return the files that say what they are.

    Raises
    ------
    DataError
        A text cannot be read, or there is too little of it.
    """
    name = "data" if texts["choice"] != PACKAGES or texts["wheel"] else "data-sample"
    work = out / "work" / f"{profile.tokenizer}-{_short(texts['choice'])}"
    work.mkdir(parents=True, exist_ok=True)
    sources: list[dict[str, Any]] = []
    if texts["choice"] in (PACKAGES, SAMPLE):
        file, sources = _documents(texts, work / f"{name}.jsonl")
        source, wanted, window = Source(str(file)), None, _WINDOW
    else:
        path, _, config = texts["choice"].partition(":")
        source, window = Source(path, config or None), _STREAM_WINDOW
        wanted = profile.most_tokens * 11 // 10
        sources = [{"name": texts["choice"], "licence": "that of the data set", "documents": None}]
    files = texts["tokenizer_path"] if profile.tokenizer == "gpt2" else None
    settings = Settings(
        source, profile.tokenizer, _HELD_OUT, tokenizer_path=files, rules=(), train_tokens=wanted,
        val_tokens=_VAL_TOKENS, window=window, seed=0,
    )  # fmt: skip
    done = prepare(settings, work / name, save_seconds=5.0, watch=_teller(say))
    manifest = done.manifest
    content = {
        "choice": texts["choice"], "missing": texts["missing"], "sources": sources, "folder": str(done.folder),
        "tokenizer": profile.tokenizer, "documents": manifest["documents"], "train": manifest["train"],
        "val": manifest["val"], "held_out": "documents whose hash falls into the held-out share, lowest first",
        "most_epochs": EPOCHS,
    }  # fmt: skip
    shards = [path for path in done.folder.rglob("*") if path.is_file()]
    return [write_json(out / "corpus.json", content), *shards]


def _short(choice: str) -> str:
    return "".join(c if c.isalnum() else "-" for c in choice)[-60:].strip("-") or "text"


def _documents(texts: dict[str, Any], file: Path) -> tuple[Path, list[dict[str, Any]]]:
    """Write the cleaned documents of the packages as JSON lines, and say what became of each source."""
    parts = [("moby_dick", sample.entry(), sample.read())]
    if texts["wheel"]:
        about = {"source": f"{encyclopaedia.PACKAGE} {encyclopaedia.VERSION} (PyPI)", "sha256": encyclopaedia.SHA256,
                 "licence": encyclopaedia.LICENCE}  # fmt: skip
        parts.append(("encyclopaedia", about, encyclopaedia.read(Path(texts["wheel"]))))
    seen, lines, sources = Paragraphs(), [], []
    for name, about, documents in parts:
        before = seen.dropped
        kept = [text for raw in documents if len(text := seen.new(clean(raw))) >= _SHORTEST]
        lines += [json.dumps({"text": text, "source": name}, ensure_ascii=False) for text in kept]
        sources.append({
            "name": name, **{key: about[key] for key in ("source", "sha256", "licence")},
            "documents_read": len(documents),
            "documents": len(kept), "bytes": sum(len(text.encode()) for text in kept),
            "bytes_duplicate": seen.dropped - before,
        })  # fmt: skip
    if not lines:
        raise DataError("no text is left after cleaning", source=str(file))
    content = "\n".join(lines) + "\n"
    if not file.exists() or file.read_text(encoding="utf-8") != content:
        write_atomically(file, content)
    return file, sources


def _teller(say: Callable[[str], None]) -> Callable[[Any], None]:
    """Return what shows the progress of a preparation: a line every few seconds."""
    last = [0.0]

    def tell(progress: Any) -> None:
        if progress.seconds - last[0] >= 5.0:
            last[0] = progress.seconds
            say(f"    {format_count(progress.train_tokens)} tokens from {progress.read:,} documents")

    return tell
