"""From text to shards: read, drop, tokenize, split; killed at any moment, it goes on to the same bytes.

The result is a folder with ``train/`` and ``val/`` shards and ``manifest.json``. While it is made it is
called ``NAME.work``; the name appears when everything is there.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np

from reference_trainer.data.corpus import Document, Documents, source_files
from reference_trainer.data.ledger import document_key, is_held_out
from reference_trainer.data.prepared import (
    MANIFEST,
    Prepared,
    Progress,
    described,
    open_prepared,
    read_manifest,
)
from reference_trainer.data.quality import Judge, rules
from reference_trainer.data.settings import Settings, refuse_change
from reference_trainer.data.tokenizers import Tokenizer, load_tokenizer
from reference_trainer.data.work import Work
from scaling.errors import DataError
from scaling.storage import write_atomically

#: Documents tokenized together. Part of what decides the bytes only where `train_tokens` ends a run early.
BATCH = 256

#: What becomes of a document, in the order in which it is asked. Their sum is `read`.
FATES = ("empty", "duplicate", "rejected", "train", "val", "surplus")


def prepare(
    settings: Settings,
    out: str | Path,
    *,
    made: str | None = None,
    save_seconds: float = 10.0,
    watch: Callable[[Progress], None] | None = None,
) -> Prepared:
    """Make the shards, or go on making them, or find them made.

    Parameters
    ----------
    settings : Settings
        What decides the bytes.
    out : path
        The folder to make.
    made : str, optional
        ISO date for the headers; that of the first run unless given.
    save_seconds : float
        How often the state is saved: what a kill can cost.
    watch : callable, optional
        Called with `Progress` after every batch.

    Returns
    -------
    Prepared

    Raises
    ------
    DataError
        The folder is something else or was begun with other settings; the source, its files or the
        tokenizer changed since; the source breaks; nothing is left to train on or to hold out.
    """
    out = Path(out)
    files = source_files(settings.source)
    tokenizer = load_tokenizer(settings.tokenizer, settings.tokenizer_path)
    asked = {**settings.describe(), "tokenizer_sha256": tokenizer.sha256, "files": files}
    if out.exists():
        prepared = open_prepared(out)
        refuse_change(out, prepared.manifest["settings"], asked)
        return prepared
    work = Work(out.with_name(out.name + ".work"))
    progress = None
    try:
        begun = read_manifest(work.folder) if (work.folder / MANIFEST).exists() else work.state
        if begun is not None:
            refuse_change(work.folder, begun["settings"], asked)
        if begun is None or begun is work.state:  # else all that was missing is the name
            run = _Run(settings, tokenizer, work, asked, made, watch)
            run.stream(save_seconds)
            run.finish()
            progress = run.progress()
        work.publish(out)
    finally:
        work.close()
    return replace(open_prepared(out), progress=progress)


class _Run:
    """One process's part of a preparation."""

    def __init__(
        self,
        settings: Settings,
        tokenizer: Tokenizer,
        work: Work,
        asked: Mapping[str, Any],
        made: str | None,
        watch: Callable[[Progress], None] | None,
    ) -> None:
        state = work.state or {}
        self.settings, self.tokenizer, self.work = settings, tokenizer, work
        self.made = state.get("made") or made or datetime.now(UTC).date().isoformat()
        self.asked, self.watch = asked, watch
        self.counts: dict[str, int] = state.get("counts") or dict.fromkeys(FATES, 0)
        self.judge = Judge(rules(*settings.rules), min_score=settings.min_score, counts=state.get("rules"))
        self.stream_state, self.done = state.get("stream"), state.get("done", False)
        self.columns: list[str] = state.get("columns", [])
        self.separator = np.array([tokenizer.separator])
        self.work.open(
            tokenizer=tokenizer.name,
            vocab=tokenizer.vocab,
            source=str(settings.source),
            made=self.made,
            shard_tokens=settings.shard_tokens,
        )
        self.began, self.before = time.monotonic(), self._tokens()

    def _tokens(self) -> int:
        return int(self.work.train_tokens + self.work.ledger.held_out_tokens)

    def progress(self) -> Progress:
        seconds = time.monotonic() - self.began
        rate = (self._tokens() - self.before) / max(seconds, 1e-9)
        read = sum(self.counts.values())
        return Progress(read, self.work.train_tokens, self.settings.train_tokens, seconds, rate)

    def stream(self, save_seconds: float) -> None:
        """Read to the end, or to as many tokens as were asked for."""
        if self.done:
            return
        documents = Documents(
            self.settings.source,
            window=self.settings.window,
            seed=self.settings.seed,
            state=self.stream_state,
        )
        saved = time.monotonic()
        try:
            rows = iter(documents)
            while batch := list(islice(rows, BATCH)):
                self._take(batch)
                if self.watch is not None:
                    self.watch(self.progress())
                if self._enough():
                    break
                if time.monotonic() - saved >= save_seconds:
                    self._save(documents)
                    saved = time.monotonic()
            self.done = True
            self._save(documents)
        finally:
            documents.close()

    def _enough(self) -> bool:
        return self.settings.train_tokens is not None and self.work.train_tokens >= self.settings.train_tokens

    def _save(self, documents: Documents) -> None:
        self.columns = self.columns or list(documents.columns)
        own = {"settings": self.asked, "made": self.made, "counts": self.counts, "rules": self.judge.counts}
        how_far = {"stream": documents.state_dict(), "columns": self.columns, "done": self.done}
        self.work.save({**own, **how_far})

    def _take(self, batch: list[Document]) -> None:
        kept: list[tuple[bytes, str]] = []
        for document in batch:
            key = self._wanted(document)
            if key is not None and document.text is not None:
                self.work.ledger.add(key)
                kept.append((key, document.text))
        encoded = self.tokenizer.encode_batch([text for _, text in kept])
        for (key, text), ids in zip(kept, encoded, strict=True):
            tokens, size = np.concatenate([ids, self.separator]), len(text.encode())
            if self._enough():
                self.counts["surplus"] += 1
            elif is_held_out(key, self.settings.val_share):
                self.work.ledger.hold_out(key, tokens, size)
                self.counts["val"] += 1
            else:
                self.work.train(tokens, size)
                self.counts["train"] += 1

    def _wanted(self, document: Document) -> bytes | None:
        """Return the key of a document to keep; count and drop the others."""
        if document.text is None or not document.text.strip():
            self.counts["empty"] += 1
            return None
        key = document_key(document.text)
        if key in self.work.ledger:
            self.counts["duplicate"] += 1
            return None
        if self.judge.failed(document.text, document.score):
            self.counts["rejected"] += 1
            return None
        return key

    def finish(self) -> None:
        """Write what comes last: the held-out block and the manifest."""
        share, counts = self.settings.val_share, dict(self.counts)
        seen = f"{sum(counts.values()):,} documents read: {', '.join(f'{n:,} {fate}' for fate, n in counts.items())}"
        if counts["train"] == 0:
            raise DataError(f"nothing is left to train on ({seen})", source=self.settings.source.path)
        if share > 0 and counts["val"] == 0:
            raise DataError(
                f"no document fell into the held-out share of {share} ({seen}): raise val_share, or give 0 to hold "
                f"out nothing, and delete {self.work.folder}.",
                column="val_share",
            )
        left = self.work.end_shards(self.settings.val_tokens)
        counts["surplus"] += left
        counts["val"] -= left
        manifest = {
            "made": self.made,
            "settings": self.asked,
            "columns": self.columns,
            "documents": {"read": sum(counts.values()), **counts},
            "rules": self.judge.describe(),
            "train": described(self.work.folder / "train"),
            "val": described(self.work.folder / "val"),
        }
        write_atomically(
            self.work.folder / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False) + "\n"
        )
