"""Rules for tokens as people write them: "D = 20 N", "N = D/20", "20 tokens per parameter"."""

from __future__ import annotations

import math
import re

_WORDS = {
    **dict.fromkeys(("n", "param", "params", "parameter", "parameters"), "N"),
    **dict.fromkeys(("d", "token", "tokens", "tok"), "D"),
}
_PART = re.compile(
    r"(?P<number>\d+(?:[.,]\d+)?(?:e[+-]?\d+)?)|(?P<equal>[=~≈≃:]+)|(?P<over>/|÷|\bper\b|\bfor every\b|\bfor each\b)"
    r"|(?P<times>[·*×]|(?<![a-z])x(?![a-z])|(?<=\d)x(?=[nd]\b))|(?P<word>[a-z]+)(?:[_*]?(?:opt|star|optimal))?\*?"
    r"(?:\([ndc]\))?|(?P<other>\S)"
)
_NUMBERS = {"one": "1", "twenty": "20"}
_PER = re.compile(
    r"(?P<above>\d+(?:\.\d+)?)\s*(?P<what>tok(?:en)?s?|param(?:eter)?s?)\s*"
    r"(?:/|per|for every|for each)\s*(?P<below>\d+(?:\.\d+)?)?\s*(?P<each>tok(?:en)?s?|param(?:eter)?s?)\b"
)
#: A side of a rule: its number, and the powers of N and D.
_Side = tuple[float, int, int]


def tokens_per_param(rule: str) -> float | None:
    """Read a rule for tokens; None where it is none.

    Examples
    --------
    >>> tokens_per_param("D_opt = 20·N"), tokens_per_param("N_opt = 20·D"), tokens_per_param("20 tokens/param")
    (20.0, 0.05, 20.0)
    >>> tokens_per_param("D = N/20"), tokens_per_param("20 parameters per token"), tokens_per_param("D/N = 20")
    (0.05, 0.05, 20.0)
    """
    text = rule.casefold()
    if "^" in text or "**" in text:  # a power of N is no ratio
        return None
    text = re.sub(r"\b(one|twenty)\b", lambda m: _NUMBERS[m[0]], text)
    ratio = _equation(text)
    if ratio is None:
        ratio = _per(text)
    return ratio if ratio is not None and 0 < ratio < math.inf else None


def _per(text: str) -> float | None:
    """Read "20 tokens per parameter", either way round."""
    match = _PER.search(text)
    if match is None or match["what"][0] == match["each"][0]:
        return None
    above, below = float(match["above"]), float(match["below"] or 1)
    if above == 0 or below == 0:
        return None
    return above / below if match["what"][0] == "t" else below / above


def _equation(text: str) -> float | None:
    """Solve an equation of numbers, N and D for D/N."""
    parts = [(str(m.lastgroup), m.group()) for m in _PART.finditer(text)]
    kinds = [_kind(kind, found) for kind, found in parts]
    for at, kind in enumerate(kinds):
        if kind != "equal":
            continue
        start, end = at, at + 1
        while start > 0 and kinds[start - 1] not in ("other", "equal"):
            start -= 1
        while end < len(kinds) and kinds[end] not in ("other", "equal"):
            end += 1
        left, right = _side(kinds[start:at], parts[start:at]), _side(kinds[at + 1 : end], parts[at + 1 : end])
        if left is None or right is None:
            continue
        factor, n, d = right[0] / left[0], left[1] - right[1], left[2] - right[2]
        if (n, d) == (-1, 1):  # D/N = factor
            return factor
        if (n, d) == (1, -1) and factor:
            return 1 / factor
    return None


def _kind(kind: str, found: str) -> str:
    """Return N, D, number, over, times, equal or other."""
    if kind != "word":
        return kind
    plain = re.match(r"[a-z]+", found)
    return _WORDS.get(re.sub(r"(opt|star|optimal)$", "", plain[0]) if plain else "", "other")


def _side(kinds: list[str], parts: list[tuple[str, str]]) -> _Side | None:
    """Multiply what stands on a side; None where something is missing or it is zero."""
    value, powers, sign, waiting = 1.0, {"N": 0, "D": 0}, 1, True
    for kind, (_, found) in zip(kinds, parts, strict=True):
        if kind in ("times", "over"):
            if waiting:
                return None
            sign, waiting = (-1 if kind == "over" else 1), True
            continue
        if kind == "number":
            number = float(found.replace(",", "."))
            if not 0 < number < math.inf:
                return None
            value = value / number if sign < 0 else value * number
        else:
            powers[kind] += sign
        sign, waiting = 1, False
    return None if waiting or not 0 < value < math.inf else (value, powers["N"], powers["D"])
