#!/usr/bin/env bash
# What the trainer does on one GPU, in at most 8 minutes: speed and MFU at ~48M and 124M, resume, veto of NaN.
#
#   experiments/X1-pretraining/gpu_check.sh            # results in $OUT, or out/gpu_check
#   experiments/X1-pretraining/gpu_check.sh --smoke    # seconds, also on a CPU: that it runs, nothing about speed
#
# Needs torch (CUDA), numpy and safetensors; PYTHON= chooses the interpreter, LIMIT= the seconds it may take.
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
out=${OUT:-$root/out/gpu_check}
limit=${LIMIT:-470}
python=${PYTHON:-python3}

"$python" -c 'import sys, importlib.util as u; sys.exit(not all(map(u.find_spec, ("numpy", "safetensors", "torch"))))' || {
  echo "gpu_check: $python needs torch, numpy and safetensors: pip install torch numpy safetensors" >&2
  exit 2
}
# Everything found is on the disk after every part: a stop from outside loses the part under way alone.
export PYTHONPATH="$root${PYTHONPATH:+:$PYTHONPATH}" PYTHONUNBUFFERED=1
status=0
timeout --kill-after=5 "$limit" "$python" "$here/gpu_check.py" --out "$out" --seconds $((limit - 20)) "$@" || status=$?
[ ! -f "$out/gpu_check.md" ] || cat "$out/gpu_check.md"
[ "$status" -ne 124 ] || echo "gpu_check: stopped after $limit s; what was measured by then is in $out" >&2
exit "$status"
