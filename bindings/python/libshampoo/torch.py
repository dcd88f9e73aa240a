# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo in the manner of torch.optim: parameters and gradients of PyTorch, stepped where they are."""
from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any

try:
    import torch
    from torch.autograd.graph import increment_version
except ImportError as error:
    message = f"libshampoo.torch needs PyTorch 2.2 or later: pip install torch ({error})"
    raise ImportError(message, name="torch") from error

from . import _native
from .comm import Communicator
from .dtypes import numpy_dtype
from .errors import StateError
from .keys import KEYS
from .optimizer import Optimizer

__all__ = ["ProcessGroupComm", "Shampoo"]

#: What a group may have beside keys: torch and its schedulers put it there.
_OF_TORCH = ("params", "param_names", "initial_lr")


class ProcessGroupComm(Communicator):
    """Ranks of torch.distributed, over the memory of the CPU: of the backend gloo or mpi.

    Parameters
    ----------
    group
        A process group; None: all ranks.
    """

    def __init__(self, group: Any = None) -> None:
        self._distributed = torch.distributed
        self._group = group
        self.rank, self.world = self._distributed.get_rank(group), self._distributed.get_world_size(group)

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        if len(send) == 0:
            return
        parts = list(torch.frombuffer(recv, dtype=torch.uint8).chunk(self.world))
        # A part of its own to send from, as send may be read-only, which PyTorch does not know, or this rank's of recv.
        own = torch.frombuffer(bytearray(send), dtype=torch.uint8)
        self._distributed.all_gather(parts, own, group=self._group)


def _memory(tensor: Any, what: str) -> Any:
    """Give a tensor as DLPack takes it; refuse what has no memory of its own, or shows it changed."""
    if tensor.layout is not torch.strided:
        raise ValueError(f"{what}: layout {tensor.layout}: a dense tensor is expected")
    if hasattr(tensor, "placements"):
        raise ValueError(
            f"{what}: a DTensor: give its parts to libshampoo.Optimizer, as libshampoo.Param with local_offset"
        )
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{what}: on {tensor.device}: the CPU or CUDA is expected")
    if tensor.is_neg():
        raise ValueError(f"{what}: a view with another sign: pass tensor.resolve_neg()")
    return tensor.detach()


def _split_names(params: Any) -> tuple[list[Any], list[str] | None]:
    """Take tensors, or pairs (name, tensor) as of named_parameters(), apart."""
    items = [params] if isinstance(params, torch.Tensor) else list(params)
    named = [item for item in items if isinstance(item, tuple)]
    if not named:
        return items, None
    if len(named) != len(items):
        raise ValueError("params: some have names and some have not: give a name to all, as named_parameters() does")
    return [tensor for _, tensor in named], [str(name) for name, _ in named]


def _to_tensor(array: Any) -> Any:
    """Give an array of NumPy that nobody else has as a tensor; uint16 has the bits of bfloat16."""
    if array.dtype.name in ("bfloat16", "uint16"):
        return torch.from_numpy(array.view("int16")).view(torch.bfloat16)
    return torch.from_numpy(array)


def _to_array(value: Any) -> Any:
    if not isinstance(value, torch.Tensor):
        return value
    tensor = value.detach().cpu().contiguous()
    if tensor.dtype is torch.bfloat16:
        return tensor.view(torch.int16).numpy().view(numpy_dtype(_native.SHAMPOO_BF16))
    return tensor.numpy()


def _plain(value: Any) -> Any:
    return float(value) if isinstance(value, torch.Tensor) else value


