"""Refresh sha256 and rows in every data/*/manifest.json: run ``make manifest`` after changing a table."""

import csv
import gzip
import hashlib
import json
from pathlib import Path


def main() -> None:
    """Rewrite the manifests in place; an entry must exist, a table without one is an error."""
    for manifest in sorted(Path(__file__).parent.glob("*/manifest.json")):
        entries = json.loads(manifest.read_text(encoding="utf-8"))
        missing = {p.name for p in manifest.parent.iterdir() if p.suffix in (".csv", ".gz")} - {
            e["file"] for e in entries.values()
        }
        if missing:
            raise SystemExit(f"{manifest}: add entries (source, licence, date, note) for {sorted(missing)}")
        for entry in entries.values():
            if "url" in entry:  # a public table: not here, its hash is the authors'
                continue
            raw = (manifest.parent / entry["file"]).read_bytes()
            entry["sha256"] = hashlib.sha256(raw).hexdigest()
            if entry["file"].endswith(".jsonl.gz"):
                entry["rows"] = gzip.decompress(raw).count(b"\n")
            else:
                entry["rows"] = sum(1 for _ in csv.DictReader(raw.decode("utf-8").splitlines()))
        manifest.write_text(json.dumps(entries, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
