"""Fixtures and reporting that every test can use."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from scaling import datasets


@cache
def _find(name: str) -> Path | str:
    """Path of a public table, or why there is none: asked once a session, so a dead network is met once."""
    try:
        return datasets.fetch(name)
    except datasets.DownloadError as error:
        return str(error)


@pytest.fixture
def public_table(request: pytest.FixtureRequest) -> Callable[[str], Path]:
    """``public_table(name)``: the path of a table that does not ship, for tests marked ``public_data``."""
    if request.node.get_closest_marker("public_data") is None:
        pytest.fail("mark a test that uses public_table with @pytest.mark.public_data")

    def find(name: str) -> Path:
        found = _find(name)
        if isinstance(found, str):
            pytest.skip(f"{datasets.info(name).file} is not at hand: {found}")
        return found

    return find


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say loudly which tests could not run because a public table is missing."""
    missing = [r for r in terminalreporter.stats.get("skipped", []) if "public_data" in r.keywords]
    if not missing:
        return
    terminalreporter.section("NOT TESTED: public tables missing", sep="!", red=True, bold=True)
    for report in missing:
        terminalreporter.line(f"  {report.nodeid}", red=True)
    terminalreporter.line(
        f"{len(missing)} tests did not run. Set {datasets.DATA_DIR_VARIABLE} to a folder with "
        "svg_extracted_data.csv and isoflops.csv (scaling.datasets says where they come from).",
        red=True,
    )
