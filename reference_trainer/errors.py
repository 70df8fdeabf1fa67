"""Errors and warnings of the trainer. Each carries its evidence as attributes and says what to do."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from scaling.errors import DataError, ScalingError, ScalingWarning


class TrainerError(ScalingError):
    """Base of every error this package raises on purpose."""


class TrainerWarning(ScalingWarning):
    """Base of every warning this package issues."""


class CheckpointError(TrainerError):
    """A checkpoint cannot be written, or is not what it claims to be.

    Parameters
    ----------
    message : str
        Which file, what is wrong with it, what to do.
    path : pathlib.Path, optional
        The file or folder at fault.
    """

    def __init__(self, message: str, *, path: Path | None = None) -> None:
        super().__init__(message)
        self.path = path


class NonFiniteError(CheckpointError):
    """A tensor to be saved holds NaN or infinities.

    Parameters
    ----------
    message : str
        Which tensor, how many of its numbers, what to do.
    tensor : str
        Name of the first such tensor.
    bad : int
        How many of its numbers are not finite.
    """

    def __init__(self, message: str, *, tensor: str, bad: int, **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.tensor = tensor
        self.bad = bad


class SpaceError(CheckpointError):
    """The disk has too little room; `needed` and `free` are bytes."""

    def __init__(self, message: str, *, needed: int, free: int, **evidence: Any) -> None:
        super().__init__(message, **evidence)
        self.needed = needed
        self.free = free


class CheckpointWarning(TrainerWarning):
    """A newer checkpoint is damaged and an older one is used; `path` is the damaged one."""

    def __init__(self, message: str, *, path: Path) -> None:
        super().__init__(message)
        self.path = path


class LogError(TrainerError, DataError):
    """A log cannot be written or continued; `source` is the file."""


class RingError(TrainerError, DataError):
    """What was pushed does not fit the ring: too many steps unread, or not one number for each name."""


class MirrorWarning(TrainerWarning):
    """Metrics did not reach the tracking server; the run and its own log are whole.

    Parameters
    ----------
    message : str
        What was lost, why, and where it still is.
    lost : int
        Steps that did not reach the server so far.
    """

    def __init__(self, message: str, *, lost: int) -> None:
        super().__init__(message)
        self.lost = lost


class ConfigError(TrainerError, DataError):
    """A key of the configuration is unknown, of the wrong kind, or contradicts another; `column` is the key."""


class ResumeError(TrainerError, DataError):
    """A checkpoint belongs to another run: its configuration, data or schedule differ; `source` is its folder."""


class DetectorError(TrainerError, DataError):
    """The spike detector or the classifier was given what it cannot judge; `column` is the signal or argument."""


class QuantizeError(TrainerError, DataError):
    """A checkpoint cannot be quantized or compared as asked; `column` is the argument."""
