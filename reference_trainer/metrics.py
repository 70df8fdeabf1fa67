"""What a run says about itself: the ring on the device, the logs, the pace, the line on the screen, the mirror."""

from __future__ import annotations

from reference_trainer.mlflow_mirror import Mirror as Mirror
from reference_trainer.nvml import gpu_reader as gpu_reader
from reference_trainer.perf import Perf as Perf
from reference_trainer.progress import Progress as Progress
from reference_trainer.ring import Ring as Ring
from reference_trainer.run_log import RunLog as RunLog, read_log as read_log
