"""Published fits of public tables, made again: one script and one page each."""
