"""Finding and fetching tables: in the folder variable, over real HTTP, and every way it goes wrong."""

from __future__ import annotations

import gc
import hashlib
import socket
import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from scaling import datasets
from scaling.errors import DataError

# An HTTP error keeps its response, and so its socket, until it is collected: do that here, see below.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

CONTENT = b"Model Size,Training FLOP,loss\n1e8,1.2e19,3.0\n"


class _Server(ThreadingHTTPServer):
    hits: list[str]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[_Server]:
    """A local HTTP server of tmp_path/served that counts what it is asked for."""
    (tmp_path / "served").mkdir()
    hits: list[str] = []

    class Handler(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *args: object) -> None:
            hits.append(self.path)

    with _Server(("127.0.0.1", 0), partial(Handler, directory=str(tmp_path / "served"))) as http:
        http.hits = hits
        thread = threading.Thread(target=http.serve_forever)
        thread.start()
        yield http
        http.shutdown()
        thread.join()


@pytest.fixture
def published(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> Iterator[Callable[..., datasets.DatasetInfo]]:
    """``published(url, content)``: pretend that epoch_chinchilla was published there, with an empty cache."""
    monkeypatch.delenv(datasets.DATA_DIR_VARIABLE, raising=False)
    monkeypatch.setattr("pooch.os_cache", lambda project: tmp_path / "cache" / project)

    def publish(url: str, content: bytes = CONTENT) -> datasets.DatasetInfo:
        table = replace(
            datasets.info("epoch_chinchilla"), url=url, sha256=hashlib.sha256(content).hexdigest()
        )
        tables = {**datasets._tables(), table.name: table}
        monkeypatch.setattr(datasets, "_tables", lambda: tables)
        return table

    yield publish
    gc.collect()


def _url(server: _Server, file: str) -> str:
    return f"http://127.0.0.1:{server.server_port}/{file}"


def test_download_is_cached_and_checked(server, published, tmp_path):
    table = published(_url(server, "svg_extracted_data.csv"))
    (tmp_path / "served" / table.file).write_bytes(CONTENT)

    path = datasets.fetch("epoch_chinchilla")
    assert path == tmp_path / "cache" / "isoflop" / table.file
    assert path.read_bytes() == CONTENT
    datasets.fetch("epoch_chinchilla")
    assert len(server.hits) == 1, "the second call must come from the cache"

    path.write_bytes(b"truncated")
    assert datasets.fetch("epoch_chinchilla").read_bytes() == CONTENT
    assert len(server.hits) == 2, "a damaged cache is replaced"


def test_download_is_silent(server, published, tmp_path, capfd, caplog):
    table = published(_url(server, "svg_extracted_data.csv"))
    (tmp_path / "served" / table.file).write_bytes(CONTENT)
    datasets.fetch("epoch_chinchilla")
    assert capfd.readouterr() == ("", "")
    assert not caplog.records


def test_download_of_another_file_is_refused(server, published, tmp_path):
    table = published(_url(server, "svg_extracted_data.csv"))
    (tmp_path / "served" / table.file).write_bytes(b"not the table")
    with pytest.raises(datasets.ChecksumError) as caught:
        datasets.fetch("epoch_chinchilla")
    found = hashlib.sha256(b"not the table").hexdigest()
    assert (caught.value.expected, caught.value.found) == (table.sha256, found)
    assert table.sha256 in str(caught.value)
    assert found in str(caught.value)
    assert not list((tmp_path / "cache").rglob("*.csv")), "a wrong file must not stay in the cache"


def test_missing_on_the_server(server, published):
    published(_url(server, "gone.csv"))
    with pytest.raises(datasets.DownloadError, match="404") as caught:
        datasets.fetch("epoch_chinchilla")
    assert caught.value.url == _url(server, "gone.csv")


def test_no_network_says_what_to_do(published):
    with socket.socket() as probe:  # a port that nothing listens on
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    published(f"http://127.0.0.1:{port}/svg_extracted_data.csv")
    with pytest.raises(datasets.DownloadError) as caught:
        datasets.fetch("epoch_chinchilla")
    for needed in (str(port), "SCALING_DATA_DIR", "svg_extracted_data.csv", "hoffmann2022"):
        assert needed in str(caught.value)


def test_data_dir_comes_first(server, published, tmp_path, monkeypatch):
    table = published(_url(server, "svg_extracted_data.csv"))
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / table.file).write_bytes(CONTENT)
    monkeypatch.setenv("SCALING_DATA_DIR", str(folder))
    assert datasets.fetch("epoch_chinchilla") == folder / table.file
    assert server.hits == []

    (folder / table.file).write_bytes(CONTENT + b"2e8,1e19,2.9\n")
    with pytest.raises(datasets.ChecksumError) as caught:
        datasets.fetch("epoch_chinchilla")
    assert table.sha256 in str(caught.value)
    assert caught.value.found in str(caught.value)
    assert (folder / table.file).exists(), "a user's file is never deleted"

    (folder / table.file).unlink()
    (tmp_path / "served" / table.file).write_bytes(CONTENT)
    assert datasets.fetch("epoch_chinchilla").parent.name == "isoflop", "not in the folder: downloaded"