class Shampoo(torch.optim.Optimizer):
    """Shampoo, to be used as an optimizer of torch.optim.

    Parameters are stepped in place, and gradients read where they are, on the CPU and on CUDA, there in the order of
    the current stream. Parameters without a gradient stay as they are. Which parameters there are is fixed.

    Parameters
    ----------
    params
        Tensors, pairs (name, tensor) as of ``model.named_parameters()``, or groups: dictionaries with ``"params"`` and
        keys of their own. Dense and contiguous, of float32, float64, float16 or bfloat16. Names are those of messages
        and of ``optimizer.save``.
    lr
        Learning rate: a number, or a tensor of one, which each step reads.
    comm, shard_comm
        As of ``libshampoo.Optimizer``; or a process group of torch.distributed, for parameters on the CPU.
    threads
        That work on a step; 0: as many processors as the process may use.
    **keys
        As of ``libshampoo.Optimizer``; ``libshampoo.KEYS`` has them. Those that can be changed are in ``param_groups``,
        and the next step uses the values there.

    Attributes
    ----------
    optimizer : libshampoo.Optimizer
        What makes the steps: its ``plan``, ``stats()``, ``save()`` and ``load()``.

    Examples
    --------
    >>> import torch, libshampoo.torch
    >>> model = torch.nn.Linear(4, 3)
    >>> opt = libshampoo.torch.Shampoo(model.named_parameters(), lr=0.1, grafting="adam")
    >>> for _ in range(100):
    ...     opt.zero_grad()
    ...     loss = model(torch.eye(4)).square().sum()
    ...     loss.backward()
    ...     opt.step()
    >>> bool(loss < 1e-2)
    True
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 0.01,
        *,
        comm: Any = None,
        shard_comm: Any = None,
        threads: int = 0,
        **keys: Any,
    ) -> None:
        super().__init__(params, {"lr": lr, **keys})
        self._params = [param for group in self.param_groups for param in group["params"]]
        self._names: list[str] = []
        groups = []
        for group in self.param_groups:
            count = len(self._names)
            self._names += group.get("param_names") or [f"param{count + k}" for k in range(len(group["params"]))]
            arrays = [_memory(param, f"parameter {name!r}")
                      for name, param in zip(self._names[count:], group["params"], strict=True)]  # fmt: skip
            own = {key: _plain(value) for key, value in group.items() if key not in _OF_TORCH}
            groups.append({"params": list(zip(self._names[count:], arrays, strict=True)), **own})
        #: What makes the steps.
        self.optimizer = Optimizer(
            groups, comm=self._connect(comm), shard_comm=self._connect(shard_comm), threads=threads,
            stream=self._stream(),
        )  # fmt: skip
        self._pointers = [param.data_ptr() for param in self._params]
        changeable = [name for name, key in KEYS.items() if key.changeable and key.per_group]
        #: By group, what the library has been told of each key.
        self._told: list[dict[str, Any]] = []
        for group, known in zip(self.param_groups, self.optimizer.param_groups, strict=True):
            shown = [name for name in group if name in KEYS] + [name for name in changeable if name not in group]
            self._told.append({name: known[name] for name in shown})
            group.update({name: value for name, value in self._told[-1].items()
                          if not isinstance(group.get(name), torch.Tensor)})  # fmt: skip
        self.defaults.update({name: value for name, value in self._told[0].items() if name not in self.defaults})
        self._forget()

    def _connect(self, comm: Any) -> Any:
        if not torch.distributed.is_available() or not isinstance(comm, torch.distributed.ProcessGroup):
            return comm
        if self._params[0].is_cuda:
            raise ValueError("comm: a process group is for parameters on the CPU: on CUDA pass a libshampoo.NcclComm")
        return ProcessGroupComm(comm)

    def _stream(self) -> int:
        """Give the current stream of the device of the parameters; 0 on the CPU."""
        device = self._params[0].device
        return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0

    def _forget(self) -> None:
        # The state is the library's. Something is there nevertheless: where there is nothing,
        # torch.distributed.checkpoint makes a step with gradients of 0.
        self.state = defaultdict(dict, {param: {} for param in self._params})

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Refuse: which parameters there are is fixed when an optimizer is made."""
        if hasattr(self, "optimizer"):
            raise StateError(
                "add_param_group: which parameters there are is fixed when an optimizer is made: make a new one of all"
            )
        # Names are taken off here, as PyTorch before 2.6 does not know them.
        tensors, names = _split_names(param_group["params"])
        super().add_param_group({**param_group, "params": tensors, **({"param_names": names} if names else {})})

    def _tell_keys(self) -> None:
        """Tell the library what was changed in param_groups."""
        for group, told, known in zip(self.param_groups, self._told, self.optimizer.param_groups, strict=True):
            for name, value in group.items():
                if name not in KEYS:
                    continue
                value = _plain(value)
                if value != (told[name] if name in told else known[name]):
                    known[name] = value
                    told[name] = value

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Make a step.

        Parameters
        ----------
        closure
            That computes gradients and gives the loss; it is called once.

        Returns
        -------
        The loss, if there is a closure.

        Raises
        ------
        ValueError
            A gradient or parameter is sparse, not contiguous or otherwise not as needed; the message names it.
        FloatingPointError
            A gradient is not finite. Nothing has changed.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._tell_keys()
        stepped = [param for param in self._params if param.grad is not None]
        if not stepped:
            return loss
        stream = self._stream()
        pointers = [param.data_ptr() for param in self._params]
        if pointers != self._pointers:  # by param.data = ..., or a model that was moved
            self.optimizer.bind(
                params=[_memory(param, f"parameter {name!r}")
                        for name, param in zip(self._names, self._params, strict=True)],
                stream=stream,
            )  # fmt: skip
            self._pointers = pointers
        grads = [None if param.grad is None else _memory(param.grad, f"gradient of {name!r}")
                 for name, param in zip(self._names, self._params, strict=True)]  # fmt: skip
        try:
            self.optimizer.step(grads, stream=stream)
        finally:
            if self._params[0].device.type == "cpu":
                self.optimizer.bind(grads=None)  # so that zero_grad() frees them
        for param in stepped:
            increment_version(param)  # for autograd, which then sees what was needed as it was before
        return loss

    def _owners(self, keys: Iterable[str]) -> dict[str, tuple[list[int], str]]:
        """Give of each entry of the state the numbers of the parameters that show it, and its name there."""
        by_length = sorted(range(len(self._names)), key=lambda k: -len(self._names[k]))
        found: dict[str, tuple[list[int], str]] = {}
        for key in keys:
            for number in by_length:
                head, _, rest = key.partition(self._names[number] + "/")
                if not head and "/" in rest:
                    found[key] = [number], rest
                    break
            else:  # of a group: each of its parameters has it
                head, _, rest = key.partition("/")
                first = sum(len(group["params"]) for group in self.param_groups[: int(head.rpartition(".")[2])])
                count = len(self.param_groups[int(head.rpartition(".")[2])]["params"])
                found[key] = list(range(first, first + count)), rest
        return found

    def state_dict(self) -> dict[str, Any]:
        """Copy all state of this rank, in torch's format: of each parameter ``"step"`` and tensors by their names."""
        entries = self.optimizer.state_dict()
        for key, (numbers, name) in self._owners(entries).items():
            for number in numbers:
                self.state[self._params[number]][name] = _to_tensor(entries[key].copy())
        try:
            return dict(super().state_dict())
        finally:
            self._forget()

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Bring back what ``state_dict`` gave, and the hyper-parameters with it, as torch does.

        Raises
        ------
        ValueError
            An entry is missing, too many, or of another shape or dtype; or a key that is fixed differs. Nothing has
            changed.
        """
        # torch would give floating-point state the dtype of its parameter. So it gets none: the library takes it, after
        # all hooks that may change it and before anything else.
        hook = self.register_load_state_dict_pre_hook(lambda _, given: self._take(given))
        try:
            super().load_state_dict(dict(state_dict))
        finally:
            hook.remove()
            self._forget()

    def _take(self, given: Mapping[str, Any]) -> dict[str, Any]:
        saved_groups = given["param_groups"]
        if [len(group["params"]) for group in saved_groups] != [len(group["params"]) for group in self.param_groups]:
            raise ValueError("state: its groups have other numbers of parameters than those of the optimizer")
        for number, (group, told) in enumerate(zip(saved_groups, self._told, strict=True)):
            for name, value in group.items():
                if name in told and not KEYS[name].changeable and value != told[name]:
                    raise ValueError(f"state of group {number}: key {name} is {value!r}, and the optimizer has "
                                     f"{told[name]!r}, which is fixed")  # fmt: skip
        numbers = [number for group in saved_groups for number in group["params"]]
        owners = self._owners(self.optimizer.state_dict())
        of_groups = {(number, name): key
                     for key, (shown, name) in owners.items() if "/" not in name for number in shown}  # fmt: skip
        entries: dict[str, Any] = {}
        for position, number in enumerate(numbers):
            for name, value in given["state"].get(number, {}).items():
                key = of_groups.get((position, name), f"{self._names[position]}/{name}")
                array = _to_array(value)
                if key in entries and entries[key] != array:
                    raise ValueError(f"state of {self._names[position]!r}: {name} is {array}, and {entries[key]} of "
                                     "others in its group")  # fmt: skip
                entries[key] = array
        self.optimizer.load_state_dict(entries)
        return {**given, "state": {}}

    def __getstate__(self) -> dict[str, Any]:
        raise TypeError("a Shampoo optimizer cannot be copied or pickled: make one, and give it the state_dict()")
