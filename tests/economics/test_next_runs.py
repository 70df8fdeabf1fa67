"""Which runs to make next: money, precision, what is known and what must be assumed; and the command."""

from __future__ import annotations

import csv
import io
import json
import math
from typing import Any

import numpy as np
import pytest

from economics import cost, suggest
from economics.errors import UnknownGPU
from economics.next_runs.goal import Precision, read_goal
from economics.next_runs.known import ASSUMED_SIGMA
from economics.run_search import BudgetError
from scaling import DataError, RunTable, datasets, fit_chinchilla
from scaling.architecture import Arch
from scaling.design import COOLDOWN
from scaling.laws.chinchilla import ChinchillaLaw
from scaling.published import published
from tests.economics.test_economics_cli import answer, economics

LAW: Any = published("Besiroglu replication (best of grid)").law
GPU = {"gpu": "A100 SXM 80GB", "price": 1.5, "draws": 500}
#: A small pool and few laws: what is tested here does not depend on many.
FAST: Any = {**GPU, "n_laws": 5, "sizes": ("20M", "300M"), "token_counts": ("200M", "4B")}


def table(n: Any, d: Any, noise: float = 0.003, seed: int = 0, **columns: Any) -> RunTable:
    n, d = (np.asarray(x, dtype=float).ravel() for x in np.broadcast_arrays(n, d))
    wiggle = np.random.default_rng(seed).normal(size=n.size) * noise
    return RunTable.from_arrays(params=n, tokens=d, loss=LAW.loss(n, d) * np.exp(wiggle), **columns)


def identified() -> RunTable:
    n, d = np.meshgrid(np.geomspace(2e7, 3e8, 5), np.geomspace(2e8, 1e10, 4))
    return table(n, d, params_kind="total")


def line() -> RunTable:
    n = np.geomspace(2e7, 2e8, 6)
    return table(n, 20 * n)


# --- money -----------------------------------------------------------------------------------------


def test_the_bill_is_that_of_its_runs() -> None:
    """The longest of a trunk at full cost, branches at their cooldown, the machine started once."""
    found = suggest(identified(), "$50", **FAST)
    assert found.usd.low < found.usd.value <= 50 and found.budget_usd == 50
    start = cost(N=1e8, D=1.0, n_gpus=1, **GPU).usd.value
    each = math.fsum(run.usd for run in found.runs)
    assert found.usd.value == pytest.approx(each + start, rel=0.03)  # a median of sums is no sum of medians
    assert math.fsum(run.hours for run in found.runs) == pytest.approx(found.hours.value, rel=0.03)
    trunks: dict[int, list[Any]] = {}
    for run in found.runs:
        trunks.setdefault(run.trunk, []).append(run)
    for first, *branches in trunks.values():
        assert first.kind == "trunk" and all(b.kind == "branch" for b in branches)
        for branch in branches:
            assert branch.params == first.params and branch.tokens < first.tokens
            assert branch.usd == pytest.approx(COOLDOWN * first.usd * branch.tokens / first.tokens)


@pytest.mark.parametrize("usd", [3, 20, 100])
@pytest.mark.parametrize(
    "more", [{}, {"price": None, "as_of": "2026-10-10", "market": "spot"}], ids=["price", "spot"]
)
def test_neither_the_list_nor_its_total_exceeds_the_budget(usd: float, more: dict[str, Any]) -> None:
    """The median of a sum is no sum of medians: both are within the money, the start of the machine too."""
    found = suggest(None, usd, sigma=0.003, **{**FAST, **more})
    start = cost(N=2e7, D=1.0, n_gpus=1, **{**GPU, **more}).usd.value
    assert found.usd.value <= usd
    assert math.fsum(run.usd for run in found.runs) + start <= usd * (1 + 1e-6)
    assert found.usd.value > 0.85 * usd or "money_left" in {f.code for f in found.findings}


def test_runs_that_tell_next_to_nothing_are_left_out() -> None:
    """Together they would narrow the interval by 1%: the search before, with all of them, is that close."""
    from economics.next_runs import suggestion

    found = suggest(None, 50, sigma=0.003, **FAST)
    spared = next(f for f in found.findings if f.code == "runs_spared")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suggestion, "SPARED", 0.0)
        every = suggest(None, 50, sigma=0.003, **FAST)
    assert len(every.runs) == len(found.runs) + spared.evidence["runs"] > len(found.runs)
    assert math.log(found.after.value) == pytest.approx(math.log(every.after.value), rel=0.012)


