"""The trainer runs where only torch, numpy and safetensors are installed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tests.reference_trainer.tiny_runs import assert_same, tiny, write_data

#: Everything else that the project's extras bring. Blocked: an import of any of them fails.
ABSENT = (
    "datasets", "flash_attn", "gpuhunt", "hypothesis", "jinja2", "matplotlib", "mlflow", "pandas", "platformdirs",
    "pooch", "pyarrow", "pydantic", "pynvml", "rich", "scipy", "statsmodels", "tiktoken", "tokenizers", "transformers",
    "typer",
)  # fmt: skip
BLOCK = f"""
import sys
for name in {ABSENT!r}:
    sys.modules[name] = None
from reference_trainer.train import main
sys.exit(main(sys.argv[1:]))
"""


def test_torch_numpy_and_safetensors_are_enough(tmp_path):
    data = write_data(tmp_path)
    money = dict(cap_usd=50.0, usd_per_hour=1.0, probe_every=10)
    for name, code in (("alone", BLOCK), ("with", BLOCK.replace("sys.modules[name] = None", "pass"))):
        settings = tmp_path / f"{name}.toml"
        settings.write_text(
            str(tiny(tmp_path / name / "run", data, **money, mlflow="sqlite" if name == "alone" else ""))
        )
        done = subprocess.run(
            [sys.executable, "-c", code, str(settings)], cwd=Path(__file__).parents[2], capture_output=True,
            text=True, timeout=120, check=False, env={**os.environ, "OMP_NUM_THREADS": "1"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr[-3000:]
    assert_same(tmp_path / "alone" / "run", tmp_path / "with" / "run")
