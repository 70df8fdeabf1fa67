"""``python -m reference_trainer.data``."""

from reference_trainer.data.cli import app

if __name__ == "__main__":
    app()
