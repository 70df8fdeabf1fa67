"""Tables with one number a row: ``key, value, step``, as mlflow and TensorBoard hand out metrics."""

from __future__ import annotations

import numpy as np

from reference_trainer.log_formats.spellings import plain
from scaling.cells import labels_of
from scaling.reading.formats import Raw

_KEYS = frozenset({"key", "metric", "metric_name", "tag"})
_OF_ROWS = frozenset({"run", "run_id", "run_name", "timestamp", "wall_time"})


def widen(raw: Raw) -> Raw:
    """Return a table with a column for each key and a row for each step, or the table itself if it is not long.

    A key that comes again for a step starts another row: the run went back. Rows have the line of their first number.
    """
    names = {plain(name): name for name in raw.columns}
    key = next((names[name] for name in names if name in _KEYS), None)
    if key is None or "value" not in names or "step" not in names:
        return raw
    keys, steps = labels_of(raw.columns[key]), raw.columns[names["step"]]
    values = raw.columns[names["value"]]
    beside = [names[name] for name in names if name in _OF_ROWS]
    rows: list[dict[str, object]] = []
    lines: list[int] = []
    at: dict[tuple[object, ...], dict[str, object]] = {}
    runs = [raw.columns[name] for name in beside if plain(name).startswith("run")]
    for i, name in enumerate(keys.tolist()):
        place = (str(steps[i]), *(str(run[i]) for run in runs))
        row = at.get(place)
        if row is None or name in row:
            row = at[place] = {
                names["step"]: steps[i],
                **{column: raw.columns[column][i] for column in beside},
            }
            rows.append(row)
            lines.append(int(raw.row[i]))
        row[str(name)] = values[i]
    columns = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        cells = np.empty(len(rows), dtype=object)
        cells[:] = [row.get(name) for row in rows]
        columns[name] = cells
    wide = np.array(lines, dtype=np.int64)
    return Raw(columns, wide, raw.row_word, raw.source, {}, list(raw.findings), delimiter=raw.delimiter)