def test_other_correlations_are_told() -> None:
    """The widths under 0 and 0.8 are those of the same runs; without a branch there is nothing to correlate."""
    found = suggest(identified(), 20, **FAST)
    assert list(found.by_rho) == [0.0, 0.8] and "were it 0, " in " ".join(repr(found).split())
    low, high = (found.by_rho[r].value for r in (0.0, 0.8))
    assert min(low, high) <= found.after.value <= max(low, high) and low != high
    assert [entry["rho"] for entry in found.to_dict()["by_rho"]] == [0.0, 0.8]
    single = suggest(None, 2, sigma=0.003, **{**FAST, "trunks": 1, "token_counts": ("200M", "200M")})
    assert all(run.kind == "trunk" for run in single.runs) and not single.by_rho


def test_trunks_at_hand_are_said_to_stay_as_they_are() -> None:
    runs = identified()
    trunks = table(runs.params, runs.tokens, trunk_id=[f"t{n:.0f}" for n in runs.params], params_kind="total")
    assert "own_trunks" in {f.code for f in suggest(trunks, 20, **FAST).findings}
    assert "own_trunks" not in {f.code for f in suggest(runs, 20, **FAST).findings}


def test_a_run_costs_what_cost_says() -> None:
    found = suggest(identified(), 50, **FAST)
    run = next(r for r in found.runs if r.kind == "trunk")
    layers, width, heads, ffn = (int(w) for w in run.shape.replace(",", "").split() if w.isdigit())
    arch = Arch(layers=layers, d_model=width, heads=heads, d_ff=ffn, vocab=50257)
    assert arch.params_total == run.params
    alone = cost(arch=arch, D=run.tokens, n_gpus=1, overheads={"start_hours": 0}, **GPU)
    assert run.usd == pytest.approx(alone.usd.value, rel=0.05)  # but for the storage of its data
    assert run.hours == pytest.approx(alone.wall_hours.value, rel=0.01)


def test_more_money_buys_precision_and_a_plain_grid_buys_less() -> None:
    some, more = (suggest(None, usd, sigma=0.003, rho=0.5, **FAST) for usd in (20, 80))
    assert more.after.value < some.after.value < math.inf == some.before.value
    for found in (some, more):
        assert found.grid is not None and found.grid.usd <= found.usd.value * 1.1
        assert math.log(found.after.value) < 0.9 * math.log(found.grid.precision.value)
        assert found.after.low <= found.after.value <= found.after.high
        assert len(found.grid.params) == 3 and len(found.grid.tokens) == 5


def test_a_budget_that_pays_for_nothing_says_what_would() -> None:
    with pytest.raises(BudgetError, match=r"\$0\.10 do not pay for the smallest run: .* Give more") as caught:
        suggest(None, 0.1, sigma=0.003, **FAST)
    needed = caught.value.needed_usd
    assert needed is not None and 0.1 < needed < 5
    assert len(suggest(None, needed * 1.001, sigma=0.003, **FAST).runs) == 1


def test_money_that_finds_nothing_to_buy_is_left_and_said() -> None:
    options = {**FAST, "sizes": ("20M", "40M"), "token_counts": ("200M", "800M")}
    found = suggest(None, 500, sigma=0.003, target="tokens@100M", **options)
    assert found.usd.value < 100 and "money_left" in {f.code for f in found.findings}


def test_no_run_is_longer_than_it_may_be() -> None:
    found = suggest(None, 50, sigma=0.003, max_hours="45 min", **FAST)
    assert max(run.hours for run in found.runs) <= 0.75
    with pytest.raises(DataError, match="the shortest takes"):
        suggest(None, 50, sigma=0.003, max_hours="1 s", **FAST)


# --- precision -------------------------------------------------------------------------------------


def test_the_cheapest_runs_of_a_precision_reach_it() -> None:
    loose, tight = (suggest(None, precision=x, sigma=0.002, rho=0.5, **FAST) for x in (2.0, 1.5))
    assert loose.reached and loose.after.value <= 2.0 and tight.reached and tight.after.value <= 1.5
    assert loose.usd.value < tight.usd.value
    # With a tenth less money it would be missed, or nearly.
    less = suggest(None, 0.9 * tight.usd.value, sigma=0.002, rho=0.5, **FAST)
    assert less.after.value > 1.48
    far = suggest(None, 5, precision=1.1, sigma=0.002, **FAST)
    assert not far.reached and "precision_not_reached" in {f.code for f in far.findings}
    assert "not what was asked for" in repr(far)


