"""Accelerators: exact names, dense rates, no silent stand-in, and every row of the table plausible."""

from __future__ import annotations

import csv
import pickle
from pathlib import Path

import pytest

from economics import GPU, AmbiguousGPU, DtypeError, UnknownGPU, gpu, gpus
from economics.gpu_names import from_instance, normalise, resolve
from scaling.errors import DataError

DATA = Path(__file__).parents[2] / "data" / "hardware"


def _rows(file: str) -> list[dict[str, str]]:
    with (DATA / file).open(encoding="utf-8", newline="") as stream:
        return list(csv.DictReader(stream))


SPECS = _rows("gpu_specs.csv")
ALIASES = _rows("gpu_aliases.csv")

# --- names ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("reported", "name"),
    [
        ("NVIDIA A100-SXM4-80GB", "A100-80GB-SXM"),
        ("NVIDIA A100-SXM4-40GB", "A100-40GB-SXM"),
        ("NVIDIA A100 80GB PCIe", "A100-80GB-PCIe"),
        ("NVIDIA A100-PCIE-40GB", "A100-40GB-PCIe"),
        ("NVIDIA H100 80GB HBM3", "H100-80GB-SXM"),
        ("NVIDIA H100 PCIe", "H100-80GB-PCIe"),
        ("NVIDIA H100 NVL", "H100-94GB-NVL"),
        ("NVIDIA H200", "H200-141GB-SXM"),
        ("NVIDIA H200 NVL", "H200-141GB-NVL"),
        ("NVIDIA B200", "B200-180GB-SXM"),
        ("NVIDIA GH200 480GB", "GH200-96GB"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA L40", "L40"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA A10", "A10"),
        ("NVIDIA GeForce RTX 4090", "RTX-4090"),
        ("NVIDIA RTX 6000 Ada Generation", "RTX-6000-Ada"),
        ("NVIDIA RTX A6000", "RTX-A6000"),
        ("Tesla V100-SXM2-16GB", "V100-16GB-SXM2"),
        ("Tesla T4", "T4"),
        ("AMD Instinct MI300X OAM", "MI300X"),
        ("TPU v5 lite", "TPU-v5e"),
        ("H100 SXM", "H100-80GB-SXM"),
        ("a100_80gb_sxm", "A100-80GB-SXM"),
    ],
)
def test_what_drivers_and_people_say(reported, name):
    assert gpu(reported).name == name


@pytest.mark.parametrize("row", ALIASES, ids=lambda row: row["alias"])
def test_every_alias_resolves(row):
    assert resolve(row["alias"]) == row["name"]
    assert row["kind"] in ("driver", "common", "catalog")


def test_no_spelling_stands_for_two_parts():
    seen: dict[str, str] = {}
    for spelling, name in [(r["alias"], r["name"]) for r in ALIASES] + [(n, n) for n in gpus()]:
        assert seen.setdefault(normalise(spelling), name) == name


def test_a_part_of_a_name_never_matches():
    """L40 is not L40S, A10 is not A100, and neither is found inside a longer text."""
    assert gpu("L40").peak("bf16") == 181e12
    assert gpu("L40S").peak("bf16") == 362e12
    with pytest.raises(UnknownGPU):
        gpu("a box with an L40S in it")


@pytest.mark.parametrize(
    "name", ["H100", "A100", "A100 80GB", "h100-80gb", "V100", "V100-16GB", "NVIDIA H100 80GB"]
)
def test_an_open_name_is_refused_with_all_it_may_be(name):
    with pytest.raises(AmbiguousGPU) as caught:
        gpu(name)
    assert caught.value.suggestions
    family = normalise(name)[:4]
    assert all(normalise(s).startswith(family) for s in caught.value.suggestions)
    assert all(s in str(caught.value) for s in caught.value.suggestions)


@pytest.mark.parametrize(
    ("name", "near"),
    [
        ("H100 SXM4", "H100-80GB-SXM"),
        ("A100-SXM-80", "A100-80GB-SXM"),
        ("RTX 4090 Ti", "RTX-4090"),
        ("MI300", "MI300X"),
        ("L40 S 48", "L40S"),
        ("B200 SMX", "B200-180GB-SXM"),
        ("TPU v5x", "TPU-v5p"),
    ],
)
def test_an_unknown_name_is_an_error_with_the_nearest(name, near):
    with pytest.raises(UnknownGPU) as caught:
        gpu(name)
    assert near in caught.value.suggestions
    assert name in str(caught.value)