def test_unknown_names_suggest():
    with pytest.raises(datasets.UnknownDatasetError, match="hoffmann2022") as caught:
        datasets.info("hofmann")
    assert "hoffmann2022" in caught.value.suggestions
    with pytest.raises(datasets.UnknownDatasetError, match="cpu_markov") as caught:
        datasets.fetch("qqqqqq")
    assert caught.value.suggestions == ()
    with pytest.raises(datasets.UnknownDatasetError, match="fetch"):
        datasets.builtin("epoch_chinchilla")


@pytest.mark.parametrize("name", datasets.names())
def test_every_table_is_described(name):
    table = datasets.info(name)
    assert len(table.sha256) == 64
    assert table.source
    assert table.licence
    assert table.note
    assert name in str(table)
    assert table.licence in str(table)
    if table.url is None:
        assert datasets.fetch(name) == datasets.builtin(name)
    else:
        commit = table.source.split(" at ")[1].split()[0]
        assert len(commit) == 40
        assert commit in table.url, "the address is pinned to the commit named as source"
        assert table.url.endswith(table.file)


@pytest.mark.public_data
@pytest.mark.parametrize("name", ["epoch_chinchilla", "open_athena_isoflops"])
def test_published_files(name, public_table):
    assert len(pd.read_csv(public_table(name))) == datasets.info(name).rows


@pytest.mark.public_data
def test_chinchilla_240_is_the_published_subset(public_table):
    path = public_table("epoch_chinchilla")
    points = datasets.chinchilla_240(path)
    everything = datasets.chinchilla_240(path, drop=0)
    assert (len(points), len(everything)) == (240, 245)
    dropped = everything[~everything["run_id"].isin(points["run_id"])]
    # The analysis notebook of Besiroglu et al. names these five highest losses.
    assert sorted(dropped["run_id"]) == ["svg000", "svg001", "svg002", "svg003", "svg004"]
    assert dropped["loss"].min() > points["loss"].max()
    np.testing.assert_allclose(6 * points["params"] * points["tokens"], points["flops"], rtol=1e-12)
    assert set(points.dtypes[["params", "tokens", "flops", "loss"]]) == {np.dtype("float64")}


@pytest.mark.public_data
def test_embedded_hoffmann_is_the_stated_subset(public_table):
    """data/README.md: the 234 rows are C > 1e18 and N < D of the 245, to four digits."""
    public = datasets.chinchilla_240(public_table("epoch_chinchilla"), drop=0)
    public = public[(public["flops"] > 1e18) & (public["params"] < public["tokens"])]
    embedded = pd.read_csv(datasets.builtin("hoffmann2022"))
    assert len(embedded) == len(public) == 234

    order = ["flops", "params"]
    public = public.sort_values(order)
    # The embedded file is in order of unrounded compute: no sort of ours can repair a wrong row.
    np.testing.assert_allclose(embedded["params_total"], public["params"], rtol=5e-4)
    np.testing.assert_allclose(embedded["tokens"], public["tokens"], rtol=5e-4)
    np.testing.assert_allclose(embedded["loss"], public["loss"], atol=5.1e-5)


def test_chinchilla_240_refuses_other_files(tmp_path):
    path = tmp_path / "other.csv"
    path.write_text("x,y,loss\n1,2,3\n")
    with pytest.raises(DataError, match=r"'Model Size', 'Training FLOP'.*x, y, loss") as caught:
        datasets.chinchilla_240(path)
    assert caught.value.source == str(path)
    path.write_bytes(CONTENT)
    with pytest.raises(DataError, match="drop=1 of 1"):
        datasets.chinchilla_240(path, drop=1)