@pytest.mark.parametrize(
    ("target", "width"), [("a", "±"), ("loss@1B,20B", "±"), ("params@20B", "x/÷"), ("beta", "±")]
)
def test_other_targets(target: str, width: str) -> None:
    found = suggest(identified(), 20, target=target, **FAST)
    assert found.after.value < found.before.value and width in found.after.text


def test_a_target_may_be_a_function_of_a_law() -> None:
    def share_of_data(law: ChinchillaLaw) -> float:
        return float(law.tokens_exponent)

    found = suggest(identified(), 20, target=share_of_data, **FAST)
    named = suggest(identified(), 20, target="b", **FAST)
    assert found.target == "share_of_data" and found.after.value == pytest.approx(named.after.value, rel=1e-9)


def test_half_widths_are_written_as_factors_or_differences() -> None:
    tokens, loss = read_goal("tokens@1B", 0.95), read_goal("loss@1B,20B", 0.95)
    assert tokens.half_width(tokens.wanted_se(1.25)) == pytest.approx(1.25)
    assert loss.half_width(loss.wanted_se(0.02)) == pytest.approx(0.02)
    assert tokens.write(1.0912) == "x/÷ 1.091" and loss.write(0.0213) == "± 0.021"
    middle = Precision.of(tokens, [0.1, 0.2, 0.4])
    assert middle.value == pytest.approx(math.exp(1.959964 * 0.2)) and middle.low < middle.value < middle.high
    assert "open" in Precision.of(tokens, [0.1, math.inf]).text


# --- what is known ---------------------------------------------------------------------------------


def test_runs_that_identify_the_law_speak_for_themselves() -> None:
    found = suggest(identified(), 20, **FAST)
    codes = {f.code for f in found.findings}
    assert "bootstrap draws" in found.basis and "of the fit's residuals" in found.noise
    assert "prior_used" not in codes and "noise_assumed" not in codes and "correlation_assumed" in codes
    fit = fit_chinchilla(identified(), n_boot=200)
    assert suggest(fit, 20, **FAST).runs == found.runs


@pytest.mark.parametrize(
    "runs",
    [
        line(),  # D = 20 N throughout
        table([5e7, 1e8, 2e8], [1e9, 1e9, 1e9]),  # the plan as written: three runs
        table(np.geomspace(2e7, 2e8, 8), 1e9),  # one token count
        table([5e7], [1e9]),
    ],
    ids=["20N", "three runs", "one D", "one run"],
)
def test_runs_that_identify_nothing_are_no_reason_to_refuse(runs: RunTable) -> None:
    found = suggest(runs, 50, sigma=0.003, **FAST)
    assert math.isinf(found.before.value) and 1 < found.after.value < 5
    finding = next(f for f in found.findings if f.code == "prior_used")
    assert finding.severity == "warning" and "do not identify" in finding.message
    assert f"{len(runs)} run" in found.basis and "Besiroglu" in found.basis


def test_runs_at_hand_count() -> None:
    """What is known need not be bought again."""
    with_, without = (suggest(runs, 30, prior="hoffmann2022", sigma=0.003, **FAST)
                      for runs in (identified(), None))  # fmt: skip
    assert with_.after.value < without.after.value and with_.before.value < math.inf


def test_noise_is_measured_where_it_can_be_and_else_assumed_and_said() -> None:
    n = np.repeat(np.geomspace(2e7, 2e8, 6), 2)
    seeds = table(n, 20 * n, sigma=0.004 * LAW.loss(n, 20 * n))
    assert "0.40% of the loss (of the seeds" in suggest(seeds, 50, **FAST).noise
    given = suggest(line(), 50, sigma="0.5%", rho=0.2, **FAST)
    assert "0.50% of the loss (given); correlation 0.2 within a trunk (given)" == given.noise
    assumed = suggest(line(), 50, **FAST)
    finding = next(f for f in assumed.findings if f.code == "noise_assumed")
    assert finding.evidence == {"sigma": ASSUMED_SIGMA} and "(assumed)" in assumed.noise
    assert finding.message.split(":")[0] in " ".join(repr(assumed).split())


