"""Keep a run in a bucket: what a machine that is taken away leaves there can be gone on with on the next one.

    python keep.py get s3://BUCKET/data ~/data              # nothing there is no error
    python keep.py put ~/data s3://BUCKET/data
    python keep.py run ~/run s3://BUCKET/run -- COMMAND ... # fetch the run, train, copy it every minute

The run itself stays on the machine's own disk. On a mounted bucket a checkpoint would be slow to write and slower to
rename, a log could not be appended to, a lock would bind nobody, and some clouds cannot mount one. The copy is made
beside the training, so that a step never waits for it, and in an order in which it is whole at any moment: the list of
finished checkpoints is taken, then the logs are copied, which are at least as long as those checkpoints say, then the
checkpoints, each with its manifest last, and only then are those removed that the run itself has removed. A checkpoint
that was cut off on its way fails its hashes, and the one before it is taken.

Standard library alone; `s3://` goes through the command `aws` (AWS_ENDPOINT_URL names another service than Amazon's),
any other target is a folder.
"""

from __future__ import annotations

import argparse
import contextlib
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

#: Status where training ended well and its last copy could not be made, and where nothing could be fetched (EX_IOERR
#: and EX_UNAVAILABLE of sysexits.h).
NOT_COPIED, NOT_FETCHED = 74, 69
_MANIFEST, _LAST_TRIES, _PAUSE_S = "manifest.json", 3, 5.0
_LEFT_OUT = ("lock", "*.lock", ".*", "*.tmp", "*.db*")


