"""Parts of a post-mortem: what was measured, what was done, what it cost, how it looks."""
