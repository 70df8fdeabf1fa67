"""Which runs to make next: what is known, what could be made, what it costs, and the set that tells most."""
