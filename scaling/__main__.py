"""``python -m scaling`` and the command ``scaling``."""

from scaling.cli.app import app

if __name__ == "__main__":
    app()