def test_a_slice_is_no_gpu():
    with pytest.raises(UnknownGPU, match="slice"):
        gpu("NVIDIA A100-SXM4-80GB MIG 1g.10gb")


@pytest.mark.parametrize(
    "row", _rows("instance_gpus.csv"), ids=lambda row: f"{row['provider']} {row['instance']}"
)
def test_instance_types_name_parts_of_the_table(row):
    assert row["gpu"] in gpus()
    assert row["instance"] == row["instance"].casefold()
    assert from_instance(row["provider"], row["instance"].replace("*", "1").upper()) == row["gpu"]


# --- rates ----------------------------------------------------------------------------------------


def test_u41_dense_peak_neither_sparse_nor_halved_twice():
    """420 TFLOP/s on an H100 SXM is 42.5% of the dense 989, not 21% of the 1,979 of the spec sheet."""
    h100 = gpu("H100 SXM")
    assert 420e12 / h100.peak("bf16") == pytest.approx(0.4245, abs=5e-4)
    assert h100.sparse_tflops["bf16"] == pytest.approx(2 * h100.dense_tflops["bf16"], rel=1e-3)
    with pytest.raises(DataError, match="WITH sparsity"):
        gpu("H100 SXM", dense_tflops={"bf16": 1979})
    with pytest.raises(DataError, match="half the dense figure"):
        gpu("A100 SXM 80GB", dense_tflops={"bf16": 156})


def test_u42_the_peak_comes_from_the_named_gpu():
    """177,900 tokens/s at 7.44e8 FLOP a token: 42.4% on an A100, and 13% only if an H100 is assumed."""
    achieved = 177_900 * 7.44e8
    assert achieved / gpu("NVIDIA A100-SXM4-80GB").peak("bf16") == pytest.approx(0.424, abs=5e-4)
    assert achieved / gpu("NVIDIA H100 80GB HBM3").peak("bf16") == pytest.approx(0.134, abs=5e-4)


@pytest.mark.parametrize(
    ("name", "dtype", "tflops"),
    [
        ("A100-80GB-SXM", "bf16", 312),
        ("A100-80GB-SXM", "tf32", 156),
        ("H100-80GB-PCIe", "bf16", 756),
        ("H100-80GB-SXM", "fp8", 1978.9),
        ("B200-180GB-SXM", "bf16", 2250),
        ("MI300X", "torch.bfloat16", 1307.4),
        ("RTX-4090", "bf16", 165.2),  # 330 is with fp16 accumulation, 660 with sparsity too
        ("T4", "float16", 65),
        ("V100-16GB-SXM2", "half", 125),
        ("TPU-v5p", "bf16", 459),
        ("Gaudi3", "bf16", 1677),  # the whitepaper's 1835 needs a clock it does not ship with
    ],
)
def test_peaks(name, dtype, tflops):
    assert gpu(name).peak(dtype) == pytest.approx(tflops * 1e12)


@pytest.mark.parametrize("name", ["V100-16GB-SXM2", "V100-32GB-SXM2", "V100-32GB-PCIe", "T4"])
def test_volta_and_turing_have_no_bf16(name):
    with pytest.raises(DtypeError, match="no bf16") as caught:
        gpu(name).peak("bf16")
    assert caught.value.available == ("fp16", "fp32")


def test_u47_the_dtype_is_never_assumed():
    with pytest.raises(TypeError):
        gpu("H100 SXM").peak()  # type: ignore[call-arg]


def test_a_dtype_that_is_none():
    with pytest.raises(DtypeError, match="bf16, fp16, tf32"):
        gpu("L4").peak("int3")
    with pytest.raises(DtypeError, match="no fp8"):
        gpu("A100 SXM 80GB").peak("fp8")


@pytest.mark.parametrize(
    ("name", "ceiling", "share"),
    [
        ("A100 SXM 80GB", 271.2, 0.869),
        ("H100 SXM", 794.5, 0.803),
        ("B200", 1745, 0.776),
        ("MI300X", 668.4, 0.511),
    ],
)
def test_measured_ceilings(name, ceiling, share):
    """Best matrix products of stas00/ml-engineering, MAMF table."""
    part = gpu(name)
    assert part.ceiling() == pytest.approx(ceiling * 1e12)
    assert part.matmul_ceiling_tflops / part.dense_tflops["bf16"] == pytest.approx(share, abs=2e-3)
    assert part.ceiling("fp16") == part.ceiling("bf16")
    assert part.ceiling("tf32") is None if "tf32" in part.dtypes else True
    assert gpu("L4").ceiling() is None