@pytest.mark.parametrize(
    "looked_at",
    [{"token_counts": "200M,200M"}, {"sizes": "20M,20M"}, {"sizes": "20M,20M", "token_counts": "1B,1B"}],
)
def test_one_size_or_one_token_count_leaves_it_open_and_says_so(looked_at: dict[str, Any]) -> None:
    found = suggest(None, 20, sigma=0.003, **{**FAST, **looked_at})
    assert len(found.runs) >= 1 and math.isinf(found.after.value)
    still = next(f for f in found.findings if f.code == "still_open")
    assert "a wider range of sizes= and token_counts=" in still.message
    beside = suggest(
        identified(), 20, **{**FAST, **looked_at}
    )  # of those at hand one or the other is no trouble
    assert beside.after.value <= beside.before.value < math.inf


def test_small_models_on_bytes_have_shapes_too() -> None:
    n, d = np.meshgrid(np.geomspace(2e5, 4e6, 5), np.geomspace(4e6, 1e8, 4))
    found = suggest(table(n, d), 2, vocab=256, target="tokens@10M", n_laws=5, **GPU)
    assert max(run.params for run in found.runs) < 2e7
    with pytest.raises(DataError, match="has a vocabulary of 50,257: give vocab="):
        suggest(table(n / 30, d), 5, **GPU)


def test_parameters_are_counted_as_the_runs_count_theirs() -> None:
    n, d = np.meshgrid(np.geomspace(2e7, 3e8, 5), np.geomspace(2e8, 1e10, 4))
    body = suggest(table(n, d, params_kind="non_embedding"), 50, **FAST)
    run = body.runs[0]
    layers, width, heads, ffn = (int(w) for w in run.shape.replace(",", "").split() if w.isdigit())
    assert (
        Arch(layers=layers, d_model=width, heads=heads, d_ff=ffn, vocab=50257).params_non_embedding
        == run.params
    )


def test_what_lies_far_out_is_said() -> None:
    far = {f.code for f in suggest(None, 10, sigma=0.003, target="tokens@100B", **FAST).findings}
    near = {f.code for f in suggest(None, 10, sigma=0.003, target="tokens@50M", **FAST).findings}
    assert "extrapolation" in far and "extrapolation" not in near


# --- refusals --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({}, "give a budget in dollars, or the precision"),
        ({"budget": -1}, "budget must be positive"),
        ({"budget": "x"}, "budget"),
        ({"budget": 50, "target": "gamma"}, r"target 'gamma' is not known: give tokens@1B"),
        ({"budget": 50, "target": "tokens@-1"}, "target 'tokens@-1' is not known"),
        ({"budget": 50, "target": 3}, "target 3 is not known"),
        ({"precision": 0.9}, "a factor above 1"),
        ({"precision": "fine", "target": "a"}, "a half-width above 0"),
        ({"budget": 50, "sigma": -0.1}, "sigma"),
        ({"budget": 50, "sigma": 0}, "sigma, the noise of a log loss, must be positive"),
        ({"budget": 50, "rho": 2}, "rho must lie between 0 and 1"),
        ({"budget": 50, "prior": "nobody"}, "'nobody'"),
        ({"budget": 50, "prior": "Kaplan joint"}, "no L"),
        ({"budget": 50, "prior": 3}, "prior must be"),
        ({"budget": 50, "sizes": "10M"}, "sizes must be a pair"),
        ({"budget": 50, "sizes": ("1B", "10M")}, "sizes must be a pair"),
        ({"budget": 50, "token_counts": 3}, "token_counts must be a pair"),
        ({"budget": 50, "vocab": 0}, "vocab"),
        ({"budget": 50, "trunks": 0}, "trunks"),
        ({"budget": 50, "quantile": 1}, "quantile"),
        ({"budget": 50, "level": 2}, "level"),
        ({"budget": 50, "N": "1B"}, "N is what suggest finds"),
        ({"budget": 50, "colour": 1}, "colour is no setting"),
        ({"budget": 50, "market": "cheap"}, "no market is called"),
        ({"budget": 50, "runs": "nowhere.csv"}, "nowhere.csv"),
    ],
)
def test_what_cannot_be(options: dict[str, Any], message: str) -> None:
    given = {"sigma": 0.003, "gpu": "A100 SXM 80GB", "draws": 100, **options}
    with pytest.raises(DataError, match=message):
        suggest(**given)


def test_an_unknown_accelerator() -> None:
    with pytest.raises(UnknownGPU):
        suggest(None, 50, gpu="A1000", sigma=0.003)
    with pytest.raises(DataError, match="give gpu"):
        suggest(None, 50, sigma=0.003)


# --- words, files, the command ---------------------------------------------------------------------


