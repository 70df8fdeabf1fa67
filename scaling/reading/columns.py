"""Column names as people write them, read as a quantity and a unit.

A name is cut into words (``n_params_M``, ``nParams (M)`` and ``NUM PARAMS [M]`` give the same words), a
unit is split off, and what is left must consist of words that a rule knows. A name with one word
more (``loss_openlm``, ``embedding_params``) is *not* that quantity.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass, replace


@dataclass(frozen=True)
class Header:
    """What a column name says.

    Parameters
    ----------
    role : str
        Quantity: ``"params"``, ``"tokens"``, ``"loss"``, ``"flops"``, ``"seed"``, ...
    kind : str
        Which one: total, matmul, non_embedding, active (params); validation, train (loss); padded
        (tokens).
    scale : float
        Factor that turns the cells into plain counts (1e6 for ``params_M``).
    log : {"", "2", "e", "10", "?"}
        Base of the logarithm the cells are; ``"?"`` where the name does not say.
    unit : str
        Loss unit the name states, or empty.
    weak : bool
        True for names that are only taken when no better one is there (``N``, ``size``, ``budget``).
    aggregate : str
        ``"MIN"`` or ``"MAX"`` for columns that hold an extreme over runs or steps.
    """

    role: str
    kind: str = ""
    scale: float = 1.0
    log: str = ""
    unit: str = ""
    weak: bool = False
    aggregate: str = ""


_SCALES = {
    "k": 1e3, "thousand": 1e3, "thousands": 1e3,
    "m": 1e6, "mn": 1e6, "million": 1e6, "millions": 1e6, "mega": 1e6, "1e6": 1e6, "10^6": 1e6,
    "b": 1e9, "bn": 1e9, "g": 1e9, "billion": 1e9, "billions": 1e9, "giga": 1e9, "1e9": 1e9, "10^9": 1e9,
    "t": 1e12, "tn": 1e12, "trillion": 1e12, "trillions": 1e12, "1e12": 1e12, "10^12": 1e12,
    "1e3": 1e3, "10^3": 1e3,
}  # fmt: skip
_FLOP_PREFIX = {
    "": 1.0, "k": 1e3, "m": 1e6, "mega": 1e6, "g": 1e9, "giga": 1e9, "t": 1e12, "tera": 1e12, "p": 1e15,
    "peta": 1e15, "e": 1e18, "exa": 1e18, "z": 1e21, "zetta": 1e21,
}  # fmt: skip
_PF_DAY = 1e15 * 86400

#: Spellings of one word, and words that are written together.
_WORDS = {
    "param": "params", "parameter": "params", "parameters": "params", "nparam": "# params",
    "nparams": "# params", "numparams": "# params", "mparams": "m params", "bparams": "b params",
    "kparams": "k params", "gparams": "g params", "ntokens": "# tokens", "numtokens": "# tokens",
    "mtokens": "m tokens", "btokens": "b tokens", "gtokens": "g tokens", "modelsize": "model size",
    "token": "tokens", "tok": "tokens", "toks": "tokens", "num": "#", "number": "#", "count": "#",
    "training": "train", "trained": "train", "trainset": "train",
    "validation": "val", "valid": "val", "eval": "val", "evaluation": "val", "test": "val", "dev": "val",
    "heldout": "val", "trainloss": "train loss", "valloss": "val loss", "evalloss": "val loss",
    "testloss": "val loss", "finalloss": "final loss", "crossentropy": "cross entropy",
    "crossentropyloss": "cross entropy", "xent": "cross entropy", "ce": "cross entropy",
    "nll": "cross entropy", "perplexity": "ppl", "embedding": "emb", "embeddings": "emb", "embed": "emb",
    "nonembedding": "non emb", "nonemb": "non emb", "nonembed": "non emb", "noembed": "non emb",
    "noemb": "non emb", "no": "non", "without": "non", "wo": "non", "excl": "non", "ex": "non",
    "excluding": "non", "including": "incl", "activated": "active", "iter": "steps", "iters": "steps",
    "iteration": "steps", "iterations": "steps", "step": "steps", "updates": "steps",
    "bs": "batch size", "gbs": "batch size", "batchsize": "batch size", "batches": "batch",
    "seq": "sequence", "seqlen": "sequence length",
    "len": "length", "ctx": "context", "nctx": "context length", "blocksize": "block size",
    "epoch": "epochs", "runid": "run id", "trunkid": "trunk id", "bits": "bit", "nats": "nat",
    "bpb": "bit per byte", "bytes": "byte", "pad": "padded", "padding": "padded", "stderr": "se",
    "sem": "se", "tokeniser": "tokenizer", "units": "unit", "std": "sd", "uniq": "unique",
}  # fmt: skip


@dataclass(frozen=True)
class _Rule:
    """Names of `role`: every word of `need`, and beside them only words of `allow`."""

    role: str
    need: str
    allow: str = ""
    kind: str = ""
    weak: bool = False


_N_WORDS = "n # of model size total train all trainable"
_D_WORDS = "n # of d total train seen data dataset consumed processed in"
_FLOPS = "n # of total train compute exact est estimated throughput"

#: The first rule that fits names the quantity, so the narrow ones come first.
_RULES = (
    _Rule("params", "params non emb", _N_WORDS, "non_embedding"),
    _Rule("params", "params active", _N_WORDS + " per tokens", "active"),
    _Rule("params", "n non emb", kind="non_embedding", weak=True),
    _Rule("params", "n active", kind="active", weak=True),
    _Rule("params", "n matmul", kind="matmul", weak=True),
    _Rule("params", "n total", kind="total", weak=True),
    _Rule("params", "params matmul", _N_WORDS, "matmul"),
    # "total_embedding_params" counts the embeddings alone: "emb" needs a word that says it is included.
    _Rule("params", "params total", _N_WORDS, "total"),
    _Rule("params", "params emb incl", _N_WORDS, "total"),
    _Rule("params", "params emb with", _N_WORDS, "total"),
    _Rule("params", "params all", _N_WORDS, "total"),
    _Rule("params", "params", "n # of model size train trainable"),
    _Rule("params", "model size"),
    _Rule("params", "size", weak=True),
    _Rule("params", "n", weak=True),
    _Rule("unique_tokens", "unique tokens", _D_WORDS),
    _Rule("warmup_tokens", "warmup tokens", "n #"),
    _Rule("warmup_steps", "warmup steps", "n #"),
    _Rule("batch_tokens", "batch tokens", "n # size global per train in"),
    _Rule("batch_tokens", "tokens per steps", "n #"),
    _Rule("tokens", "tokens padded", _D_WORDS + " incl with", "padded"),
    _Rule("tokens", "tokens", _D_WORDS),
    _Rule("tokens", "dataset size", "train", weak=True),
    _Rule("tokens", "data size", "train", weak=True),
    _Rule("tokens", "d", weak=True),
    _Rule("flops", "flops total", _FLOPS),
    _Rule("flops", "flops train", _FLOPS),
    _Rule("flops", "flops exact"),
    _Rule("flops", "flops compute", _FLOPS),
    _Rule("flops", "flops", "n #"),
    _Rule("flops", "compute", "train total budget", weak=True),
    _Rule("flops", "budget", "flops", weak=True),
    _Rule("flops", "c", weak=True),
    _Rule("steps", "steps", "n # global train trainer total max"),
    _Rule("batch", "batch", "size global train n #"),
    _Rule("seq_len", "sequence", "length max train"),
    _Rule("seq_len", "context", "length n # max train size"),
    _Rule("seq_len", "block size"),
    _Rule("epochs", "epochs", "n # train"),
    _Rule("sigma", "sigma", "loss"),
    _Rule("sigma", "run sd"),
    _Rule("sigma", "seed sd"),
    _Rule("loss_se_eval", "loss se", "val"),
    _Rule("loss_unit", "loss unit"),
    _Rule("loss_unit", "unit", weak=True),
    _Rule("loss_kind", "loss kind"),
    _Rule("loss_kind", "loss split"),
    _Rule("loss_kind", "split", weak=True),
    _Rule("tokens_kind", "tokens kind"),
    _Rule("bytes_per_token", "byte per tokens", "n #"),
    _Rule("trunk_id", "trunk", "id"),
    _Rule("run_id", "run id"),
    _Rule("run_id", "run", "name", weak=True),
    _Rule("run_id", "id", weak=True),
    _Rule("run_id", "name", weak=True),
    _Rule("seed", "seed"),
    _Rule("seed", "random seed", weak=True),
    _Rule("status", "status"),
    _Rule("status", "state", weak=True),
    _Rule("tokenizer", "tokenizer", "name"),
    _Rule("val_hash", "val hash"),
)

#: Every quantity `columns=` may name.
ROLES = tuple(dict.fromkeys(["params", "tokens", "loss", *(r.role for r in _RULES)]))

#: Quantities whose cells are counts, which may carry a scale or be logarithms.
COUNTS = frozenset(
    {"params", "tokens", "flops", "unique_tokens", "warmup_tokens", "warmup_steps", "batch_tokens"}
    | {"steps", "batch", "seq_len"}
)

_AGGREGATE = re.compile(r"_{1,2}(MIN|MAX)$")
_LOG = re.compile(r"(log[ _]?10|log[ _]?2|log[ _]?e|lg|ln|log)(?:[ _]+|\s*(?=\())(.+)", re.IGNORECASE)
_LOG_BASE = {"log10": "10", "lg": "10", "log2": "2", "loge": "e", "ln": "e", "log": "?"}
_FLOP_WORD = re.compile(r"(mega|giga|tera|peta|exa|zetta|[kmgtpez])?flops?$")
_PIECES = re.compile(r"\d+e\d+|10\^\d+|[A-Z]+(?=[A-Z][a-z])|[A-Z]?[a-z]+|[A-Z]+|\d+")
_LOSS_WORDS = frozenset(
    {"loss", "cross", "entropy", "ppl", "bit", "nat", "byte", "per", "tokens", "train", "val", "final"}
    | {"last", "best", "mean", "avg", "average", "lm", "smoothed"}
)


def read_header(name: str) -> Header | None:
    """Return what a column name says, or None for a name that no rule knows.

    Parameters
    ----------
    name : str
        Column name as written.

    Examples
    --------
    >>> read_header("n_params_M")
    Header(role='params', kind='', scale=1000000.0, log='', unit='', weak=False, aggregate='')
    >>> read_header("throughput/total_gflops").scale, read_header("loss_openlm")
    (1000000000.0, None)
    """
    text = unicodedata.normalize("NFKC", name).strip().lstrip("\ufeff").strip("\"' ")
    # Exports of several runs write "run name - metric".
    text = text.rsplit(" - ", 1)[-1]
    aggregate = _AGGREGATE.search(text)
    if aggregate is not None:
        text = text[: aggregate.start()]
    log = _LOG.fullmatch(text)
    if log is not None:
        return _logarithm(log, aggregate[1] if aggregate else "")
    words, scale = _split_scale(_words(text))
    header = _loss(words, text) if scale == 1.0 else None
    if header is None:
        words, flop_scale, bare = _flop_words(words)
        header = _by_rule(words)
        if header is None or (scale * flop_scale != 1.0 and header.role not in COUNTS):
            return None
        header = replace(header, scale=scale * flop_scale, weak=header.weak or (bare and flop_scale != 1.0))
    return replace(header, aggregate=aggregate[1] if aggregate else "")


def _logarithm(match: re.Match[str], aggregate: str) -> Header | None:
    base = _LOG_BASE[re.sub(r"[ _]", "", match[1]).lower()]
    inside = read_header(match[2].removeprefix("(").removesuffix(")") if "(" in match[2][:1] else match[2])
    # "log_loss" is a name of the cross-entropy itself; only an explicit base makes it a logarithm.
    if inside is None or inside.log or inside.role not in (COUNTS | {"loss"} if base != "?" else COUNTS):
        return None
    return replace(inside, log=base, aggregate=aggregate)


def _words(text: str) -> list[str]:
    words: list[str] = []
    # Kept whole: camel case would cut "GFLOPs" into GFLO and Ps.
    for chunk in re.split(r"[^0-9A-Za-z^]+", text):
        whole = chunk.lower()
        if _FLOP_WORD.fullmatch(whole) or whole in _WORDS:
            pieces = [whole]
        else:
            pieces = [piece.lower() for piece in _PIECES.findall(chunk)]
        for piece in pieces:
            words += _WORDS.get(piece, piece).split()
    return words


def _split_scale(words: list[str]) -> tuple[list[str], float]:
    """Take a magnitude off the end ("params M", "tokens in billions") or the start ("m params")."""
    if len(words) > 1 and words[-1] in _SCALES:
        rest = words[:-1]
        while len(rest) > 1 and rest[-1] in ("in", "x"):
            rest = rest[:-1]
        return rest, _SCALES[words[-1]]
    if len(words) == 2 and words[0] in _SCALES and words[1] in ("params", "tokens"):
        return words[1:], _SCALES[words[0]]
    return words, 1.0


def _flop_words(words: list[str]) -> tuple[list[str], float, bool]:
    """Turn prefixed FLOP words into "flops" and a scale; `bare` when no other word is there."""
    if words[-1:] in (["day"], ["days"]) and words[0] in ("pf", "pfs", "pflops", "petaflop", "petaflops"):
        return ["flops"], _PF_DAY, False
    scale, out = 1.0, []
    for word in words:
        match = _FLOP_WORD.fullmatch(word)
        if match is not None:
            scale *= _FLOP_PREFIX[match[1] or ""]
            word = "flops"
        out.append(word)
    return out, scale, out == ["flops"]


def _by_rule(words: list[str]) -> Header | None:
    have = set(words)
    for rule in _RULES:
        need = set(rule.need.split())
        if need <= have and have <= need | set(rule.allow.split()):
            return Header(rule.role, kind=rule.kind, weak=rule.weak)
    return None


def _loss(words: list[str], text: str) -> Header | None:
    """Read a name of the loss: its split and its unit."""
    have = set(words)
    if text.strip() in ("L", "l"):
        return Header("loss", weak=True)
    per_what = "per" in have and have & {"bit", "nat"}
    named = have & {"loss", "ppl"} or {"cross", "entropy"} <= have
    if not have <= _LOSS_WORDS or not (named or per_what):
        return None
    unit = ""
    if "ppl" in have:
        unit = "perplexity"
    elif have & {"bit", "nat"}:
        measure = "bits" if "bit" in have else "nats"
        unit = f"{measure}/byte" if "byte" in have else f"{measure}/token"
    elif "byte" in have or ("tokens" in have and "per" not in have):
        return None
    kind = "validation" if "val" in have else "train" if "train" in have else ""
    return Header("loss", kind=kind, unit=unit)
