"""Train a decoder-only language model: the whole run, top to bottom, in one file.

    python -m reference_trainer.train config.toml lr=3e-3 tokens=100M
    torchrun --nproc-per-node 8 -m reference_trainer.train config.toml

Everything that decides a number is a pure function of the step: which tokens are read, the learning rate, the
dropout masks. So a resumed run equals an uninterrupted one bit for bit, watching a run changes nothing, and a
cooldown branched off a trunk is the run made from scratch. Needs torch, numpy and safetensors.
"""

from __future__ import annotations

import math
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import Tensor, nn

from reference_trainer import checkpoint, machine
from reference_trainer.cli.launch import launch
from reference_trainer.config_check import HORIZON, check, check_data
from reference_trainer.data.order import Batches
from reference_trainer.data.shards import TokenSet
from reference_trainer.errors import ResumeError
from reference_trainer.hooks import Observer
from reference_trainer.inject import Faults
from reference_trainer.interventions import batch_at, intervention, lr_factor_at, not_before
from reference_trainer.limits import Limits
from reference_trainer.machine import Place
from reference_trainer.operation import Operation
from reference_trainer.probe import norms
from reference_trainer.recorder import Recorder
from reference_trainer.run_folder import RunFolder
from reference_trainer.signals import Stop
from reference_trainer.snapshots import Snapshots
from reference_trainer.state import State
from reference_trainer.watch import observer_of
from scaling.architecture import Arch

# ------------------------------------------------------------------------------------------------ configuration


@dataclass(frozen=True, kw_only=True)
class Config(Operation):
    """What decides the weights. How a run is watched, saved and paid for is in `Operation`."""

    # model
    layers: int = 8
    d_model: int = 512
    heads: int = 8
    kv_heads: int = 0  # 0: as many as heads
    d_ff: int = 0  # 0: 8/3 of d_model, up to a multiple of 16
    vocab: int = 0  # 0: that of the data
    tied: bool = True
    qk_norm: bool = False
    rope_base: float = 10_000.0
    dropout: float = 0.0
    init_std: float = 0.02  # of embedding and head; the matrices of blocks start at 1/sqrt(fan in)
    mup: bool = False
    mup_base_width: int = 256  # the width at which muP changes nothing
    mup_base_head_dim: int = 64
    # optimisation
    seq_len: int = 1024
    batch_seqs: int = 64
    micro_seqs: int = 0  # sequences of a forward pass in one process; 0: all of its share
    lr: float = 3e-3
    warmup_tokens: float = 1e6
    cooldown: float = 0.2  # share of the run in which the rate falls linearly to lr_end * lr
    lr_end: float = 0.0
    beta1: float = 0.9
    beta2: float = 0.95
    eps: float = 1e-8
    weight_decay: float = 0.1  # on matrices; times the rate
    clip: float = 1.0  # of the global gradient norm
    z_loss: float = 0.0
    seed: int = 0
    precision: str = "auto"  # bf16: autocast, weights and optimizer stay fp32
    inject: str = ""  # faults on purpose, to rehearse: "lr_spike@600x5:100; random_labels@700x20"
    # horizon: whichever ends first, the cooldown inside it
    tokens: float = math.inf
    hours: float = math.inf
    usd: float = math.inf

    def __post_init__(self) -> None:
        super().__post_init__()
        check(self)

    def arch(self, vocab: int) -> Arch:
        """Return the shape for data of this vocabulary, with its exact counts of parameters and FLOPs."""
        return Arch(
            layers=self.layers, d_model=self.d_model, heads=self.heads, kv_heads=self.kv_heads or self.heads,
            d_ff=self.d_ff or -(-self.d_model * 8 // 3 // 16) * 16, vocab=self.vocab or vocab, tied=self.tied,
            qk_norm="head" if self.qk_norm else "none",
        )  # fmt: skip

    @property
    def step_tokens(self) -> int:
        """Tokens of a step, over all processes."""
        return self.batch_seqs * self.seq_len


# ------------------------------------------------------------------------------------------------ model


def rotate(x: Tensor, turn: Tensor) -> Tensor:
    """Rotary positions: the pairs (2i, 2i + 1) of every head, (B, T, heads, width), turned with the position."""
    pairs = torch.unflatten(x, -1, (-1, 2))
    if x.device.type == "cpu" and x.dtype == torch.float32 and not torch.compiler.is_compiling():  # one pass
        return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(turn)).flatten(-2)
    (a, b), (cos, sin) = pairs.unbind(-1), turn.unbind(-1)
    return torch.stack((a * cos - b * sin, a * sin + b * cos), dim=-1).flatten(-2).type_as(x)


