"""Logs as the public programs print them, made up here: a few rows of each, and a run of any length."""

from __future__ import annotations

import numpy as np

NANOGPT = """\
tokens per iteration will be: 491,520
found vocab_size = 50304 (inside data/openwebtext/meta.pkl)
step 0: train loss 10.9885, val loss 10.9897
iter 0: loss 10.9893, time 40418.22ms, mfu -100.00%
iter 10: loss 9.7512, time 1203.11ms, mfu 41.02%
iter 20: loss nan, time 1201.90ms, mfu 41.04%
step 20: train loss 8.5211, val loss 8.5303
saving checkpoint to out
iter 30: loss 7.9021, time 1.20s, mfu 41.05%
"""

LLMC_SCREEN = """\
+-----------------------+----------------------------------------------------+
| total_batch_size      | 524288                                             |
+-----------------------+----------------------------------------------------+
val loss 11.009135
step    1/19560 | loss 11.009120 (+nanz)| norm 15.3720 (+nanz)| lr 8.57e-07 | 3056.36 ms | 41.2% bf16 MFU | 171540 tok/s
step    2/19560 | loss 10.959812 (+nanz)| norm 15.2411 (+nanz)| lr 1.71e-06 | 2996.02 ms | 42.0% bf16 MFU | 174995 tok/s
step    3/19560 | loss 10.855603 (-1.20z)| norm 14.8402 (-0.85z)| lr 2.57e-06 | 2995.51 ms | -100.0% MFU | 175K tok/s
val loss 10.801200
"""

LLMC_FILE = """\
s:0 tel:11.0091
s:0 trl:11.0091 lr:0.000001 norm:15.37
s:1 trl:10.9598 lr:0.000002 norm:15.24
s:2 trl:inf lr:0.000003 norm:inf
s:250 tel:6.6480
s:250 eval:0.2513
"""

SPEED_RUN = """\
step:0/5100 val_loss:10.8258 train_time:0ms step_avg:nanms
step:1/5100 train_loss:15.9929 train_time:265ms step_avg:nanms
step:2/5100 train_loss:9.8606 train_time:416ms step_avg:nanms
"""

MEGATRON = """\
> setting tensorboard ...
[default7]: iteration    31213/  115311 | consumed samples: 52104960 | consumed tokens: 106710958080 | elapsed\
 time per iteration (s): 104.8 | learning rate: 5.279E-05 | global batch size:  2048 | lm loss: 2.205034E+00 | \
grad norm: 0.164 | number of skipped iterations:   0 | number of nan iterations:   0 | samples per second: 19.53 |
[default7]: iteration    31214/  115311 | consumed samples:     52107008 | consumed tokens: 106715152384 | elapsed\
 time per iteration (s): 104.71 | learning rate: 5.279E-05 | global batch size:  2048 | loss scale: 4096.0 | grad norm:\
 0.164 | number of skipped iterations:   1 | number of nan iterations:   0 | samples per second: 19.55 |
[default7]: iteration    31215/  115311 | consumed samples:     52109056 | consumed tokens: 106719346688 | elapsed\
 time per iteration (s): 104.9 | learning rate: 5.279E-05 | number of skipped iterations:   0 | \
number of nan iterations:   1 | samples per second: 19.523 |
------------------------------------------------------------------------------------------
 validation loss at iteration 31215 | lm loss value: 2.342049E+00 | lm loss PPL: 1.040253E+01 |
"""

NEOX = """\
 samples/sec: 1281.432 | iteration     1000/  143000 | elapsed time per iteration (ms): 799.1 | learning rate: \
4.196E-04 | approx flops per GPU: 128.7TFLOPS | lm_loss: 4.302116E+00 | loss scale: 65536.0 | number of skipped \
iterations:   0 | number of nan iterations:   0 |
 samples/sec: 1279.020 | iteration     1010/  143000 | elapsed time per iteration (ms): 800.6 | learning rate: \
4.238E-04 | approx flops per GPU: 128.5TFLOPS | lm_loss: 4.289917E+00 | loss scale: 65536.0 | number of skipped \
iterations:   0 | number of nan iterations:   0 |
 validation results at iteration 1010 | lm_loss value: 4.301000E+00 | lm_loss_ppl value: 7.377000E+01 |
"""

TORCHTITAN = """\
[rank0]:2025-03-01 10:00:00,001 - root - INFO - \x1b[31mstep:  1  \x1b[32mloss:  8.1309  \x1b[33mgrad_norm:  1.4521  \
\x1b[36mmemory: 36.14GiB(45.6%)  \x1b[34mtps: 1,234  \x1b[35mmfu: 6.15%\x1b[39m
[rank0]:2025-03-01 10:00:09,501 - root - INFO - \x1b[31mstep: 10  \x1b[32mloss:  7.6002  \x1b[33mgrad_norm:  3.9120  \
\x1b[36mmemory: 36.14GiB(45.6%)  \x1b[34mtps: 9,876  \x1b[35mmfu: 41.20%\x1b[39m
"""

