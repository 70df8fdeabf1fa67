"""``python -m economics`` and the command ``economics``."""

from economics.cli.app import app

if __name__ == "__main__":
    app()