class Block(nn.Module):
    """Pre-norm attention, then a SwiGLU feed-forward."""

    def __init__(self, arch: Arch, config: Config, flash: bool) -> None:
        super().__init__()
        d, self.width, self.flash, self.gqa = arch.d_model, arch.head_dim, flash, arch.kv_heads != arch.heads
        self.norm1, self.norm2 = nn.RMSNorm(d, eps=1e-6), nn.RMSNorm(d, eps=1e-6)
        # Matrices of their own: on a CPU they are faster than one that is split, whose gradients are copied together.
        self.q = nn.Linear(d, arch.heads * arch.head_dim, bias=False)
        self.k = nn.Linear(d, arch.kv_heads * arch.head_dim, bias=False)
        self.v = nn.Linear(d, arch.kv_heads * arch.head_dim, bias=False)
        self.out = nn.Linear(d, d, bias=False)
        self.gate, self.up = nn.Linear(d, arch.d_ff, bias=False), nn.Linear(d, arch.d_ff, bias=False)
        self.down = nn.Linear(arch.d_ff, d, bias=False)
        self.q_norm = nn.RMSNorm(self.width, eps=1e-6) if config.qk_norm else nn.Identity()
        self.k_norm = nn.RMSNorm(self.width, eps=1e-6) if config.qk_norm else nn.Identity()
        # muP: scores are divided by the width of a head, which at the base equals its square root.
        self.scale = config.mup_base_head_dim**0.5 / self.width if config.mup else self.width**-0.5
        self.drop = nn.Dropout(config.dropout) if config.dropout else nn.Identity()

    def attend(self, x: Tensor, turn: Tensor) -> Tensor:
        """Mix the positions of (B, T, d_model), each with those before it."""
        q, k, v = (layer(x).unflatten(-1, (-1, self.width)) for layer in (self.q, self.k, self.v))
        q, k = rotate(self.q_norm(q), turn), rotate(self.k_norm(k), turn)
        if self.flash:
            from flash_attn import flash_attn_func

            y: Tensor = flash_attn_func(q, k, v, softmax_scale=self.scale, causal=True)
        else:
            q, k, v = q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2)
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=self.scale, enable_gqa=self.gqa)
            y = y.transpose(1, 2)
        return y.flatten(2)

    def forward(self, x: Tensor, turn: Tensor) -> Tensor:
        """Add what attention and feed-forward make of the normalised stream (B, T, d_model)."""
        x = x + self.drop(self.out(self.attend(self.norm1(x), turn)))
        y = self.norm2(x)
        out: Tensor = x + self.drop(self.down(F.silu(self.gate(y)) * self.up(y)))
        return out


class Decoder(nn.Module):
    """Tokens and targets, both (B, T), to losses in nats (B, T) and what z-loss adds to them, fp32."""

    def __init__(self, arch: Arch, config: Config, flash: bool = False) -> None:
        super().__init__()
        self.embed = nn.Embedding(arch.vocab, arch.d_model)
        self.blocks = nn.ModuleList(Block(arch, config, flash) for _ in range(arch.layers))
        self.norm = nn.RMSNorm(arch.d_model, eps=1e-6)
        self.head = nn.Linear(arch.d_model, arch.vocab, bias=False)
        self.output_scale = config.mup_base_width / arch.d_model if config.mup else 1.0
        self.z_loss = config.z_loss
        frequency = config.rope_base ** (-torch.arange(0, arch.head_dim, 2) / arch.head_dim)
        angle = torch.outer(torch.arange(config.seq_len), frequency)[:, None]
        self.register_buffer("turn", torch.stack((angle.cos(), angle.sin()), dim=-1), persistent=False)
        if arch.tied:
            self.head.weight = self.embed.weight
        for name, p in self.named_parameters():
            if p.dim() == 2 and name.startswith("blocks"):
                depth = (2 * arch.layers) ** -0.5 if name.endswith(("out.weight", "down.weight")) else 1.0
                nn.init.normal_(p, std=p.shape[1] ** -0.5 * depth)
            elif p.dim() == 2:
                nn.init.normal_(p, std=config.init_std)

    def forward(self, tokens: Tensor, targets: Tensor, probe: Any = None) -> tuple[Tensor, Tensor]:
        """Return the losses; `probe`, a list, takes the size of the stream after each block."""
        x = self.embed(tokens)
        for block in self.blocks:
            x = block(x, self.turn)
            if probe is not None:
                probe.append(x.detach().float().square().mean().sqrt())
        x = self.norm(x) if self.output_scale == 1.0 else self.norm(x) * self.output_scale
        logits = self.head(x).float().flatten(0, 1)
        loss = F.cross_entropy(logits, targets.flatten(), reduction="none").view(targets.shape)
        if not self.z_loss:
            return loss, torch.zeros(())
        return loss, self.z_loss * logits.logsumexp(-1).square().view(targets.shape)


