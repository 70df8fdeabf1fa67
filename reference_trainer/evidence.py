"""What a replay of suspected batches found: their losses, gradients, tokens and activations beside usual ones."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from statistics import median
from typing import Any


@dataclass(frozen=True)
class BatchReading:
    """One batch, read again with the weights of a checkpoint.

    Parameters
    ----------
    batch : int
        Its number in the order of the run.
    loss : float
        Mean over its tokens, nats.
    highest : float
        Highest loss of a token.
    above : float
        Share of its tokens whose loss is above `Evidence.bar`.
    grad_norm : float
        Norm of its gradient, before any clipping.
    activations : tuple of float
        Root mean square of the residual stream after each block.
    worst_window : int
        Number of the window of the data with the highest mean loss.
    worst_loss : float
        That loss.
    """

    batch: int
    loss: float
    highest: float
    above: float
    grad_norm: float
    activations: tuple[float, ...]
    worst_window: int
    worst_loss: float


@dataclass(frozen=True)
class TokenShare:
    """A token that suspected batches have more of than the corpus: shares of all tokens."""

    token: int
    suspected: float
    corpus: float


@dataclass(frozen=True)
class Evidence:
    """The replay of one incident.

    Parameters
    ----------
    checkpoint_step : int
        Steps done by the weights that it was replayed with.
    before : bool
        They are from before the first evidence; otherwise no checkpoint that old was left.
    first_batch, last_batch : int
        The suspected batches.
    suspected, usual : tuple of BatchReading
        Readings of some of them, evenly spread, and of batches before them.
    bar : float
        The loss that 1 of 100 usual tokens exceeds, nats.
    corpus_tokens : int
        Tokens of the corpus that were counted.
    divergence, usual_divergence : float
        Kullback-Leibler divergence of the tokens of suspected and of usual batches from the corpus, nats.
    tokens : tuple of TokenShare
        Where the suspected batches differ most.
    """

    checkpoint_step: int
    before: bool
    first_batch: int
    last_batch: int
    suspected: tuple[BatchReading, ...]
    usual: tuple[BatchReading, ...]
    bar: float
    corpus_tokens: int
    divergence: float
    usual_divergence: float
    tokens: tuple[TokenShare, ...]

    def verdict(self) -> str:
        """Return in a sentence whether the batches are unusual, read with sound weights."""
        loss, usual = (median(r.loss for r in side) for side in (self.suspected, self.usual))
        grad, calm = (median(r.grad_norm for r in side) for side in (self.suspected, self.usual))
        spread = max(r.loss for r in self.usual) - min(r.loss for r in self.usual)
        odd = abs(loss - usual) > 3 * max(spread, 0.01) or grad > 3 * calm
        numbers = (
            f"loss {loss:.3f} against {usual:.3f}, gradient norm {grad:.3g} against {calm:.3g} (medians)"
        )
        if odd:
            return f"The suspected batches are unusual by themselves: {numbers}."
        return (
            f"The suspected batches are like those just before them: {numbers}. Either the data are sound, or the "
            "trouble began before the first evidence."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return it as plain types."""
        return {**asdict(self), "verdict": self.verdict()}

    def markdown(self) -> str:
        """Return it as Markdown, without headings above the fourth level."""
        when = (
            "before the first evidence"
            if self.before
            else "the oldest that is left, after the first evidence"
        )
        lines = [
            f"Batches {self.first_batch:,} to {self.last_batch:,} were read again with the weights of step "
            f"{self.checkpoint_step:,} ({when}). {self.verdict()}",
            "",
            f"| batch | loss | highest of a token | tokens above {self.bar:.2f} | gradient norm | worst window (loss) "
            "| stream |",
            "| --- | --- | --- | --- | --- | --- | --- |",
        ]
        for side, note in ((self.usual, "usual"), (self.suspected, "**suspected**")):
            for r in side:
                stream = ", ".join(f"{x:.3g}" for x in r.activations)
                lines.append(
                    f"| {r.batch:,} {note} | {r.loss:.3f} | {r.highest:.2f} | {r.above:.1%} | {r.grad_norm:.3g} | "
                    f"{r.worst_window:,} ({r.worst_loss:.3f}) | {stream} |"
                )
        lines += [
            "",
            f"Losses in nats; {self.bar:.2f} is what 1 of 100 tokens of usual batches exceeds. Worst window: number "
            "in the data of the sequence with the highest mean loss, and that loss. Stream: root mean square of the "
            "residual stream after each block.",
            "",
            f"Their tokens are {'un' if self.divergence > 2 * self.usual_divergence + 0.01 else ''}usual ones: counted "
            f"against {self.corpus_tokens:,} tokens of the corpus they differ by {self.divergence:.4f} nats "
            f"(Kullback-Leibler), those of usual batches by {self.usual_divergence:.4f}.",
        ]
        if self.tokens:
            lines += ["", "| token | of the suspected | of the corpus |", "| --- | --- | --- |"]
            lines += [f"| {t.token} | {t.suspected:.2%} | {t.corpus:.2%} |" for t in self.tokens]
        return "\n".join(lines) + "\n"