# --- overriding and adding ------------------------------------------------------------------------


def test_overrides_are_marked_and_checked():
    capped = gpu("H100 SXM", tdp_w=500, dense_tflops={"bf16": 850})
    assert (capped.name, capped.tdp_w, capped.peak("bf16")) == ("H100-80GB-SXM", 500, 850e12)
    assert capped.peak("fp8") == gpu("H100 SXM").peak("fp8")
    assert capped.verified == "user"
    assert "given by the user: dense_tflops, tdp_w" in capped.source
    with pytest.raises(DataError, match="no field watts"):
        gpu("H100 SXM", watts=500)
    with pytest.raises(DataError, match="positive"):
        gpu("H100 SXM", tdp_w=0)
    with pytest.raises(DataError, match="TFLOP/s, got"):
        gpu("H100 SXM", dense_tflops={"bf16": 989e12})


def test_a_gpu_of_ones_own():
    mine = GPU("Rubin-288GB", memory_gb=288, dense_tflops={"bf16": 4000, "fp8": 17500}, tdp_w=1800)
    assert gpu(mine) is mine
    assert gpu(mine, tdp_w=2000).tdp_w == 2000
    assert mine.dtypes == ("bf16", "fp8")
    assert mine.ceiling() is None
    with pytest.raises(DataError, match="at least one rate"):
        GPU("nothing", memory_gb=1, dense_tflops={})
    with pytest.raises(DataError, match="is that MiB"):
        GPU("A100", memory_gb=81920, dense_tflops={"bf16": 312})


def test_a_gpu_is_a_value():
    a, b = gpu("L40S"), gpu("NVIDIA L40S")
    assert a == b
    assert hash(a) == hash(b)
    assert pickle.loads(pickle.dumps(a)) == a
    assert a.to_dict()["dense_tflops"]["bf16"] == 362
    a.dense_tflops["bf16"] = 1.0  # what one caller does to its copy does not reach another
    assert gpu("L40S").peak("bf16") == 362e12


# --- the table ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", gpus())
def test_every_row_is_plausible(name):
    part = gpu(name)
    dense = part.dense_tflops
    assert part.source
    assert part.vendor
    assert part.arch
    assert part.accumulate == "fp32"
    assert 2017 <= part.year <= 2026
    assert part.verified in ("two_sources", "one_source", "disagree")
    if part.verified == "disagree":
        assert part.note, "says what the sources disagree about"
    assert 16 <= part.memory_gb <= 288
    assert part.bandwidth_gbps is None or 300 <= part.bandwidth_gbps <= 8000
    assert part.tdp_w is None or 70 <= part.tdp_w <= 1400
    assert part.matmul_ceiling_tflops is None or 0.5 < part.matmul_ceiling_tflops / dense["bf16"] < 0.98
    # Narrower types are never slower; a 16-bit matrix rate is at least twice the plain fp32 one.
    half = dense.get("bf16") or dense["fp16"]
    assert dense.get("fp8", half) >= half
    assert dense.get("tf32", 0) <= half
    if "fp32" in dense:
        assert dense["fp32"] < dense.get("fp16", half)
    sparse = part.sparse_tflops.get("bf16")
    if sparse and part.vendor in ("NVIDIA", "AMD"):
        # 2:4 sparsity doubles the rate; NVIDIA prints 733 for the L40S, whose dense 362 doubles to 724.
        assert sparse / half == pytest.approx(2, rel=0.013)
    # A watt and a byte move within what silicon of 2017 to 2026 does.
    if part.tdp_w:
        assert 0.15 < half / part.tdp_w < 2.6, "TFLOP/s a watt"
    if part.bandwidth_gbps:
        assert 36 < half * 1e3 / part.bandwidth_gbps < 610, "FLOP a byte; the H20 is cut to 37 on purpose"


def test_sources_that_disagree_are_named():
    named = {row["name"] for row in SPECS if row["verified"] == "disagree"}
    assert named == {"A10G", "RTX-6000-Ada", "B300-288GB-SXM", "MI355X", "TPU-v3", "Gaudi2", "Gaudi3"}


def test_str_is_one_line():
    assert str(gpu("TPU v5p")) == "TPU-v5p: bf16 459, fp8 459 TFLOP/s dense, 95 GB, power not published"
