"""Which format a log is in: each is asked in turn, and a log that none knows is answered with all of them."""

from __future__ import annotations

from types import ModuleType

from reference_trainer.log_formats import (
    llmc,
    megatron,
    mlflow_store,
    nanogpt,
    olmo,
    own,
    pairs,
    table,
    wandb,
)
from reference_trainer.log_formats.opened import Opened
from scaling.errors import DataError

#: Formats in the order in which they are tried; the first that recognises a log reads it.
FORMATS: tuple[ModuleType, ...] = (own, mlflow_store, wandb, megatron, olmo, llmc, nanogpt, table, pairs)


def format_of(opened: Opened) -> ModuleType:
    """Return the module that reads a log.

    Raises
    ------
    DataError
        No format knows it; the message has its first lines, and what rows of each format look like.
    """
    found = next((f for f in FORMATS if f.recognise(opened)), None)
    if found is not None:
        return found
    tried = "\n".join(f"  {f.NAME}: {f.SHAPE}" for f in FORMATS)
    raise DataError(
        f"{opened.name}: no format knows this log. It begins\n{opened.shown()}\nTried were\n{tried}\n"
        "Give a table with the columns step and loss, or name them with columns=.",
        source=opened.name,
    )
