"""The package as a whole: lazy, and no public name hidden by a module of the same name."""

from __future__ import annotations

from pathlib import Path

import economics


def test_no_public_function_shares_its_name_with_a_module():
    """Importing the module `economics.x` binds it as `economics.x`: a function `x` would be gone from then on."""
    modules = {path.stem for path in Path(economics.__file__).parent.glob("*.py")}
    assert not {
        name for name, home in economics._EXPORTS.items() if name in modules and home != f"economics.{name}"
    }
    assert not {name for name in economics.__all__ if name in modules}
