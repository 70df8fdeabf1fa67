"""The model is the one that its name and its counts promise."""

from __future__ import annotations

import math

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

from reference_trainer.train import Config, Decoder, parameter_groups, rotate
from scaling.flops import flops_per_token


def config(**changes):
    shape = dict(layers=2, d_model=32, heads=4, kv_heads=2, d_ff=48, vocab=50, seq_len=24, batch_seqs=2)
    return Config(run_dir="", train_data="", val_data="", tokens=1e6, **{**shape, **changes})


def decoder(settings):
    torch.manual_seed(0)
    return Decoder(settings.arch(0), settings)


def batch(settings, seed=0):
    generator = torch.Generator().manual_seed(seed)
    tokens = torch.randint(0, settings.vocab, (2, settings.seq_len + 1), generator=generator)
    return tokens[:, :-1], tokens[:, 1:]


@pytest.mark.parametrize(
    "changes", [{}, {"tied": False}, {"qk_norm": True}, {"kv_heads": 0}, {"d_ff": 0}], ids=str
)
def test_parameters_are_those_of_the_shape(changes):
    """What `scaling.architecture` counts, and prices and laws are computed with, is what is trained."""
    settings = config(**changes)
    model = decoder(settings)
    assert sum(p.numel() for p in model.parameters()) == settings.arch(0).params("total")


def test_the_50m_model_of_the_plan():
    settings = config(layers=8, d_model=512, heads=8, kv_heads=2, d_ff=1408, vocab=50257)
    with torch.device("meta"):
        model = Decoder(settings.arch(0), settings)
    assert sum(p.numel() for p in model.parameters()) == 48_284_672


def test_flops_are_those_that_are_counted():
    """Counted by torch as operations run (math attention, which it can see), and by `scaling.flops`.

    Only the matrix products of the forward and backward pass count; attention without its causal half, as in palm.
    """
    from torch.utils.flop_counter import FlopCounterMode

    settings = config(kv_heads=0)
    model, (tokens, targets) = decoder(settings), batch(settings)
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        model(tokens, targets)[0].mean().backward()
    expected = (
        flops_per_token(settings.arch(0), "palm", seq_len=settings.seq_len, count="matmul") * tokens.numel()
    )
    assert counter.get_total_flops() == expected


def test_a_position_sees_those_before_it_and_no_other():
    settings = config(qk_norm=True)
    model, (tokens, targets) = decoder(settings).eval(), batch(settings)
    before, _ = model(tokens, targets)
    changed = tokens.clone()
    changed[:, 10] = (changed[:, 10] + 1) % settings.vocab
    after, _ = model(changed, targets)
    assert torch.equal(before[:, :10], after[:, :10])
    assert (before[:, 10:] != after[:, 10:]).any(dim=0).all()


def test_rotation_keeps_lengths_and_depends_on_distance_alone():
    settings = config(seq_len=40)
    turn = decoder(settings).turn
    torch.manual_seed(1)
    q, k = torch.randn(1, 1, 1, 8).expand(1, 40, 1, 8), torch.randn(1, 1, 1, 8).expand(1, 40, 1, 8)
    a, b = rotate(q, turn)[0, :, 0], rotate(k, turn)[0, :, 0]
    assert torch.allclose(a.norm(dim=-1), q[0, :, 0].norm(dim=-1), atol=1e-5)
    scores = a @ b.T
    for shift in (0, 3, 17):
        diagonal = scores.diagonal(-shift)
        assert torch.allclose(diagonal, diagonal[:1].expand_as(diagonal), atol=1e-4)


def test_both_ways_to_rotate_are_one():
    """The real form, which runs in bf16 and on GPUs, against the complex one; here in float64 and float32."""
    turn = decoder(config()).turn
    x = torch.randn(2, 24, 4, 8)
    torch.testing.assert_close(rotate(x.double(), turn).float(), rotate(x, turn), rtol=1e-5, atol=1e-6)
    assert rotate(x.bfloat16(), turn).dtype == torch.bfloat16


def test_z_loss_is_beside_the_loss():
    plain, penal = decoder(config()), decoder(config(z_loss=0.1))
    tokens, targets = batch(config())
    (loss, none), (same, z) = plain(tokens, targets), penal(tokens, targets)
    assert torch.equal(loss, same) and none.sum() == 0
    logits = plain.head(plain.norm(plain_stream(plain, tokens)))
    torch.testing.assert_close(z, 0.1 * logits.logsumexp(-1) ** 2)


def plain_stream(model, tokens):
    x = model.embed(tokens)
    for block in model.blocks:
        x = block(x, model.turn)
    return x


def test_an_untrained_model_knows_nothing():
    loss, _ = decoder(config())(*batch(config()))
    assert loss.mean().item() == pytest.approx(math.log(50), abs=0.05)


def test_decay_falls_on_matrices_alone():
    settings = config(qk_norm=True)
    model = decoder(settings)
    decay = {
        id(p): group["weight_decay"] for group in parameter_groups(model, settings) for p in group["params"]
    }
    assert len(decay) == len(list(model.parameters()))
    for name, p in model.named_parameters():
        assert decay[id(p)] == (0.1 if p.dim() == 2 else 0.0), name


def test_mup_at_the_base_width_is_the_plain_model():
    """Where width and head width are those of the base, muP changes neither output nor learning rates."""
    plain, mup = config(), config(mup=True, mup_base_width=32, mup_base_head_dim=8)
    a, b = decoder(plain), decoder(mup)
    assert torch.equal(a(*batch(plain))[0], b(*batch(plain))[0])
    assert [g["lr_factor"] for g in parameter_groups(b, mup)] == [1.0, 1.0]


def test_mup_scales_what_the_paper_says():
    """Yang et al. 2022, table 8: at 4 x the width, hidden rates and output are a quarter, rate x decay is kept."""
    settings = config(mup=True, mup_base_width=8)
    groups = {
        (g["lr_factor"], g["weight_decay"]): len(g["params"])
        for g in parameter_groups(decoder(settings), settings)
    }
    assert groups == {(0.25, 0.4): 14, (1.0, 0.1): 1, (1.0, 0.0): 5}
    assert decoder(settings).output_scale == 0.25