class Store:
    """A folder in a bucket, or on a disk.

    Parameters
    ----------
    target : str
        ``s3://bucket/prefix`` or the path of a folder.
    """

    def __init__(self, target: str) -> None:
        self.target, self.remote = target.rstrip("/"), target.startswith("s3://")

    def _aws(self, *arguments: str) -> None:
        subprocess.run(["aws", "s3", *arguments, "--only-show-errors"], check=True)

    def put(self, path: Path, name: str) -> None:
        """Copy a file, whole or not at all."""
        if self.remote:
            self._aws("cp", str(path), f"{self.target}/{name}")
            return
        target = Path(self.target, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        part = target.with_name(f".{target.name}.tmp")
        shutil.copyfile(path, part)
        part.replace(target)

    def remove(self, name: str) -> None:
        """Remove a folder."""
        if self.remote:
            self._aws("rm", "--recursive", f"{self.target}/{name}/")
        else:
            shutil.rmtree(Path(self.target, name), ignore_errors=True)

    def get(self, folder: Path) -> None:
        """Copy everything into a folder; a target that is not there is empty."""
        folder.mkdir(parents=True, exist_ok=True)
        if self.remote:
            self._aws("sync", f"{self.target}/", str(folder))
        elif Path(self.target).is_dir():
            shutil.copytree(
                self.target, folder, dirs_exist_ok=True, ignore=shutil.ignore_patterns(*_LEFT_OUT)
            )

    def folders(self, name: str) -> list[str]:
        """Return the names of the folders in a folder."""
        if not self.remote:
            return sorted(p.name for p in Path(self.target, name).glob("*") if p.is_dir())
        command = ["aws", "s3", "ls", f"{self.target}/{name}/"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode and done.stderr.strip():  # 1 without a word: nothing has that prefix
            raise subprocess.CalledProcessError(done.returncode, command, stderr=done.stderr)
        rows = (line.split() for line in done.stdout.splitlines())
        return sorted(row[1].rstrip("/") for row in rows if row[:1] == ["PRE"])

    def put_all(self, folder: Path) -> None:
        """Copy everything in a folder, its manifest last."""
        files = sorted(
            (p for p in folder.rglob("*") if p.is_file()), key=lambda p: (p.name == _MANIFEST, str(p))
        )
        for path in files:
            self.put(path, path.relative_to(folder).as_posix())


class Keeper:
    """Copies a run, again and again.

    Parameters
    ----------
    run : pathlib.Path
        Its folder.
    store : Store
        Where the copy goes.
    """

    def __init__(self, run: Path, store: Store) -> None:
        self.run, self.store = run, store
        self._copied: dict[str, bytes] = {}

    def fetch(self) -> None:
        """Fetch the run, unless this machine has it: what is here is newer."""
        self._copied = {name: b"" for name in self.store.folders("checkpoints")}
        if not any((self.run / "checkpoints").glob("step_*")):
            self.store.get(self.run)
            self._copied |= self._finished()

    def _finished(self) -> dict[str, bytes]:
        """Return the finished checkpoints and what their manifests say: a step may be made again after a rollback."""
        found = {}
        for folder in sorted((self.run / "checkpoints").glob("step_*")):
            with contextlib.suppress(FileNotFoundError):  # removed while we look
                found[folder.name] = (folder / _MANIFEST).read_bytes()
        return found

    def copy(self) -> None:
        """Bring the copy up to date.

        Raises
        ------
        OSError, subprocess.CalledProcessError
            Something could not be copied. What was copied before is whole.
        """
        finished = self._finished()
        for path in sorted(self.run.glob("*")):
            if path.is_file() and not any(path.match(pattern) for pattern in _LEFT_OUT):
                self.store.put(path, path.name)
        for name, manifest in finished.items():
            if self._copied.get(name) == manifest:
                continue
            if name in self._copied:
                self.store.remove(f"checkpoints/{name}")
            folder = self.run / "checkpoints" / name
            for path in sorted(folder.iterdir(), key=lambda p: p.name == _MANIFEST):
                self.store.put(path, f"checkpoints/{name}/{path.name}")
            self._copied[name] = manifest
        for name in set(self._copied) - set(finished):
            self.store.remove(f"checkpoints/{name}")
            del self._copied[name]

    def try_copy(self) -> bool:
        """Copy, and return whether it worked: training goes on without."""
        try:
            self.copy()
        except (OSError, subprocess.CalledProcessError) as error:
            print(f"keep: not copied this time: {error}", file=sys.stderr, flush=True)
            return False
        return True


def train(keeper: Keeper, command: list[str], every: float) -> int:
    """Fetch the run, run the command, copy until it ends and once more; return its exit status.

    Signals are passed on: the command saves and ends, and what it saved is copied.
    """
    try:
        keeper.fetch()
    except (OSError, subprocess.CalledProcessError) as error:  # to begin anew here would be another run
        print(f"keep: nothing is trained, as the run cannot be fetched: {error}", file=sys.stderr)
        return NOT_FETCHED
    child = subprocess.Popen(command)
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda received, _: child.send_signal(received))
    due = time.monotonic() + every
    while child.poll() is None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(timeout=max(due - time.monotonic(), 0.01))
        if child.returncode is None and time.monotonic() >= due:
            keeper.try_copy()
            due = time.monotonic() + every
    status = child.returncode if child.returncode >= 0 else 128 - child.returncode
    for attempt in range(_LAST_TRIES):
        if keeper.try_copy():
            return status
        time.sleep(_PAUSE_S if attempt < _LAST_TRIES - 1 else 0)
    return status or NOT_COPIED


def main(arguments: list[str]) -> int:
    """Run one of the three; return the exit status."""
    before, found, command = arguments, False, []
    if "--" in arguments:
        found = True
        at = arguments.index("--")
        before, command = arguments[:at], arguments[at + 1 :]
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("what", choices=("get", "put", "run"))
    parser.add_argument("source", help="bucket to get from, or folder to put or to run in")
    parser.add_argument("target", help="folder to get into, or bucket to put into or to keep the run in")
    parser.add_argument("--every", type=float, default=60.0, help="seconds between copies of a run")
    given = parser.parse_args(before)
    if (given.what == "run") != found or (found and not command):
        parser.error("run, and nothing else, takes a command after --")
    if given.what == "get":
        Store(given.source).get(Path(given.target))
    elif given.what == "put":
        Store(given.target).put_all(Path(given.source))
    else:
        return train(Keeper(Path(given.source), Store(given.target)), command, given.every)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
