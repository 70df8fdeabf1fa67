"""The shape of a decoder-only transformer, and exact counts of its parameters.

What counts as N differs between papers, and moves a fitted exponent more than most choices do. The four
counts here are computed from the shape, each with its definition, so that none has to be guessed.
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from scaling.errors import DataError
from scaling.units import format_count

#: Ways to count parameters, see `Arch.params`.
Count = Literal["total", "non_embedding", "matmul", "body"]
Norm = Literal["rmsnorm", "layernorm", "layernorm-nobias", "none"]
QKNorm = Literal["none", "head", "full"]

#: Parameters of one normalisation layer, in units of its width.
_NORM_SIZE = {"rmsnorm": 1, "layernorm": 2, "layernorm-nobias": 1, "none": 0}
_POSITIVE = ("layers", "d_model", "heads", "d_ff", "vocab")
_NOT_NEGATIVE = ("learned_positions", "experts", "shared_experts", "dense_layers", "norms_per_layer")


@dataclass(frozen=True)
class Arch:
    """A decoder-only transformer. The defaults are pre-RMSNorm, SwiGLU, rotary positions, no biases, tied.

    Parameters
    ----------
    layers, d_model, heads, d_ff, vocab : int
        Blocks, residual width, query heads, feed-forward width (of one expert in a mixture) and vocabulary.
    kv_heads : int, optional
        Key/value heads; `heads` if not given. Must divide `heads` (grouped-query attention).
    head_dim : int, optional
        Width of a head; ``d_model / heads`` if not given.
    tied : bool
        The output head shares the token embedding.
    gated : bool
        Gated feed-forward with three matrices (SwiGLU, GeGLU) instead of two.
    learned_positions : int
        Rows of a learned position embedding; 0 for rotary, ALiBi or none.
    norm : {"rmsnorm", "layernorm", "layernorm-nobias", "none"}
        Kind of normalisation; a LayerNorm has a weight and a bias, ``"none"`` means without parameters.
    norms_per_layer : int
        Normalisations of the residual stream in a block (1 for parallel blocks, 4 with post-norms).
    qk_norm : {"none", "head", "full"}
        Normalised queries and keys: one weight per head dimension, or over all heads together.
    bias, qkv_bias : bool
        Biases on every linear layer of the blocks; on the query, key and value projections alone.
    experts, experts_per_token, shared_experts : int
        Mixture of experts: routed experts in a layer, routed experts a token uses, experts that every
        token uses besides. 0 experts: dense. Both counts are needed: memory holds all, compute sees few.
    dense_layers : int
        First layers of a mixture that keep a dense feed-forward, of width `d_ff_dense`.
    d_ff_dense : int, optional
        Width of those.
    window : int, optional
        Tokens a sliding-window layer looks back on, itself included.
    global_layers : int
        Layers with full attention beside the sliding-window ones.
    extra_params : int
        Parameters that no field above describes and that are not matrices (BLOOM's embedding norm).
    name : str
        For messages.

    Raises
    ------
    DataError
        A field is not a positive whole number, or two fields contradict each other.

    Examples
    --------
    >>> small = Arch(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=50257)
    >>> small.params_total, small.params_non_embedding, small.params_matmul
    (48284672, 22553088, 48275968)
    """

    layers: int
    d_model: int
    heads: int
    d_ff: int
    vocab: int
    kv_heads: int = None  # type: ignore[assignment]  # filled in __post_init__
    head_dim: int = None  # type: ignore[assignment]
    tied: bool = True
    gated: bool = True
    learned_positions: int = 0
    norm: Norm = "rmsnorm"
    norms_per_layer: int = 2
    qk_norm: QKNorm = "none"
    bias: bool = False
    qkv_bias: bool = False
    experts: int = 0
    experts_per_token: int = 0
    shared_experts: int = 0
    dense_layers: int = 0
    d_ff_dense: int | None = None
    window: int | None = None
    global_layers: int = 0
    extra_params: int = 0
    name: str = ""
    _derived: frozenset[str] = field(default=frozenset(), init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        for name in _POSITIVE:
            self._whole(name, minimum=1)
        for name in _NOT_NEGATIVE:
            self._whole(name, minimum=0)
        derived = {name for name in ("kv_heads", "head_dim") if getattr(self, name) is None}
        object.__setattr__(self, "_derived", frozenset(derived))
        if "kv_heads" in derived:
            object.__setattr__(self, "kv_heads", self.heads)
        if "head_dim" in derived:
            if self.d_model % self.heads:
                raise DataError(
                    f"d_model={self.d_model} is not a multiple of heads={self.heads}: give head_dim, or a "
                    f"number of heads that divides it.",
                    column="heads",
                )
            object.__setattr__(self, "head_dim", self.d_model // self.heads)
        self._whole("kv_heads", minimum=1)
        self._whole("head_dim", minimum=1)
        if self.heads % self.kv_heads:
            raise DataError(
                f"heads={self.heads} is not a multiple of kv_heads={self.kv_heads}: every key/value head "
                f"serves the same number of query heads.",
                column="kv_heads",
            )
        for name, kind in (("norm", Norm), ("qk_norm", QKNorm)):
            if getattr(self, name) not in get_args(kind):
                raise DataError(
                    f"{name} must be one of {', '.join(get_args(kind))}, got {getattr(self, name)!r}",
                    column=name,
                )
        self._check_mixture()
        self._check_window()

    def _whole(self, name: str, minimum: int) -> None:
        value = getattr(self, name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value % 1 != 0:  # nan, inf too
            raise DataError(f"{name} must be a whole number, got {value!r}", column=name)
        if value < minimum:
            raise DataError(f"{name} must be at least {minimum}, got {value!r}", column=name)
        object.__setattr__(self, name, int(value))

    def _check_mixture(self) -> None:
        if not self.experts:
            fields = ("experts_per_token", "shared_experts", "dense_layers", "d_ff_dense")
            extra = [name for name in fields if getattr(self, name)]
            if extra:
                raise DataError(f"{extra[0]} is given but experts is 0: give both.", column=extra[0])
            return
        if not 1 <= self.experts_per_token <= self.experts:
            raise DataError(
                f"experts={self.experts} with experts_per_token={self.experts_per_token}: a mixture needs "
                f"both, as memory holds all experts and a token is computed by a few.",
                column="experts_per_token",
            )
        if self.dense_layers > self.layers:
            raise DataError(
                f"dense_layers={self.dense_layers} of layers={self.layers}", column="dense_layers"
            )
        if bool(self.dense_layers) != bool(self.d_ff_dense):
            raise DataError("dense_layers and d_ff_dense, their width, go together", column="d_ff_dense")

    def _check_window(self) -> None:
        if self.window is not None:
            self._whole("window", minimum=1)
        elif self.global_layers:
            raise DataError("global_layers needs a window for the other layers", column="window")
        if not 0 <= self.global_layers <= self.layers:
            raise DataError(
                f"global_layers={self.global_layers} of layers={self.layers}", column="global_layers"
            )

    def replace(self, **changes: Any) -> Arch:
        """Return a copy with some fields changed; what followed from other fields follows again.

        Examples
        --------
        >>> Arch(layers=8, d_model=512, heads=8, d_ff=1408, vocab=50257).replace(heads=16).head_dim
        32
        """
        follows = {name: None for name in self._derived}
        return dataclasses.replace(self, **{**follows, **changes})

    @property
    def d_attention(self) -> int:
        """Width of all query heads together (H·Q of the FLOP formulas; usually d_model)."""
        return self.heads * self.head_dim

    @property
    def params_total(self) -> int:
        """Every parameter, embeddings included, the shared matrix of a tied model once."""
        return self.params("total")

    @property
    def params_non_embedding(self) -> int:
        """All but token embedding, position embedding and output head (Kaplan et al. 2020, section 2.1)."""
        return self.params("non_embedding")

    @property
    def params_matmul(self) -> int:
        """Weights of every matrix a token is multiplied with: the blocks and the output head, no lookup."""
        return self.params("matmul")

    @property
    def params_active(self) -> int:
        """Parameters one token uses: the total with only the experts it is routed to."""
        return self.params("total", active=True)

    def params(self, count: Count = "total", *, active: bool = False) -> int:
        """Count parameters.

        Parameters
        ----------
        count : {"total", "non_embedding", "matmul", "body"}
            ``total``: everything. ``non_embedding``: without token embedding, position embedding and output
            head. ``matmul``: matrices of the blocks (router included) plus the output head, which a tied
            model has too; the lookup of the input embedding is no multiplication. ``body``: ``matmul``
            without the head, 12·L·d^2 in the classic shape (the N of Kaplan et al. 2020). No biases or
            norms in the last two.
        active : bool
            Count only the experts a token is routed to.

        Examples
        --------
        >>> gpt2 = Arch(layers=12, d_model=768, heads=12, d_ff=3072, vocab=50257, gated=False, bias=True,
        ...             norm="layernorm", learned_positions=1024)
        >>> gpt2.params_total, gpt2.params("matmul") - gpt2.params("body") == 50257 * 768
        (124439808, True)
        """
        if count not in get_args(Count):
            raise DataError(
                f"count must be one of {', '.join(get_args(Count))}, got {count!r}", column="count"
            )
        head = self.vocab * self.d_model
        if count in ("matmul", "body"):
            return self._matrices(active) + (head if count == "matmul" else 0)
        body = self._matrices(active) + self._vectors(active) + self.extra_params
        if count == "non_embedding":
            return body
        return body + head * (1 if self.tied else 2) + self.learned_positions * self.d_model

    @property
    def layer_matrices(self) -> int:
        """Weights of the matrices of one block; the largest kind of block in a mixture."""
        return self._attention_matrices() + max(self._feed_forward_matrices(False))

    def _attention_matrices(self) -> int:
        return self.d_model * self.head_dim * (2 * self.heads + 2 * self.kv_heads)

    def _feed_forward_matrices(self, active: bool) -> tuple[int, int]:
        """Weights of a dense feed-forward, and of a mixture with its router (0 where there is none)."""
        one = (3 if self.gated else 2) * self.d_model
        if not self.experts:
            return one * self.d_ff, 0
        used = (self.experts_per_token if active else self.experts) + self.shared_experts
        return one * (self.d_ff_dense or 0), one * self.d_ff * used + self.d_model * self.experts

    def _matrices(self, active: bool) -> int:
        dense, mixture = self._feed_forward_matrices(active)
        n_dense = self.dense_layers if self.experts else self.layers
        return self.layers * self._attention_matrices() + n_dense * dense + (self.layers - n_dense) * mixture

    def _vectors(self, active: bool) -> int:
        """Biases and norms."""
        size = _NORM_SIZE[self.norm] * self.d_model
        layer = self.norms_per_layer * size
        if self.qk_norm == "head":
            layer += 2 * self.head_dim
        elif self.qk_norm == "full":
            layer += self.head_dim * (self.heads + self.kv_heads)
        if self.bias or self.qkv_bias:
            layer += self.head_dim * (self.heads + 2 * self.kv_heads)
        if not self.bias:
            return self.layers * layer + size
        layer += self.d_model  # of the output projection
        hidden = 2 if self.gated else 1
        used = (self.experts_per_token if active else self.experts) + self.shared_experts
        n_dense = self.dense_layers if self.experts else self.layers
        dense = hidden * (self.d_ff_dense or self.d_ff) + self.d_model
        mixture = used * (hidden * self.d_ff + self.d_model)
        return self.layers * layer + n_dense * dense + (self.layers - n_dense) * mixture + size

    def __str__(self) -> str:
        heads = f"{self.heads} heads" + (f" ({self.kv_heads} KV)" if self.kv_heads != self.heads else "")
        mixture = f", {self.experts_per_token} of {self.experts} experts" if self.experts else ""
        active = f" ({format_count(self.params_active)} active)" if self.experts else ""
        return (
            f"{self.name + ': ' if self.name else ''}{self.layers} x {self.d_model}, {heads} of "
            f"{self.head_dim}, FFN {self.d_ff}{' gated' if self.gated else ''}{mixture}, vocabulary "
            f"{self.vocab} {'tied' if self.tied else 'untied'} = {format_count(self.params_total, 4)}{active}"
        )