def test_it_is_written_for_people_and_for_programs(tmp_path: Any) -> None:
    found = suggest(line(), 50, sigma=0.003, **FAST)
    text = repr(found)
    assert max(map(len, text.split("\n"))) <= 120
    for words in ("runs on", "D*(1B)", "now", "with these", "plain grid", "trunk", "branch", "A100-80GB-SXM"):
        assert words in text
    document = found.to_dict()
    assert document["runs"][0]["params"] == found.runs[0].params and document["before"]["value"] == math.inf
    json.dumps({k: v for k, v in document.items() if k != "before"}, allow_nan=False)
    rows = list(csv.DictReader(io.StringIO(found.to_csv(tmp_path / "next.csv"))))
    assert (tmp_path / "next.csv").read_text() == found.to_csv()
    assert [float(row["tokens"]) for row in rows] == [run.tokens for run in found.runs]


@pytest.fixture
def runs_csv(tmp_path: Any) -> Any:
    path, runs = tmp_path / "runs.csv", identified()
    lines = [f"{n:.0f},{d:.0f},{x:.6f}" for n, d, x in zip(runs.params, runs.tokens, runs.loss, strict=True)]
    path.write_text("params,tokens,loss\n" + "\n".join(lines) + "\n")
    return path


MACHINE = ("--gpu", "A100-80GB-SXM", "--as-of", "2026-10-10", "--draws", "500")
POOL = ("--sizes", "20M,300M", "--token-counts", "200M,4B")


def test_the_command(runs_csv: Any, tmp_path: Any) -> None:
    words = (runs_csv, "--budget", "50", "--target", "tokens@1B", *MACHINE, *POOL)
    done = economics("suggest", *words, "--csv", tmp_path / "next.csv")
    assert done.exit_code == 0, done.stderr
    assert "for D*(1B): $" in done.stdout and "--rho" in done.stdout and "rho=" not in done.stdout
    document = answer("suggest", *words)
    assert document["usd"]["value"] <= 50 and document["reached"] is True
    rows = list(csv.DictReader(io.StringIO((tmp_path / "next.csv").read_text())))
    assert [float(r["usd"]) for r in rows] == pytest.approx([r["usd"] for r in document["runs"]])
    library = suggest(
        str(runs_csv),
        50,
        gpu="A100-80GB-SXM",
        as_of="2026-10-10",
        draws=500,
        seq_len="2048",
        sizes="20M,300M",
        token_counts="200M,4B",
    )
    assert document["after"]["value"] == pytest.approx(library.after.value, rel=1e-9)


def test_verdicts_of_the_command(runs_csv: Any) -> None:
    far = answer("suggest", runs_csv, "--budget", "5", "--precision", "1.01", *MACHINE, *POOL, code=1)
    assert far["reached"] is False
    poor = answer("suggest", "--budget", "0.1", "--sigma", "0.3%", *MACHINE, *POOL, code=1)
    assert poor["verdict"] == "not affordable" and poor["needed_usd"] > 0.1
    first = answer("suggest", "--budget", "20", "--sigma", "0.3%", "--market", "spot", *MACHINE, *POOL)
    assert first["before"]["value"] == "Infinity"


def test_a_saved_fit_and_a_table_by_name_are_runs_too(runs_csv: Any, tmp_path: Any) -> None:
    fit_chinchilla(runs_csv, n_boot=50).save(tmp_path / "fit.json")
    assert answer("suggest", tmp_path / "fit.json", "--budget", "20", *MACHINE, *POOL)["runs"]
    assert (
        "234 runs"
        in answer("suggest", "--builtin", "hoffmann2022", "--budget", "100", *MACHINE, *POOL)["laws"]
    )
    assert datasets.builtin("hoffmann2022").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("--budget", "50", "--target", "gamma"), "give tokens@1B"),
        (("--budget", "50", "--params", "1B"), "give --sizes and --token-counts"),
        (("--budget", "50", "--sigma", "x"), "sigma"),
        (("--budget", "50", "--where", "seed == 0"), "--where needs a table"),
        ((), "give a budget"),
        (("nowhere.csv", "--budget", "50"), "nowhere.csv"),
    ],
)
def test_bad_input_of_the_command(words: tuple[str, ...], said: str) -> None:
    done = economics("suggest", *words, *MACHINE, *POOL)
    assert done.exit_code == 2 and done.stdout == "", done.stdout
    assert said in " ".join(done.stderr.split())
