"""Ladders of small runs, and the laws that their points give: a text, and a source whose entropy is known."""