BUILD_NANOGPT = """\
loaded 9 shards for split train
validation loss: 10.9510
step     0 | loss: 10.955029 | lr 8.3916e-07 | norm: 15.3667 | dt: 1330.22ms | tok/sec: 394138.45
step     1 | loss: 10.906954 | lr 1.6783e-06 | norm: 14.8921 | dt: 339.13ms | tok/sec: 1545992.11
"""

LITGPT = """\
Epoch 1 | iter 40 step 10 | loss train: 9.821, val: n/a | iter time: 350.12 ms (step)
Epoch 1 | iter 80 step 20 | loss train: 8.911, val: n/a | iter time: 349.90 ms (step)
"""

FAIRSEQ = """\
2022-01-04 10:00:00 | INFO | train_inner | {"epoch": 1, "update": 0.022, "loss": "15.052", "ppl": "33967.3", \
"wps": "11941.9", "num_updates": "10", "lr": "7.3e-06", "gnorm": "27.354", "loss_scale": "16", "wall": "259"}
2022-01-04 10:02:00 | INFO | train_inner | {"epoch": 1, "update": 0.044, "loss": "13.010", "ppl": "8249", \
"wps": "12010.1", "num_updates": "20", "lr": "1.4e-05", "gnorm": "9.113", "loss_scale": "16", "wall": "379"}
"""

METRICS = """\
run_id,key,value,step,timestamp
ab12,loss,5.0,1,1700000000
ab12,grad_norm,2.0,1,1700000000
ab12,loss,4.5,2,1700000002
ab12,loss,4.6,1,1700000900
ab12,eval_loss,4.9,2,1700000003
"""

OLMO = """\
[2024-04-17 09:42:26] INFO     [olmo.train:816, rank=0] [step=1/739328]
    train/CrossEntropyLoss=11.25
    train/Perplexity=76,631
    throughput/total_tokens=4,194,304
    System/Peak GPU Memory (MB)=42,133
[2024-04-17 09:42:38] INFO     [olmo.train:816, rank=0] [step=2/739328]
    train/CrossEntropyLoss=10.73
    train/Perplexity=45,773
    optim/total_grad_norm=1.25
    throughput/total_tokens=8,388,608
    throughput/device/tokens_per_second=45,538
[2024-04-17 09:43:38] INFO     [olmo.eval:91, rank=0] pile-validation
    eval/pile-validation/CrossEntropyLoss=10.51
    eval/pile-validation/Perplexity=36,680
"""

OLMO_CSV = """\
_step,train/CrossEntropyLoss,train/Perplexity,optim/total_grad_norm,optim/learning_rate_group0,throughput/total_tokens
1,11.25,76879.9,4.18,1.5e-07,4194304
2,10.73,45706.7,4.02,3.0e-07,8388608
"""

WANDB = """\
"Step","brisk-owl-7 - train/loss","brisk-owl-7 - train/loss__MIN","brisk-owl-7 - train/loss__MAX",\
"calm-elk-8 - train/loss","calm-elk-8 - train/loss__MIN","calm-elk-8 - train/loss__MAX"
"10","10.1","10.0","10.2","","",""
"20","9.1","9.1","9.1","10.4","10.4","10.4"
"30","8.4","8.0","12.5","9.6","9.6","9.6"
"""


def curve(n: int, *, seed: int = 0, noise: float = 0.03, start: int = 0) -> np.ndarray:
    """A healthy loss of `n` steps from step `start` on: a power law down to 3 nats, with noise."""
    step = np.arange(start, start + n)
    return 3.0 + 7.0 * (1 + step / 20.0) ** -0.7 + noise * np.random.default_rng(seed).normal(size=n)


def csv(**columns: np.ndarray) -> str:
    """A table with a header, numbers as `repr` writes them."""
    names = list(columns)
    rows = zip(*(columns[name] for name in names), strict=True)
    return "\n".join([",".join(names), *(",".join(f"{x:.10g}" for x in row) for row in rows)]) + "\n"


def nan_equal(found, expected):
    """Fail where two columns differ; NaN equals NaN."""
    np.testing.assert_allclose(np.asarray(found, float), np.asarray(expected, float), rtol=1e-12)


def codes(log):
    """What reading a log found, by code."""
    return {finding.code for finding in log.findings}
