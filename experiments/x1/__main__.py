"""``python -m experiments.x1``: make the worked case, or go on with it where it was stopped."""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before numpy is loaded: two workers share two cores

import argparse
import importlib.util
import json
import sys
from pathlib import Path

from experiments.x1.profile import Profile, read_profile
from experiments.x1.stages import Stages, Stopped, alone, file_hash
from scaling.errors import ScalingError

#: Exit status: fine, bad input, stopped at the cap or by a signal and to be gone on with (sysexits.h: try again).
FINE, BAD, AGAIN, INTERRUPTED = 0, 2, 75, 130
_STAGES = ("corpus", "ladder", "incident", "law", "plan", "report")
_NEEDED = ("torch", "safetensors", "datasets")


def say(text: str) -> None:
    """Show a line of progress."""
    print(text, file=sys.stderr, flush=True)


def make(profile: Profile, choice: str, out: Path) -> None:
    """Make every stage that is not done.

    Parameters
    ----------
    profile : Profile
    choice : str
        Which text, see `experiments.x1.corpus.find`.
    out : pathlib.Path
        Folder of the results.
    """
    from experiments.x1 import a100, law, page

    stages, size = Stages(out, _STAGES, say), vars(profile)
    pages = profile.name != "smoke"
    missing = [name for name in _NEEDED if importlib.util.find_spec(name) is None]
    not_trained = (
        f"nothing was trained, as {', '.join(missing)} is not installed (pip install '.[train]')"
        if missing
        else ""
    )
    if missing:
        say(f"corpus, ladder, incident: {not_trained}")
        for name in ("corpus.json", "points.csv", "points.json", "incident.json"):
            (out / name).unlink(missing_ok=True)
    else:
        _train(profile, choice, out, stages)
    made = {name: file_hash(out / name) for name in ("points.csv",) if (out / name).exists()}
    stages.run("law", {"points": made, "n_boot": profile.n_boot, "pages": pages},
               lambda: law.build(out, profile.n_boot, pages))  # fmt: skip
    fit = file_hash(out / "hoffmann2022.fit.json")
    stages.run(
        "plan", {"fit": fit, "plan": file_hash(a100.PLAN), "pages": pages}, lambda: a100.build(out, pages)
    )
    about = {"command": f"X1_PROFILE={profile.name} X1_CORPUS={choice} python -m experiments.x1 --out {out}",
             "profile": profile.name, "not_trained": not_trained}  # fmt: skip
    parts = [out / "stages" / f"{name}.json" for name in _STAGES[:-1]]
    inputs = {p.stem: json.loads(p.read_text(encoding="utf-8"))["files"] for p in parts if p.exists()}
    stages.run("report", {"parts": inputs, **about, "size": size}, lambda: page.build(out, about))


def _train(profile: Profile, choice: str, out: Path, stages: Stages) -> None:
    """Make what needs torch: the shards, the ladder, the incident."""
    from experiments.x1 import corpus, incident, ladder

    texts = corpus.find(choice, out / "packages")
    if texts["missing"]:
        say(f"    only the text that ships is used: {texts['missing']}")
    stages.run("corpus", {"texts": texts, "tokenizer": profile.tokenizer, "most": profile.most_tokens},
               lambda: corpus.build(profile, texts, out, say))  # fmt: skip
    about = json.loads((out / "corpus.json").read_text(encoding="utf-8"))
    data = {"corpus": file_hash(out / "corpus.json"), "profile": vars(profile)}
    stages.run("ladder", data, lambda: ladder.build(profile, about, out))
    stages.run("incident", data, lambda: incident.build(profile, about, out, say))


def main(arguments: list[str] | None = None) -> int:
    """Read the options and make the case; return the exit status."""
    env = os.environ
    parser = argparse.ArgumentParser(prog="python -m experiments.x1", description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("out/x1"), help="folder of the results")
    parser.add_argument(
        "--profile", default=env.get("X1_PROFILE", "cpu"), help="cpu, h200, a100 (X1_PROFILE)"
    )
    text = "packages, sample, a data set as NAME:CONFIGURATION, or a local file (X1_CORPUS)"
    parser.add_argument("--corpus", default=env.get("X1_CORPUS", "packages"), help=text)
    parser.add_argument(
        "--cap-usd", type=float, default=env.get("X1_CAP_USD"), help="another cap (X1_CAP_USD)"
    )
    given = parser.parse_args(arguments)
    out = given.out.absolute()
    try:
        profile = read_profile(given.profile, cap_usd=given.cap_usd)
        with alone(out):
            make(profile, given.corpus, out)
    except (ScalingError, OSError) as error:
        say(f"error: {error}")
        return AGAIN if type(error).__name__ == "BudgetExceeded" else BAD
    except Stopped as error:
        say(str(error))
        return AGAIN
    except KeyboardInterrupt:
        say("stopped; the same command goes on.")
        return INTERRUPTED
    say(f"written: {out / 'report.html'}")
    return FINE


if __name__ == "__main__":
    sys.exit(main())
