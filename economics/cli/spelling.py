"""Python names in the library's messages, written as someone at a command line would type them."""

from __future__ import annotations

import re
import shlex

from scaling.cli.output import as_options

#: Functions that messages name -> the command that does the same.
_COMMANDS = {
    "add_price": "economics prices add",
    "refresh_prices": "economics prices refresh",
    "import_skypilot": "economics prices import-skypilot",
    "gpus": "economics gpus",
}
_CALL = re.compile(rf"\b({'|'.join(_COMMANDS)})\([^()]*\)")
_MAPPING = re.compile(r"\b(overheads|spot|energy)=\{([^{}]*)\}")
_ARGUMENTS = (
    "act_ckpt|as_of|book|checkpoint_every|code_base|convention|draws|dtype|energy|gpu|gpus_per_instance|"
    "include_hostless|market|max_hours|mfu|mfu_kind|n_gpus|overheads|price|prior|provider|pue|quantile|region|rho|seed|"
    "seq_len|sigma|sizes|spot|token_counts|trunks|up_to|vocab|watts"
)
_VALUE = re.compile(rf"(?<!--energy )\b({_ARGUMENTS})=('[^']*'|\"[^\"]*\"|\.\.\.|True\b|\$?[\w.%+-]*[\w%]|)")
#: An argument of two words that a message begins with.
_START = re.compile(
    r"^(act_ckpt|checkpoint_every|code_base|deadline_hours|max_hours|mfu_kind|n_gpus|serve_tokens|seq_len|token_counts|"
    r"unique_tokens|up_to|worth_share)\b(?![=(.])"
)
_NAMES = {"N": "params", "D": "tokens", "N_active": "active-params"}
_GIVE = re.compile(r"\b([Gg]ive) (N_active|N|D|gpu|n_gpus|arch|region|price|convention|seq_len)\b(?!\*)")


def as_commands(text: str) -> str:
    """Write Python names of a message as options and commands; those of tables as `scaling` writes them.

    Examples
    --------
    >>> as_commands("overheads={'ablations': 1.0} adds; region='FRA' narrows it; give n_gpus=8; gpus() lists all")
    '--overheads ablations=1.0 adds; --region FRA narrows it; give --n-gpus 8; `economics gpus` lists all'
    >>> as_commands("add_price(...) keeps it, and price=... in cost() uses it once; give N or arch")
    '`economics prices add` keeps it, and --price uses it once; give --params or arch'
    >>> as_commands("price=$28 is that of a node; energy={'watts': ...} takes power")
    '--price 28 is that of a node; --energy watts= takes power'
    >>> as_commands("deadline_hours must be hours; say which: columns={'loss': 'val'}")
    '--deadline-hours must be hours; say which: --columns loss=val'
    >>> as_commands("24 runs would give D*(1B) x/1.2")
    '24 runs would give D*(1B) x/1.2'
    """
    text = _START.sub(lambda m: f"--{m[1].replace('_', '-')}", as_options(text))
    text = _CALL.sub(lambda m: f"`{_COMMANDS[m[1]]}`", text).replace(" in cost()", "")
    text = _MAPPING.sub(_mapping, text)
    text = _VALUE.sub(_single, text)
    return _GIVE.sub(lambda m: f"{m[1]} --{_NAMES.get(m[2], m[2].replace('_', '-'))}", text)


def _mapping(match: re.Match[str]) -> str:
    pairs = [part.split(":", 1) for part in match[2].split(",") if ":" in part]
    words = [(key.strip(" '\""), value.strip(" '\"")) for key, value in pairs]
    return " ".join(f"--{match[1]} {key}{'=' + value if value != '...' else '='}" for key, value in words)


def _single(match: re.Match[str]) -> str:
    flag, value = f"--{match[1].replace('_', '-')}", match[2]
    if value[:1] in ("'", '"'):
        value = shlex.quote(value[1:-1])
    return flag if value in ("", "...", "True") else f"{flag} {value.removeprefix('$')}"
