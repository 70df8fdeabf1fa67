"""The worked case from end to end: text, a ladder of runs, a law, its prediction, its cost, an incident, one page."""
