"""One law per file: pure functions, frozen dataclasses, and what the solver needs of each."""
