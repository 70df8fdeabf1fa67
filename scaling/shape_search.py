"""The shapes a solver looks at: every sensible width, with the depth and d_ff that come close to a count."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from scaling.architecture import Arch, Count

#: Feed-forward width over d_model: 8/3 makes the gated block as large as the classic 4.
FFN_RATIO = {True: 8 / 3, False: 4.0}
#: How far the feed-forward ratio may move from its nominal value to hit the wanted count.
_RATIO_RANGE = (0.7, 1.5)
#: d_model / layers of published models, log-linear between: 16 at 0.1M, 64 at 0.1B (GPT-2, Pythia), 128 from
#: 7B on (Llama, GPT-3).
_ASPECT = ((1e5, 16.0), (1e8, 64.0), (7e9, 128.0))


@dataclass(frozen=True)
class Rules:
    """What is wanted and allowed, as `scaling.shapes.solve_shape` describes it.

    Parameters
    ----------
    wanted, vocab, count, kv_group, aspect, multiple
        As there.
    head_dims : tuple of int
        Head widths to try.
    ratio : float
        Preferred d_ff / d_model.
    max_share : float
        Largest share of embeddings.
    fields : dict
        Further fields of `Arch`.
    """

    wanted: float
    vocab: int
    count: Count
    kv_group: int
    head_dims: tuple[int, ...]
    ratio: float
    aspect: tuple[float, float]
    max_share: float
    multiple: int
    fields: dict[str, Any]

    def step(self, d_model: int) -> int:
        """Return what widths near `d_model` are multiples of."""
        return self.multiple if d_model < 16 * self.multiple else 2 * self.multiple

    def depths(self, d_model: int) -> tuple[int, int]:
        """Fewest and most layers the aspect allows (the second may be 0)."""
        return max(1, math.ceil(d_model / self.aspect[1])), math.floor(d_model / self.aspect[0])

    def arch(self, d_model: int, head_dim: int, layers: int, d_ff: int) -> Arch:
        """Build one shape."""
        heads = d_model // head_dim
        return Arch(
            layers=layers,
            d_model=d_model,
            heads=heads,
            kv_heads=heads // self.kv_group,
            head_dim=head_dim,
            d_ff=d_ff,
            vocab=self.vocab,
            **self.fields,
        )

    def share(self, arch: Arch) -> float:
        """Share of all parameters outside the blocks: embeddings, positions, head."""
        return 1.0 - arch.params_non_embedding / arch.params_total

    def miss(self, arch: Arch) -> float:
        """How far its count is from the wanted one, relative."""
        return abs(arch.params(self.count) / self.wanted - 1.0)

    def badness(self, arch: Arch) -> float:
        """0 for the ideal; 1 for a miss of 2%, a ratio off by 1.25 or a depth off by a factor of 1.6."""
        miss = math.log(arch.params(self.count) / self.wanted) / 0.02
        ratio = math.log(arch.d_ff / arch.d_model / self.ratio) / math.log(1.25)
        aspect = math.log(arch.d_model / arch.layers / target_aspect(self.wanted)) / math.log(1.6)
        # Depths are split over devices, widths over tiles, heads of large models over eight GPUs.
        odd = 0.15 * (arch.layers % 2) + 0.25 * bool(arch.d_model % (2 * self.multiple))
        odd += 1.0 * (arch.layers == 1) + 0.5 * (arch.d_model >= 2048 and bool(arch.heads % 8))
        return miss**2 + ratio**2 + aspect**2 + odd


def widths(rules: Rules) -> Iterator[tuple[int, int]]:
    """Widths worth a look with their head width, until even the shallowest model is far too large."""
    d_model = rules.multiple
    while 2.0 * max(1.0, d_model / rules.aspect[1]) * d_model**2 < 3.0 * rules.wanted + 1e6:
        for head_dim in rules.head_dims:
            usual = len(rules.head_dims) == 1 or head_dim == (64 if d_model < 2048 else 128)
            if usual and d_model % (head_dim * rules.kv_group) == 0:
                yield d_model, head_dim
        d_model += rules.step(d_model)


def candidates(rules: Rules) -> Iterator[Arch]:
    """Shapes of every width that come close to the wanted count by their layers, then by their d_ff."""
    for d_model, head_dim in widths(rules):
        fewest, most = rules.depths(d_model)
        if most < fewest:
            continue
        step = rules.step(d_model)
        nominal = max(step, round(rules.ratio * d_model / step) * step)
        low, high = (max(step, math.ceil(r * nominal / step) * step) for r in _RATIO_RANGE)
        # The count is linear in layers and, per layer, in d_ff: three evaluations give it everywhere.
        one, two = (rules.arch(d_model, head_dim, n, nominal) for n in (1, 2))
        narrower = rules.arch(d_model, head_dim, 1, nominal - 1)
        per_layer = two.params(rules.count) - one.params(rules.count)
        per_ff = one.params(rules.count) - narrower.params(rules.count)
        outside = one.params(rules.count) - per_layer
        exact = math.floor((rules.wanted - outside) / per_layer)
        embeddings = one.params_total - one.params_non_embedding
        enough = math.ceil(embeddings * (1.0 / rules.max_share - 1.0) / per_layer)
        shapes = {(n, nominal) for n in (enough, enough + 1)}
        for layers in range(max(fewest, min(exact - 1, most)), min(most, max(exact + 2, fewest)) + 1):
            lacking = (rules.wanted - outside - layers * per_layer) / (layers * per_ff)
            shapes.add((layers, min(max(round((nominal + lacking) / step) * step, low), high)))
        for layers, d_ff in sorted(shapes):
            if fewest <= layers <= most:
                arch = rules.arch(d_model, head_dim, layers, d_ff)
                if rules.share(arch) <= rules.max_share:
                    yield arch


def target_aspect(wanted: float) -> float:
    """Return d_model / layers of published models of this size."""
    (first, shallow), *_ = _ASPECT
    if wanted <= first:
        return shallow
    for (n0, a0), (n1, a1) in itertools.pairwise(_ASPECT):
        if wanted <= n1:
            return float(a0 * (a1 / a0) ** (math.log(wanted / n0) / math.log(n1 / n0)))
    return _ASPECT[-1][1]
