"""The page of `experiments.x1.after_training`: tables, and sentences that follow from them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from scaling.units import format_count


def page(content: Mapping[str, Any]) -> str:
    """Return the page as Markdown.

    Parameters
    ----------
    content : mapping
        What the JSON holds: ``quantized`` (a comparison as plain types), ``money``, ``command``, ``tokenizers``.
    """
    q, rows = content["quantized"], content["money"]
    parts = [
        "# After training", _about(q), _bits(q), *_bits_words(q), "## Dollars", _money(rows),
        *_money_words(rows, content), f"Made by `{content['command']}`; every number is in "
        "[after-training.json](after-training.json), the dollars also in [after-training.csv](after-training.csv).",
    ]  # fmt: skip
    return "\n\n".join(parts) + "\n"


def _about(q: Mapping[str, Any]) -> str:
    base, about = q["kept"][0], q["about"]
    bits = "" if base["bits_per_byte"] is None else f", {base['bits_per_byte']:.4f} bits per byte"
    return (
        f"{format_count(q['arch']['params_total'])} parameters at step {q['step']:,}, read on {q['tokens']:,} "
        f"validation tokens in {q['windows']:,} windows: {base['loss']:.4f} nats per token in fp32 (standard error of "
        f"the text {base['loss_se']:.4f}){bits}. {about['device']}, {about['threads']} thread(s), "
        f"torch {about['torch']}, medians of {about['rounds']} rounds per {about['clock'].removesuffix('s')}; ratios "
        "are taken within a round, with their 10th and 90th percentile."
    )


def _bits(q: Mapping[str, Any]) -> str:
    works = q["works"]
    head = ["weights", "bytes", "bits a weight", "change of the loss, 95%",
            *(f"{_work(w)}, tokens/s" for w in works), *(f"{_work(w)}, × fp32" for w in works)]  # fmt: skip
    rows = []
    for k in q["kept"]:
        c, speeds = k["change"], [k["speed"][w["name"]] for w in works]
        base = k is q["kept"][0]
        change = "–" if base else f"{c['value']:+.5f} [{c['low']:+.5f}, {c['high']:+.5f}]"
        rows.append([
            k["scheme"]["name"], f"{k['bytes']['total']:,}", f"{k['bits_per_weight']:.2f}", change,
            *(f"{s['tokens_per_s']:,.0f}" for s in speeds),
            *("1" if base else f"{s['ratio']:.2f} [{s['ratio_low']:.2f}, {s['ratio_high']:.2f}]" for s in speeds),
        ])  # fmt: skip
    return _table(head, rows)


def _work(work: Mapping[str, Any]) -> str:
    if not work["output"]:
        return "prefill"
    return "one sequence written" if work["batch"] == 1 else f"{work['batch']} written"


def _bits_words(q: Mapping[str, Any]) -> list[str]:
    base, rest = q["kept"][0], q["kept"][1:]
    said = []
    for k in rest:
        c, name = k["change"], k["scheme"]["name"]
        if c["low"] <= 0 <= c["high"]:
            said.append(f"{name} changes nothing that can be seen on this text")
        else:
            way = "costs" if c["value"] > 0 else "lowers the loss by"
            said.append(
                f"{name} {way} {abs(c['value']):.5f} nats ({abs(c['value']) / base['loss']:.3%} of the loss)"
            )
    apart = [k for k in rest if k["change"]["lag1"] > 0.2]
    warned = "" if not apart else (
        f" Neighbouring windows change alike under {', '.join(k['scheme']['name'] for k in apart)} (correlation above "
        "0.2): those intervals are too narrow."
    )  # fmt: skip
    work = next(w for w in q["works"] if w["output"])
    faster = [k["scheme"]["name"] for k in rest if k["speed"][work["name"]]["ratio_low"] > 1]
    slower = [k["scheme"]["name"] for k in rest if k["speed"][work["name"]]["ratio_high"] < 1]
    speed = f"Written token by token ({_work(work)}), {_list(faster)} faster than fp32 here and {_list(slower)} slower."
    kept = {k["scheme"]["what"]: k["scheme"]["name"] for k in rest}
    return [
        f"On the same windows: {'; '.join(said)}.{warned}",
        f"{speed} Weights are unpacked to fp32 for every product, in plain torch: fewer bits save bytes, on disk and "
        "in memory, and time only where a kernel reads them as they are. Keys and values are kept between tokens.",
        "What is kept how: " + "; ".join(f"{name}: {what}" for what, name in kept.items()) + ".",
    ]


def _money(rows: Sequence[Mapping[str, Any]]) -> str:
    head = ["model", "weights", "on", "how", "batch", "$ per million tokens, 80%", "$ per MB of text, 80%"]
    body = [
        [r["model"], r["weights"], f"{r['on']} at ${r['usd_per_hour']:.3g}/h", r["how"], str(r["batch"]),
         _ends(r, "usd_per_million_tokens"), _ends(r, "usd_per_mb")]
        for r in rows if _shown(r, rows)
    ]  # fmt: skip
    return _table(head, body)


def _shown(row: Mapping[str, Any], rows: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a row is on the page: of a roofline 16 and 4 bits, of what was measured the largest batch, and fp32."""
    if row["how"] == "roofline":
        return bool(row["weights"] != "8 bits")
    most = max(r["batch"] for r in rows if r["how"] == "measured")
    return bool(row["batch"] == most or row["weights"] == "fp32")


