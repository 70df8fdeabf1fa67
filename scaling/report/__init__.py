"""One page for a person who plans a run: the answer first, then what it rests on."""

from scaling.report.build import Origin, Report, build_report

__all__ = ["Origin", "Report", "build_report"]
