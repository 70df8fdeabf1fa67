"""A page for a decision: what the runs say, what the money buys, what may go wrong, which runs to make next."""