def parameter_groups(model: nn.Module, config: Config) -> list[dict[str, Any]]:
    """Decay on matrices alone; under muP (arXiv 2203.03466, table 8) blocks learn as 1/width, rate x decay kept."""
    groups: dict[tuple[float, float], list[nn.Parameter]] = {}
    for name, p in model.named_parameters():
        matrix, hidden = p.dim() == 2, p.dim() == 2 and name.startswith("blocks")
        factor = config.mup_base_width / config.d_model if config.mup and hidden else 1.0
        groups.setdefault((factor, config.weight_decay / factor if matrix else 0.0), []).append(p)
    return [{"params": ps, "lr_factor": f, "weight_decay": wd} for (f, wd), ps in groups.items()]


# ------------------------------------------------------------------------------------------------ schedule


def total_steps(state: State, config: Config) -> float:
    """Return the steps of the whole run, as far as is known."""
    steps = config.tokens / config.step_tokens
    by_tokens = max(1, round(steps)) if steps < math.inf else math.inf
    return min(by_tokens, math.inf if state.ends_at is None else state.ends_at)


def cooldown_start(total: float, config: Config) -> float:
    """Step at which the rate begins to fall; up to here runs of every length are the same run."""
    return total if total == math.inf else total - round(config.cooldown * total)


def lr_at(step: int, total: float, config: Config) -> float:
    """Learning rate of update `step` (from 0): linear warm-up, constant, linear cooldown to ``lr_end * lr``."""
    warmup, start = config.warmup_tokens / config.step_tokens, cooldown_start(total, config)
    rate = min(1.0, (step + 1) / warmup) if warmup > 0 else 1.0
    if step >= start:
        rate *= config.lr_end + (1 - config.lr_end) * (total - step) / (total - start + 1)
    return config.lr * rate


def pulled_in(state: State, config: Config, seconds_left: float, step_s: float) -> int | None:
    """Last step, if the cooldown has to begin now to end within the seconds left; else what it was."""
    cooling = state.step >= cooldown_start(total_steps(state, config), config)
    if cooling or seconds_left == math.inf or not step_s > 0:  # it is NaN before the first step
        return state.ends_at
    full = math.ceil(state.step * config.cooldown / (1 - config.cooldown))  # a cooldown that began here
    possible = int(seconds_left / step_s) - 1  # the last step is not cut into
    return state.step + max(min(full, possible), 1) if possible <= full else state.ends_at


# ------------------------------------------------------------------------------------------------ the run

SIGNALS = ("loss", "grad_norm", "param_norm", "v_norm", "update_norm", "finite", "lr")  # of every step
MOST_VETOED = 50  # updates withheld in a row, because something was not finite, that end a run


