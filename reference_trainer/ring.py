"""Numbers of every step, kept on the device until somebody looks: no wait between steps."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from reference_trainer.errors import RingError


class Ring:
    """A table of steps x names on the device, written without a host sync and read with one.

    An accelerator's tensors are copied into it by one kernel a step. Numbers that are on the host anyway, a
    CPU's tensors among them, make nobody wait: they are taken at once, at full precision.

    Parameters
    ----------
    names : sequence of str
        What each number of a step is called.
    size : int
        Steps it holds between two readings.
    device : str or torch.device
        Where the training tensors are. The table is float32, as their losses and norms are.

    Raises
    ------
    RingError
        Names repeat, one is ``"step"``, or the size is below 1.

    Examples
    --------
    >>> ring = Ring(["loss", "lr"], size=10, device="cpu")
    >>> ring.push(1, [torch.tensor(10.8), 3e-4])
    >>> [{name: round(value, 4) for name, value in row.items()} for row in ring.read()]
    [{'step': 1, 'loss': 10.8, 'lr': 0.0003}]
    """

    def __init__(self, names: Sequence[str], size: int, device: str | torch.device) -> None:
        self.names = tuple(names)
        if not self.names or len(set(self.names)) < len(self.names) or "step" in self.names:
            raise RingError(
                f"names must differ from each other and from 'step', got {', '.join(names)}", column="names"
            )
        if size < 1:
            raise RingError(f"size is the number of steps between two readings, got {size}", column="size")
        self.size = size
        # A tensor's own device has an index ("cuda:0") even where "cuda" was asked for.
        place = torch.empty(0, device=device).device
        self._kind = place.type
        self._at_once = True  # tests of the table turn it off where there is no accelerator
        self._rows = list(torch.zeros(size, len(self.names), device=place).unbind())
        self._steps: list[int] = []
        self._host: list[list[float | None]] = []

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def full(self) -> bool:
        """Whether it has to be read before the next step."""
        return len(self._steps) >= self.size

    def push(self, step: int, values: Sequence[Tensor | float]) -> None:
        """Keep the numbers of one step.

        Parameters
        ----------
        step : int
            Number of the step.
        values : sequence of Tensor or float
            One number for each name, in their order. A tensor of k numbers stands for the next k names.

        Raises
        ------
        RingError
            The ring is full, there is not one number for each name, or a tensor is on another accelerator
            device than the ring.
        """
        used = len(self._steps)
        if used >= self.size:
            raise RingError(
                f"step {step}: {self.size} steps wait to be read and there is no room for another; call read() "
                f"at least every {self.size} steps"
            )
        host: list[float | None] = []
        on_device: list[Tensor] = []
        for value in values:
            if not isinstance(value, Tensor):
                host.append(float(value))
            elif value.is_cpu and self._at_once:
                host.extend(map(float, [value.item()] if value.dim() == 0 else value.flatten().tolist()))
            elif value.device.type == self._kind:
                on_device.append(value.detach().reshape(-1))
                host.extend([None] * value.numel())
            else:
                raise RingError(f"step {step}: a tensor is on {value.device}, the ring on {self._kind}")
        if len(host) != len(self.names):
            raise RingError(f"step {step}: {len(host)} numbers for {len(self.names)} names ({self.names})")
        if on_device:
            row, count = self._rows[used], host.count(None)
            torch.cat(on_device, out=row if count == len(host) else row[:count])
        self._steps.append(step)
        self._host.append(host)

    def read(self) -> list[dict[str, float]]:
        """Return the steps kept since the last reading, oldest first, and forget them: one host sync.

        Returns
        -------
        list of dict
            ``"step"`` (an int) and each name.
        """
        used = len(self._steps)
        if not used:
            return []
        anything = any(None in host for host in self._host)
        table = torch.stack(self._rows[:used]).tolist() if anything else [[]] * used
        out = []
        for step, host, device in zip(self._steps, self._host, table, strict=True):
            numbers = iter(device)
            row: dict[str, float] = {"step": step}
            row.update(
                (name, next(numbers) if value is None else value)
                for name, value in zip(self.names, host, strict=True)
            )
            out.append(row)
        self._steps, self._host = [], []
        return out
