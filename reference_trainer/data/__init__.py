"""From text to batches: token shards on disk, their order, and the pipeline that prepares them.

`shards` and `order` need numpy alone, which is all that training needs. `corpus`, `quality`, `tokenizers`
and `prepare` make the shards; ``python -m reference_trainer.data`` is their command.
"""

from __future__ import annotations
