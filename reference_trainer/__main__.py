"""``python -m reference_trainer`` and the command ``reference_trainer``."""

from reference_trainer.cli.app import app

if __name__ == "__main__":
    app()
