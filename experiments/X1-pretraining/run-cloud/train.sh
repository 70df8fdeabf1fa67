#!/usr/bin/env bash
# Train a100.toml on this machine, kept in the bucket: the same command on a new machine goes on with the run.
#
#   BUCKET=s3://name/x1 train.sh [key=value ...]
#
# Exit status: that of the trainer (0 finished, 75 the cap or the horizon in hours, 143 a signal, 1 and 2 faults); 74
# where the last copy into the bucket failed, 69 where the run could not be fetched.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bucket=${BUCKET:?set BUCKET, such as s3://name/x1}
data=${DATA:-$HOME/x1/data}
run=${RUN:-$HOME/x1/run}

python "$here/keep.py" get "$bucket/data" "$data"
[ -f "$data/manifest.json" ] || {
  echo "train: $bucket/data has no manifest.json: run prepare.sh first" >&2
  exit 2
}
# A machine is named by its host and its boot, so that each one's bill is counted on its own.
boot=$(cut -c1-8 /proc/sys/kernel/random/boot_id 2>/dev/null || date +%s)
exec python "$here/keep.py" run "$run" "$bucket/run" --every "${EVERY:-60}" -- \
  python -m reference_trainer.train "${CONFIG:-$here/a100.toml}" run_dir="$run" train_data="$data/train" \
  val_data="$data/val" instance="$(hostname)-$boot" "$@"