def _money_words(rows: Sequence[Mapping[str, Any]], content: Mapping[str, Any]) -> list[str]:
    mine = [r for r in rows if r["how"] == "measured"]
    roof = [r for r in rows if r["how"] == "roofline" and r["model"] == "this one"]
    others = [r for r in rows if r["how"] == "roofline" and r["model"] != "this one"]
    best = min(mine, key=lambda r: r["usd_per_million_tokens"])
    said = [
        "The CSV also has the rows of 8 bits, and of one sequence at a time under every scheme. "
        f"The cheapest of the measured is {best['weights']} with {best['batch']} sequence(s) at once: "
        f"{_ends(best, 'usd_per_million_tokens')} per million tokens at ${best['usd_per_hour']:.3g} an hour "
        f"({content['price_source']})."
    ]
    priced = [r for r in others if r["usd_per_mb"] is not None]
    if best["usd_per_mb"] is not None and priced:
        dearer = [r for r in priced if r["usd_per_mb"] < best["usd_per_mb"]]
        near = min(priced, key=lambda r: abs(r["usd_per_mb"] / best["usd_per_mb"] - 1))
        said.append(
            f"By the megabyte {len({r['model'] for r in dearer})} of {len({r['model'] for r in priced})} models with "
            f"open weights are cheaper on a GPU than this one on its core; nearest is {near['model']} in "
            f"{near['weights']} ({_ends(near, 'usd_per_mb')}). "
            "The price says nothing of how good the text is."
        )
    low = min(roof, key=lambda r: r["usd_per_million_tokens"])
    said.append(
        f"The same function says {_ends(low, 'usd_per_million_tokens')} per million tokens for this model on a GPU. It "
        "counts arithmetic and memory alone; a model so small waits for kernels to start, so that is a lower bound "
        "that is not reached."
    )
    names = ", ".join(
        f"{name} {content['text']['bytes'] / t['tokens']:.2f}" for name, t in content["tokenizers"].items()
    )
    return [
        " ".join(said),
        "Both kinds of row pay for hours without requests: the share of busy ones is drawn from the same range, with "
        "the same draws. Intervals are the 10th to 90th percentile over that share and, of measured rows, over the "
        "rounds; of a roofline, over utilisation and prices. Four tokens are read for one that is made.",
        f"Bytes per token of the tokenizers, all measured on {content['text']['from']}: {names}.",
    ]  # fmt: skip


def _ends(row: Mapping[str, Any], name: str) -> str:
    if row[name] is None:
        return "–"
    return f"${_digits(row[name])} [{_digits(row[f'{name}_p10'])}, {_digits(row[f'{name}_p90'])}]"


def _digits(x: float) -> str:
    """Write three digits without an exponent: 0.0000123, 1.23, 123."""
    text = f"{float(f'{x:.3g}'):.12f}".rstrip("0").rstrip(".")
    return text or "0"


def _list(names: Sequence[str]) -> str:
    if not names:
        return "none is"
    return f"{', '.join(names)} {'is' if len(names) == 1 else 'are'}"


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
