"""Parts of the reader's guide to a training log: each finds one kind of feature and says what explains it."""
