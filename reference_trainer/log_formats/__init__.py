"""Formats of training logs, one small file each; `reference_trainer.training_log` chooses between them.

Every format module has ``NAME``, ``SHAPE`` (what its rows look like, for the message about a log that nobody knows),
``recognise(opened) -> bool`` and ``read(opened, ask) -> Draft``. It says what a log holds and where; nothing is
judged here.
"""
