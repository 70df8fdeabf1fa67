"""Scaling laws with honest intervals.

Read a table of training runs, fit L(N, D) = E + A/N^alpha + B/D^beta, and say which parameters and
tokens are compute-optimal, how sure that is, and what the data leave open.

Everything here loads on first use: ``import scaling`` costs next to nothing, and
``from scaling import fit_chinchilla`` needs numpy alone until the first call.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import scaling.datasets as datasets
    import scaling.design as design
    import scaling.isoflop as isoflop
    import scaling.optima as optima
    import scaling.profile as profile
    import scaling.published as published
    import scaling.sensitivity as sensitivity
    from scaling import plots as plots
    from scaling.answers import Optimum as Optimum
    from scaling.architecture import Arch as Arch
    from scaling.audit import Audit as Audit
    from scaling.compare import compare_laws as compare_laws
    from scaling.coupled import fit_coupled as fit_coupled
    from scaling.data_constrained import (
        fit_data_constrained as fit_data_constrained,
        fit_repetition_penalty as fit_repetition_penalty,
    )
    from scaling.errors import (
        BootstrapWarning as BootstrapWarning,
        DataError as DataError,
        DataWarning as DataWarning,
        ExtrapolationWarning as ExtrapolationWarning,
        IdentificationWarning as IdentificationWarning,
        NotIdentifiedError as NotIdentifiedError,
        ScalingError as ScalingError,
        ScalingWarning as ScalingWarning,
        TooFewRunsError as TooFewRunsError,
        UnitError as UnitError,
    )
    from scaling.estimate import Estimate as Estimate
    from scaling.findings import Finding as Finding
    from scaling.fit import fit_chinchilla as fit_chinchilla
    from scaling.flops import (
        flops_per_token as flops_per_token,
        hardware_flops_per_token as hardware_flops_per_token,
        training_flops as training_flops,
    )
    from scaling.foresight import leave_future_out as leave_future_out
    from scaling.isoflop import fit_isoflop as fit_isoflop
    from scaling.law_fit import LawFit as LawFit
    from scaling.law_names import fit_law as fit_law
    from scaling.laws.chinchilla import ChinchillaLaw as ChinchillaLaw
    from scaling.laws.coupled import CoupledLaw as CoupledLaw
    from scaling.laws.data_constrained import DataConstrainedLaw as DataConstrainedLaw
    from scaling.laws.overtraining import OvertrainingLaw as OvertrainingLaw
    from scaling.laws.penalty import RepetitionPenaltyLaw as RepetitionPenaltyLaw
    from scaling.other_laws import fit_kaplan as fit_kaplan, fit_power_law as fit_power_law
    from scaling.overtraining import fit_overtraining as fit_overtraining
    from scaling.published_archs import (
        UnknownArchError as UnknownArchError,
        arch as arch,
        arch_names as arch_names,
    )
    from scaling.result import ChinchillaFit as ChinchillaFit
    from scaling.shapes import ShapeError as ShapeError, solve_shape as solve_shape
    from scaling.table import RunTable as RunTable, load_runs as load_runs

    __version__: str

#: Public name -> module that defines it. A name equal to the last part of its module is that module.
_EXPORTS = {
    "Arch": "scaling.architecture",
    "Audit": "scaling.audit",
    "BootstrapWarning": "scaling.errors",
    "ChinchillaFit": "scaling.result",
    "ChinchillaLaw": "scaling.laws.chinchilla",
    "CoupledLaw": "scaling.laws.coupled",
    "DataConstrainedLaw": "scaling.laws.data_constrained",
    "DataError": "scaling.errors",
    "DataWarning": "scaling.errors",
    "Estimate": "scaling.estimate",
    "ExtrapolationWarning": "scaling.errors",
    "Finding": "scaling.findings",
    "IdentificationWarning": "scaling.errors",
    "LawFit": "scaling.law_fit",
    "NotIdentifiedError": "scaling.errors",
    "Optimum": "scaling.answers",
    "OvertrainingLaw": "scaling.laws.overtraining",
    "RepetitionPenaltyLaw": "scaling.laws.penalty",
    "RunTable": "scaling.table",
    "ScalingError": "scaling.errors",
    "ScalingWarning": "scaling.errors",
    "ShapeError": "scaling.shapes",
    "TooFewRunsError": "scaling.errors",
    "UnitError": "scaling.errors",
    "UnknownArchError": "scaling.published_archs",
    "arch": "scaling.published_archs",
    "arch_names": "scaling.published_archs",
    "compare_laws": "scaling.compare",
    "datasets": "scaling.datasets",
    "design": "scaling.design",
    "fit_chinchilla": "scaling.fit",
    "fit_coupled": "scaling.coupled",
    "fit_data_constrained": "scaling.data_constrained",
    "fit_isoflop": "scaling.isoflop",
    "fit_kaplan": "scaling.other_laws",
    "fit_law": "scaling.law_names",
    "fit_overtraining": "scaling.overtraining",
    "fit_power_law": "scaling.other_laws",
    "fit_repetition_penalty": "scaling.data_constrained",
    "flops_per_token": "scaling.flops",
    "hardware_flops_per_token": "scaling.flops",
    "isoflop": "scaling.isoflop",
    "leave_future_out": "scaling.foresight",
    "load_runs": "scaling.table",
    "optima": "scaling.optima",
    "plots": "scaling.plots",
    "profile": "scaling.profile",
    "published": "scaling.published",
    "sensitivity": "scaling.sensitivity",
    "solve_shape": "scaling.shapes",
    "training_flops": "scaling.flops",
}

__all__ = sorted((*_EXPORTS, "__version__"))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        value: Any = _version()
    elif name in _EXPORTS:
        module = import_module(_EXPORTS[name])
        value = module if _EXPORTS[name] == f"{__name__}.{name}" else getattr(module, name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def _version() -> str:
    """Version of the installed distribution, or of the checkout where nothing is installed."""
    from importlib.metadata import PackageNotFoundError, version
    from pathlib import Path

    try:
        return version("isoflop")
    except PackageNotFoundError:
        import tomllib

        project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())
        return str(project["project"]["version"])