@torch.no_grad()
def evaluate(model: nn.Module, val: TokenSet, config: Config, place: Place, stop: Stop) -> Any:
    """Loss on the first `eval_tokens` validation tokens and its standard error over windows; None if told to stop."""
    windows = min(int(config.eval_tokens), val.tokens - 1) // config.seq_len
    at_once = config.micro_seqs or config.batch_seqs
    sums = torch.zeros(2, dtype=torch.float64, device=place.device)  # of windows' losses, and of squares
    model.eval()
    for first in range(place.rank * at_once, windows, place.world * at_once):
        count = min(at_once, windows - first)
        block = val.slice(first * config.seq_len, (first + count) * config.seq_len + 1).astype("int64")
        tokens = torch.from_numpy(block).to(place.device)
        with place.autocast():
            losses, _ = model(tokens[:-1].view(count, -1), tokens[1:].view(count, -1))
        means = losses.mean(dim=1).double()
        sums += torch.stack((means.sum(), means.square().sum()))
        if stop.requested and place.world == 1:
            model.train()
            return None
    model.train()
    if place.world > 1:
        dist.all_reduce(sums)
    mean, square = (sums / windows).tolist()
    se = math.sqrt(max(square - mean**2, 0.0) / (windows - 1)) if windows > 1 else math.nan
    return {"loss": mean, "loss_se": se, "tokens": windows * config.seq_len}


def update(model: nn.Module, optimizer: torch.optim.AdamW, batch: Tensor, step: int, config: Config,
           place: Place, old: list[Tensor], damage: float = 1.0) -> list[Tensor]:  # fmt: skip
    """Make one step; return `SIGNALS` but the rate. `old`: room for the weights before it; `damage`: see `Faults`."""
    loss = torch.zeros((), device=place.device)
    parts = torch.split(batch, config.micro_seqs or len(batch))
    for i, part in enumerate(parts):
        if config.dropout:
            place.seed(int(np.random.SeedSequence((config.seed, step, i, place.rank)).generate_state(1)[0]))
        with place.no_sync(model) if i < len(parts) - 1 else nullcontext():
            with place.autocast():
                losses, z = model(part[:, : config.seq_len], part[:, -config.seq_len :])
            # Every token weighs the same, however the batch is cut; processes are averaged, hence their number.
            ((losses + z).sum() * (place.world / config.step_tokens * damage)).backward()
        loss += losses.detach().sum() / config.step_tokens
    if place.world > 1:
        dist.all_reduce(loss)
    params = [p for group in optimizer.param_groups for p in group["params"]]
    norm = nn.utils.clip_grad_norm_(params, config.clip)
    finite = torch.isfinite(norm) & torch.isfinite(loss)
    torch._foreach_copy_(old, [p.detach() for p in params])  # else each step would lengthen a graph
    vars(optimizer)["found_inf"] = (~finite).float()  # where it is 1, fused AdamW changes nothing
    optimizer.step()
    optimizer.zero_grad()
    return [loss, norm, *norms(optimizer, params, old), finite]


