"""Fit a made-up table in this process and print CPU seconds and peak memory (MB): for fit_speed.py.

python -m experiments.benchmarks.one_fit 10000 1000
"""

import resource
import sys
import time
from pathlib import Path

import numpy as np

from scaling import ChinchillaLaw, fit_chinchilla

#: The optimum of the 240 points of Hoffmann et al. 2022, Figure 4.
OPTIMUM = ChinchillaLaw(E=1.817218, A=477.826, B=2143.417, alpha=0.347310, beta=0.367172)


def main(n: int, n_boot: int) -> None:
    seconds = 0.0
    if n:
        rng = np.random.default_rng(0)
        params = 10 ** rng.uniform(7.5, 10, n)
        tokens = params * 10 ** rng.uniform(0.3, 2.7, n)
        loss = OPTIMUM.loss(params, tokens) * np.exp(0.01 * rng.standard_t(3, n))
        begin = time.process_time()
        fit_chinchilla(params=params, tokens=tokens, loss=loss, n_boot=n_boot)
        seconds = time.process_time() - begin
    print(seconds, peak_mb())


def peak_mb() -> float:
    """Return the most memory this process has held.

    On Linux ru_maxrss starts at what the *parent* held when it forked; VmHWM starts with the program.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (
        1024**2 if sys.platform == "darwin" else 1024
    )


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
