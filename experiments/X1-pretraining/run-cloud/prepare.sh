#!/usr/bin/env bash
# Make the shards of the run and put them into the bucket, once: a bucket that has them is left alone.
#
#   BUCKET=s3://name/x1 prepare.sh      # TOKENS, SOURCE and more as below
set -euo pipefail
here=$(cd "$(dirname "$0")" && pwd)
bucket=${BUCKET:?set BUCKET, such as s3://name/x1}
data=${DATA:-$HOME/x1/data}

python "$here/keep.py" get "$bucket/data" "$data"
if [ -f "$data/manifest.json" ]; then
  echo "prepare: $bucket/data is there already"
  exit 0
fi
# val-share: 0.2% of 5B tokens are 10M held out, of which the run evaluates on 1M.
python -m reference_trainer.data prepare "${SOURCE:-HuggingFaceFW/fineweb-edu}" "$data" --name "${NAME:-sample-10BT}" \
  --tokenizer "${TOKENIZER:-gpt2}" --val-share "${VAL_SHARE:-0.002}" --val-tokens "${VAL_TOKENS:-10M}" \
  --train-tokens "${TOKENS:-5.01B}" --rules "${RULES:-none}"
python "$here/keep.py" put "$data" "$bucket/data"
