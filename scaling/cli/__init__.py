"""The command ``scaling``: reading arguments, showing answers, exit codes. The only part that prints."""
