"""The command line of the trainer."""
