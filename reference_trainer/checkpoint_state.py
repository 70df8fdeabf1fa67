"""Between modules, optimizers and dictionaries of named tensors."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from reference_trainer.errors import CheckpointError

#: Between a parameter's name and the name of its state. Names of parameters hold dots, never this.
_BETWEEN = "/"


def without_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return tensors that can be written: each once, on the host, contiguous, alone in its memory.

    Returns
    -------
    tensors : dict of str to Tensor
        The first name of each.
    aliases : dict of str to str
        Further name -> first name, of tied weights.
    """
    kept: dict[str, Tensor] = {}
    first: dict[tuple[object, ...], str] = {}
    aliases: dict[str, str] = {}
    for name, given in tensors.items():
        tensor = given.detach()
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in first:
            aliases[name] = first[place]
            continue
        first[place] = name
        tensor = tensor.to("cpu").contiguous()
        if tensor.untyped_storage().nbytes() != tensor.nbytes:  # a view: it would drag its neighbours along
            tensor = tensor.clone()
        kept[name] = tensor
    return kept, aliases


def restore_model(model: nn.Module, tensors: Mapping[str, Tensor]) -> None:
    """Load weights into a module; every name must match. Tied weights stay tied.

    Raises
    ------
    CheckpointError
        Names or shapes differ.
    """
    try:
        model.load_state_dict(dict(tensors), strict=True)
    except RuntimeError as error:
        raise CheckpointError(
            f"the weights are those of another model: {_differences(model, tensors) or error}"
        ) from error


def _differences(model: nn.Module, tensors: Mapping[str, Tensor], most: int = 3) -> str:
    """Say in which names and shapes weights do not fit a model."""
    here, there = ({name: tuple(t.shape) for name, t in x.items()} for x in (model.state_dict(), tensors))
    found = [f"{name} is missing" for name in here if name not in there]
    found += [f"{name} is not one of its tensors" for name in there if name not in here]
    found += [
        f"{name} is {there[name]} instead of {shape}"
        for name, shape in here.items()
        if there.get(name, shape) != shape
    ]
    return "; ".join(found[:most]) + (f"; and {len(found) - most} more" if len(found) > most else "")


def optimizer_tensors(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, Tensor]:
    """Return the optimizer's state by parameter name, such as ``"head.weight/exp_avg"``.

    Learning rates, betas and decay are not in it: they follow from the configuration and the step.

    Raises
    ------
    CheckpointError
        The optimizer has a parameter that is none of the model, or state that is no tensor.
    """
    out: dict[str, Tensor] = {}
    for name, parameter in _named(model, optimizer).items():
        for key, value in optimizer.state.get(parameter, {}).items():
            if not isinstance(value, Tensor):
                raise CheckpointError(
                    f"state {key!r} of {name} is {type(value).__name__}, not a tensor: it cannot be saved"
                )
            out[f"{name}{_BETWEEN}{key}"] = value
    return out


def restore_optimizer(
    model: nn.Module, optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor]
) -> None:
    """Put saved state into an optimizer; state it had before is gone.

    Raises
    ------
    CheckpointError
        The tensors are of other parameters or of other shapes. The optimizer is then as it was.
    """
    named = _named(model, optimizer)
    groups = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    state: dict[str, dict[str, Tensor]] = {}
    for full, tensor in tensors.items():
        name, _, key = full.rpartition(_BETWEEN)
        if name not in named:
            raise CheckpointError(f"the optimizer has no parameter {name!r}, the checkpoint has its {key!r}")
        parameter = named[name]
        if tensor.dim() and tensor.shape != parameter.shape:
            raise CheckpointError(
                f"{full} has shape {tuple(tensor.shape)}, the parameter {tuple(parameter.shape)}"
            )
        # AdamW counts steps on the host unless it is fused or captured: only then does it want them beside
        # the parameter.
        group = groups[id(parameter)]
        host = key == "step" and not (group.get("fused") or group.get("capturable"))
        home = torch.device("cpu") if host else parameter.device
        state.setdefault(name, {})[key] = tensor.detach().to(home, copy=True)
    optimizer.state.clear()
    for name, values in state.items():
        optimizer.state[named[name]] = values


def _named(model: nn.Module, optimizer: torch.optim.Optimizer) -> dict[str, nn.Parameter]:
    """Return the optimizer's parameters by their names in the model."""
    names = {id(p): name for name, p in model.named_parameters()}
    params = [p for group in optimizer.param_groups for p in group["params"]]
    strangers = sum(id(p) not in names for p in params)
    if strangers:
        raise CheckpointError(
            f"{strangers} of {len(params)} parameters of the optimizer are none of the model: pass the module "
            "that the optimizer was made for"
        )
    return {names[id(p)]: p for p in params}