def train(config: Config, observer: Observer | None = None) -> dict[str, Any]:
    """Train until horizon, cap, signal or observer (`None`: that of the configuration) end it; return the result."""
    place = machine.join(config.device, config.precision, config.compile, config.attention)
    observer, state = observer or observer_of(config, writes=place.rank == 0), State()
    data, val = TokenSet.open(config.train_data), TokenSet.open(config.val_data)
    batches = Batches(data, config.seq_len, config.batch_seqs, config.seed, place.rank, place.world)
    arch = config.arch(data.vocab)
    check_data(config, data, val)
    faults, snapshots = Faults(config.inject, config.seed, data.vocab), Snapshots(config)
    torch.manual_seed(config.seed)
    plain = Decoder(arch, config, place.flash).to(place.device)
    optimizer = torch.optim.AdamW(
        parameter_groups(plain, config), config.lr, (config.beta1, config.beta2), config.eps, fused=True
    )
    old = [torch.empty_like(p) for group in optimizer.param_groups for p in group["params"]]
    model = place.wrap(plain)
    identity = {"config": asdict(config), "config_hash": config.hash(), "train_hash": data.sha256,
                "trunk_hash": config.hash(*HORIZON, "cooldown", "lr_end")}  # fmt: skip

    def restore(saved: checkpoint.Loaded) -> State:
        checkpoint.restore_model(plain, saved.model)
        checkpoint.restore_optimizer(plain, optimizer, saved.optimizer)
        return State(**saved.manifest["state"])

    def observe() -> str:
        """Show the last steps to the observer and do as it says; return why the run ends, if it does."""
        nonlocal state
        rows, state.unobserved = state.unobserved + record.read(total_steps(state, config)), []
        for row in rows:
            state.vetoed = 0 if row["finite"] else state.vetoed + 1
            if (action := observer.observe(int(row["step"]), row)).kind != "continue":
                action = not_before(state.began, action)
                record.action(state.step, action)
                changes = state.interventions + intervention(action, state.step)
                if action.to_step is not None:
                    saved = run.go_back(action.to_step, snapshots)
                    state = restore(saved)
                    observer.go_back(saved.manifest["observer"])
                state.interventions = changes
                return "observer" if action.kind == "stop" else ""
        return "not finite" if state.vetoed >= MOST_VETOED else ""

    def here() -> dict[str, Any]:
        """Return what going on from here needs beside the tensors."""
        state.unobserved += record.read()  # observed when they would have been: stopping must change nothing
        state.wall_s, state.cools_at = limits.wall_s, cooldown_start(total_steps(state, config), config)
        return {"state": asdict(state), "observer": observer.state_dict()}

    with RunFolder(config.run_dir, writes=place.rank == 0) as run, Stop() as stop:
        if (start := run.start(config.start_from, identity)) is not None:
            state = restore(start)
            observer.load_state_dict(start.manifest["observer"])
            if run.saved_at < 0:  # a branch: its own work begins here
                state.began, state.wall_s = state.step, 0.0
            shared = min(state.cools_at, cooldown_start(total_steps(state, config), config))
            if state.step > shared and start.manifest["config_hash"] != config.hash():
                raise ResumeError(
                    f"step {state.step} is past {shared:g}, where a cooldown begins: branch earlier"
                )
        limits = Limits(run.path, config, wall_s=state.wall_s, writes=place.rank == 0, compiles=place.compile)
        with Recorder(run, config, place, limits, arch, SIGNALS, start) as record:
            record.begin(identity, batches, val)
            ended = ""
            while True:
                step, total = state.step, total_steps(state, config)
                if step % config.log_every == 0 or step >= total:
                    ended = observe()
                    if state.step != step:  # rolled back
                        continue
                due = step >= total or (step > 0 and config.eval_every > 0 and step % config.eval_every == 0)
                if due and not ended and step != state.evaluated:
                    state.unobserved += record.read(total)
                    with record.aside():
                        found = evaluate(model, val, config, place, stop)
                    if found is not None:
                        state.evaluated = step
                        record.event("eval", step, found)
                if not ended and step >= total and step == state.evaluated:
                    ended = "horizon"
                if not ended and (place.world == 1 or step % config.log_every == 0):
                    ended, left, pace = place.agree((stop.requested or limits.refusal(step), *limits.pace()))
                    state.end_at(pulled_in(state, config, left, pace))
                due = step > 0 and (step % config.checkpoint_every == 0 or step in config.checkpoint_at)
                due |= (
                    run.saved_at < 0 and config.recovery == "auto"
                )  # something to go back to, whatever comes
                if step != run.saved_at and (ended or due or stop.save_requested):
                    stop.save_requested = False
                    with record.aside():
                        manifest = {**identity, **here(), **record.state_dict()}
                        run.save(step, plain, optimizer, manifest, config, observer.open_alarm)
                if snapshots.due(step):
                    snapshots.take(step, plain, optimizer, here())
                if ended:
                    return record.finish(ended, state)
                changes = state.interventions
                rate = lr_at(step, total_steps(state, config), config) * lr_factor_at(step, changes)
                rate *= faults.lr_factor(step, changes)
                for group in optimizer.param_groups:
                    group["lr"] = rate * group["lr_factor"]
                with record.waiting():
                    index = batch_at(step, changes)
                    batch = place.put(faults.batch(index, batches(index)))
                damage = faults.strike(step, plain, optimizer, changes)
                signals = update(model, optimizer, batch, step, config, place, old, damage)
                state.step += 1
                record.push(state.step, [*signals, rate])
                if config.probe_every and state.step % config.probe_every == 0:
                    state.unobserved += record.read(total)
                    record.probe(state.step, plain, batch)


def main(arguments: list[str] | None = None) -> int:
    """Run one configuration: ``config.toml key=value ...``; return the exit status."""
    return launch(Config.read, train, sys.argv[1:] if arguments is None else arguments)


if __name__ == "__main__":
    sys.exit(main())
