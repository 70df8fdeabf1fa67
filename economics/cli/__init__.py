"""The command ``economics``: a thin layer over the library; only this package prints."""
