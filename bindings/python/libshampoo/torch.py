# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Shampoo with the interface of torch.optim. Updates parameters of PyTorch in place."""
from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Mapping
from typing import Any

try:
    import torch
    from torch.autograd.graph import increment_version
except ImportError as error:
    message = f"libshampoo.torch needs PyTorch 2.2 or later: pip install --upgrade torch ({error})"
    raise ImportError(message, name="torch") from error

from . import torch_dtensor
from .comm import Communicator
from .dtypes import code_of
from .errors import StateError
from .keys import KEYS, make_config, read_key
from .optimizer import Optimizer
from .params import Param, checked_describe, param_options
from .torch_dtensor import local
from .torch_state import FLOATS, Entries, States, cast, to_array

__all__ = ["ProcessGroupComm", "Shampoo"]

#: Entries of a group of torch.optim that are not keys of the library.
_TORCH_ENTRIES = ("params", "param_names", "initial_lr", "maximize")
#: Options of torch.optim's own optimizers that are not supported, and what to do instead.
_UNSUPPORTED = {
    "foreach": "leave it out: a step always processes all parameters in one call",
    "fused": "leave it out: a step is always one call of the library",
    "capturable": "leave it out: docs/cuda.md describes how to capture a step into a CUDA graph",
    "differentiable": "leave it out: autograd cannot differentiate through a step of the library",
    "betas": "pass beta1 and grafting_beta2, the decays of Adam; beta2 is the decay of the factor matrices",
    "eps": "pass grafting_epsilon, the epsilon of Adam; epsilon is added to the factor matrices",
}
_CHANGEABLE = [name for name, key in KEYS.items() if key.changeable and key.per_group]


class ProcessGroupComm(Communicator):
    """A communicator for host memory that uses a process group of torch.distributed with the backend gloo or mpi.

    Parameters
    ----------
    group
        A process group. None: the default group, which contains all ranks.
    """

    def __init__(self, group: Any = None) -> None:
        self._distributed = torch.distributed
        self._group = group
        self.rank, self.world = self._distributed.get_rank(group), self._distributed.get_world_size(group)

    def all_gather(self, send: memoryview, recv: memoryview) -> None:
        if len(send) == 0:
            return
        parts = list(torch.frombuffer(recv, dtype=torch.uint8).chunk(self.world))
        # send is copied because send may be this rank's part of recv. Also, send may be read-only memory, which PyTorch
        # does not support.
        own = torch.frombuffer(bytearray(send), dtype=torch.uint8)
        self._distributed.all_gather(parts, own, group=self._group)

    def all_to_all(self, send: memoryview, send_bytes: list[int], recv: memoryview, recv_bytes: list[int]) -> None:
        received = torch.frombuffer(recv, dtype=torch.uint8) if len(recv) > 0 else torch.empty(0, dtype=torch.uint8)
        sent = torch.frombuffer(bytearray(send), dtype=torch.uint8) if len(send) > 0 else received[:0]
        self._distributed.all_to_all_single(received, sent, recv_bytes, send_bytes, group=self._group)


def _memory(tensor: Any, what: str) -> Any:
    """Detach a tensor. Raise ValueError if the library cannot use the memory of the tensor in place."""
    if torch.nn.parameter.is_lazy(tensor):
        raise ValueError(
            f"{what}: not initialized yet, as in a lazy module; run a forward pass before you create the optimizer"
        )
    if tensor.layout is not torch.strided:
        raise ValueError(f"{what}: layout {tensor.layout}; expected a dense tensor")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{what}: on device {tensor.device}; expected the CPU or CUDA")
    if not tensor.is_contiguous():
        raise ValueError(
            f"{what}: its strides {tuple(tensor.stride())} are not those of a contiguous tensor of shape "
            f"{tuple(tensor.shape)}; for a model in channels_last, call "
            "model.to(memory_format=torch.contiguous_format) before you create the optimizer; for any other layout, "
            "assign tensor.data = tensor.data.contiguous()"
        )
    return tensor.detach()


def _split_names(params: Any) -> tuple[Any, list[str] | None]:
    """Split pairs (name, tensor), such as those of named_parameters(), into tensors and names."""
    if isinstance(params, (torch.Tensor, set)):  # PyTorch raises an error for a set
        return params, None
    items = list(params)
    named = [item for item in items if isinstance(item, tuple)]
    if not named:
        return items, None
    if len(named) != len(items):
        raise ValueError("params: some have names and others do not; name all of them, as named_parameters() does")
    return [tensor for _, tensor in named], [str(name) for name, _ in named]


def _plain(name: str, value: Any) -> Any:
    """Return the value of a key. A tensor with one element becomes a number."""
    if isinstance(value, torch.Tensor):
        if value.numel() != 1:
            raise ValueError(f"{name}: a tensor of shape {tuple(value.shape)}; expected a number, or a tensor with one "
                             "element")  # fmt: skip
        return float(value)
    if name == "lr" and value is None:
        raise ValueError("lr: None; expected a number, or a tensor with one element")
    return value


def _layouts(params: Iterable[Any]) -> list[tuple[int, tuple[int, ...]]]:
    """Return the address and the strides of each tensor or, for a DTensor, of its local part."""
    parts = [local(param) for param in params]
    return [(part.data_ptr(), part.stride()) for part in parts]


def _stream_of(device: Any) -> int:
    """Return the current stream of a CUDA device, or 0 for the CPU."""
    return int(torch.cuda.current_stream(device).cuda_stream) if device.type == "cuda" else 0


def _check_options(group: Iterable[str], where: str) -> None:
    for name in group:
        if name in _UNSUPPORTED and name not in KEYS:
            raise TypeError(f"{where}: {name} is an option of PyTorch's own optimizers; {_UNSUPPORTED[name]}")


class Shampoo(torch.optim.Optimizer):
    """A Shampoo optimizer with the interface of torch.optim.

    Steps update parameters in place and read gradients in place, on the CPU and on CUDA. On CUDA they run on the
    current stream. Parameters without a gradient do not change.

    Parameters
    ----------
    params
        Tensors, pairs (name, tensor) such as those of ``model.named_parameters()``, or groups: dictionaries with
        ``"params"`` and the keys of the group. Parameters must be dense and contiguous, in float32, float64, float16 or
        bfloat16. Their names appear in messages and in the checkpoints of ``optimizer.save``. Parameters can be the
        DTensors of FSDP2 (``fully_shard``): docs/cuda.md has a guide.
    lr
        Learning rate: a number, or a tensor with one element. Each step reads the current value of the tensor.
    maximize
        If true, maximize the objective: each step negates the gradient before it adds weight decay. A group can have
        its own value.
    comm, shard_comm
        Same as for ``libshampoo.Optimizer``. Each can also be a process group of torch.distributed with gloo or MPI.
        With a process group and parameters on CUDA, steps exchange data through host memory: prefer a
        ``libshampoo.NcclComm``. For DTensors on the CPU, the default is the process group of their device mesh.
    threads
        Number of threads that work on a step. 0: as many as are useful, at most one for each available processor.
    grad_dtype
        Dtype of all gradients. If None, a gradient has the dtype in the attribute ``grad_dtype`` of its parameter
        (newer versions of PyTorch) or, without this attribute, the dtype of its parameter.
    describe
        A function that takes the name of a parameter and returns a mapping with the parameter's options ``role``,
        ``row_splits`` and ``fan`` (see ``libshampoo.Param``). Example:
        ``lambda name: {"role": "embedding"} if "embed" in name else {}``.
    **keys
        Same as for ``libshampoo.Optimizer``. ``libshampoo.KEYS`` lists all keys. Keys that can be changed between steps
        are in ``param_groups``, where each step reads their current values.

    Attributes
    ----------
    optimizer : libshampoo.Optimizer
        The underlying optimizer, with ``plan``, ``stats()``, ``save()`` and ``load()``.

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

    #: The underlying optimizer.
    optimizer: Optimizer

    def __init__(
        self,
        params: Iterable[Any],
        lr: Any = 0.01,
        *,
        maximize: bool = False,
        comm: Any = None,
        shard_comm: Any = None,
        threads: int = 0,
        grad_dtype: Any = None,
        describe: Callable[[str], Mapping[str, Any]] | None = None,
        **keys: Any,
    ) -> None:
        _check_options(keys, "Shampoo")
        self._options_of = checked_describe(describe)
        self._keys = {"lr": lr, **keys}
        self._grad_dtype = None if grad_dtype is None else FLOATS[code_of(grad_dtype, "grad_dtype")]
        self._threads = threads
        #: For each group, the keys with which the library's optimizer was created.
        self._initial_keys: list[dict[str, Any]] = []
        #: For each group, the values of keys that the library's optimizer uses now.
        self._sent_keys: list[dict[str, Any]] = []
        self._names: list[str] = []
        self._options: list[Mapping[str, Any]] = []
        self._grad_dtypes: list[Any] = []
        self._alone = comm is None and shard_comm is None
        self._copies: dict[Any, dict[str, Any]] | None = None
        self._trained: list[Any] | None = None  # copies of the parameters, from eval() to train()
        super().__init__(params, {**self._keys, "maximize": maximize})
        self._create(comm, shard_comm)
        self._show_keys()
        config = make_config({name: _plain(name, value) for name, value in self._keys.items()})
        self.defaults.update({name: read_key(config, name) for name in _CHANGEABLE if name not in self._keys})
        if all(group["momentum"] == 0 for group in self.param_groups):
            del self.defaults["momentum"]  # OneCycleLR and CyclicLR must not find a momentum to cycle

    def _create(self, comm: Any = None, shard_comm: Any = None, entries: Mapping[str, Any] | None = None) -> None:
        """Create the library's optimizer for all groups. If the creation fails, nothing has changed.

        Parameters
        ----------
        comm, shard_comm
            Same as for the constructor.
        entries
            State of the new optimizer: arrays by name. Arrays that are missing keep their initial values.
        """
        params = [param for group in self.param_groups for param in group["params"]]
        names, grad_dtypes, options = list(self._names), list(self._grad_dtypes), list(self._options)
        ranges: list[range] = []
        groups = []
        for group, keys in zip(self.param_groups, self._initial_keys, strict=True):
            first = ranges[-1].stop if ranges else 0
            ranges.append(range(first, first + len(group["params"])))
            if first >= len(names):  # a new group
                names += group.get("param_names") or [f"param{k}" for k in ranges[-1]]
                grad_dtypes += [self._grad_dtype or getattr(param, "grad_dtype", None) or param.dtype
                                for param in group["params"]]  # fmt: skip
                options += [dict(param_options(self._options_of, name)) for name in names[first:]]
            groups.append({"params": [], **keys})
        shards = torch_dtensor.find(params, names)
        for group, numbers in zip(groups, ranges, strict=True):
            for k in numbers:
                what = f"parameter {names[k]!r}"
                described = Param(_memory(local(params[k]), what), grad_dtype=grad_dtypes[k], **options[k])
                if shards is not None:
                    described.shape, described.local_offset = tuple(params[k].shape), shards.offset(params[k], what)
                group["params"].append((names[k], described))
        device = params[0].device if params else torch.device("cpu")
        if shards is not None:
            self._alone = False
            comm = torch_dtensor.communicator(shards, "comm", comm, device)
            shard_comm = torch_dtensor.communicator(shards, "shard_comm", shard_comm, device)
        optimizer = Optimizer(
            groups,
            comm=self._connect(comm, "comm"),
            shard_comm=self._connect(shard_comm, "shard_comm"),
            threads=self._threads,
            stream=_stream_of(device),
        )
        if entries is not None:
            fresh = optimizer.state_dict(stream=_stream_of(device))
            optimizer.load_state_dict({**fresh, **entries}, stream=_stream_of(device))
        if hasattr(self, "optimizer"):
            self.optimizer.close()
        self.optimizer = optimizer
        self._params, self._names, self._grad_dtypes, self._device = params, names, grad_dtypes, device
        self._options = options
        self._is_sharded = shards is not None
        self._layouts = _layouts(params)
        self._entries = Entries(optimizer, names, ranges, lambda: _stream_of(device))
        self._states = States(params, self._entries)
        self._sent_keys = []
        for keys, known in zip(self._initial_keys, optimizer.param_groups, strict=True):
            shown = [*keys, *(name for name in _CHANGEABLE if name not in keys)]
            self._sent_keys.append({name: known[name] for name in shown})

    def _show_keys(self, first: int = 0) -> None:
        """Copy the library's values of keys to all groups, starting with group ``first``. Do not replace tensors."""
        for group, sent in zip(self.param_groups[first:], self._sent_keys[first:], strict=True):
            group.update({name: value for name, value in sent.items() if not isinstance(group.get(name), torch.Tensor)})

    def _connect(self, comm: Any, argument: str) -> Any:
        if not torch.distributed.is_available() or not isinstance(comm, torch.distributed.ProcessGroup):
            return comm
        backends = torch.distributed.get_backend_config(comm)
        if not any(backend.startswith("cpu:") for backend in backends.split(",")):
            raise ValueError(
                f"{argument}: a process group with the backend {backends}; expected one with a backend for the CPU, "
                "such as gloo; for NCCL, pass a libshampoo.NcclComm"
            )
        return ProcessGroupComm(comm)

    @property
    def state(self) -> Any:
        """State of each parameter: ``opt.state[param]`` maps names, such as ``"step"``, to copies of the values."""
        if self._copies is not None:
            return self._copies
        return self._states if hasattr(self, "_states") else {}

    @state.setter
    def state(self, value: Any) -> None:
        if hasattr(self, "optimizer"):
            raise StateError(
                "state: it cannot be replaced; assign to opt.state[param], call load_state_dict(), or make a new "
                "optimizer to start with a fresh state"
            )

    def add_param_group(self, param_group: dict[str, Any]) -> None:
        """Add a parameter group, for example the parameters of a layer that was frozen until now.

        The new parameters start with a fresh state at step 0. The state of all other parameters does not change. Bias
        correction and the refreshes of inverse roots follow the step count of each group. The attribute ``optimizer``
        becomes a new object, whose ``stats()`` count from 0.

        Parameters
        ----------
        param_group
            A dictionary with ``"params"`` and keys. If a key is missing, its value from the constructor is used.

        Raises
        ------
        StateError
            If the optimizer has a communicator or DTensors, or if ``eval`` has replaced the parameters by averages.
        ValueError
            If a parameter is not supported or is already in a group, or if the value of a key is wrong. Nothing has
            changed.
        """
        existing = hasattr(self, "optimizer")
        if existing and not self._alone:
            raise StateError(
                "add_param_group: an optimizer with comm or shard_comm, or with DTensor parameters, cannot take more "
                "parameters, because its blocks would move to other ranks; create a new optimizer with all parameters"
            )
        self._refuse_averages("add_param_group")
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group: {type(param_group).__name__}; expected a dictionary")
        _check_options(param_group, "param_group")
        keys = {name: _plain(name, value) for name, value in {**self._keys, **param_group}.items()
                if name not in _TORCH_ENTRIES}  # fmt: skip
        # Pairs (name, tensor) are split here, because PyTorch before 2.6 does not accept them.
        tensors, names = _split_names(param_group["params"])
        super().add_param_group({**param_group, "params": tensors, **({"param_names": names} if names else {})})
        self._initial_keys.append(keys)
        if not existing:
            return
        try:
            if self._device.type == "cuda":
                self.optimizer.status()  # raises errors of earlier steps, which would be lost otherwise
            self._create(entries=self.optimizer.state_dict(stream=_stream_of(self._device)))
        except BaseException:
            del self.param_groups[-1], self._initial_keys[-1]
            raise
        self._show_keys(len(self.param_groups) - 1)

    def _send_keys(self) -> None:
        """Set each key of the library's optimizer whose value differs from the value in param_groups."""
        for number, (group, sent) in enumerate(zip(self.param_groups, self._sent_keys, strict=True)):
            known = self.optimizer.param_groups[number]
            for name, value in group.items():
                if name not in KEYS:
                    continue
                value = _plain(name, value)
                if name == "gradient_scale" and group.get("maximize", False):
                    value = -value
                if value == (sent[name] if name in sent else known[name]):
                    continue
                if name == "momentum" and self._initial_keys[number].get("momentum", 0) == 0:
                    raise StateError(
                        f"momentum of group {number} is {value!r}, but the optimizer has no state for momentum, "
                        "because momentum was 0 when the optimizer was created; pass cycle_momentum=False to "
                        "OneCycleLR or CyclicLR, or create the optimizer with a momentum above 0"
                    )
                known[name] = value
                sent[name] = value

    def _grad(self, number: int) -> Any:
        """Return a parameter's gradient, or None. If the gradient is not contiguous, return a contiguous copy."""
        grad, what = self._params[number].grad, f"gradient of {self._names[number]!r}"
        if grad is None:
            return None
        grad = torch_dtensor.check_grad(grad, self._params[number], what)
        if grad.dtype is not self._grad_dtypes[number]:
            raise ValueError(
                f"{what}: dtype {grad.dtype}; expected {self._grad_dtypes[number]}, for which the optimizer was "
                f"created. Pass grad_dtype={grad.dtype} to Shampoo, or cast the gradient before the step"
            )
        if grad.layout is torch.strided and not grad.is_neg() and not grad.is_contiguous():
            grad = grad.contiguous()
        return _memory(grad, what)

    @torch.no_grad()
    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run one step.

        Parameters
        ----------
        closure
            Function that computes the gradients and returns the loss. It is called once.

        Returns
        -------
        The loss, if there is a closure.

        Raises
        ------
        ValueError
            If a gradient or parameter is sparse, has the wrong dtype or is otherwise not supported. The message names
            the tensor.
        FloatingPointError
            If a gradient is not finite, a state would overflow, or the call reports such an error of an earlier step.
            With one rank, the step that raises this error has changed nothing.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        self._send_keys()
        stepped = [param for param in self._params if param.grad is not None]
        if not stepped and not self._counts_empty_steps():
            return loss
        self._refuse_averages("step")
        stream = _stream_of(self._device)
        self._bind_params()
        try:
            self.optimizer.step([self._grad(number) for number in range(len(self._params))], stream=stream)
        finally:
            if self._device.type == "cpu":
                self.optimizer.bind(grads=None)  # so that zero_grad() can free the gradients
        for param in stepped:
            increment_version(param)  # so that autograd raises an error if it needs the old value
        return loss

    @torch.no_grad()
    def eval(self) -> None:
        """Replace the parameters by their averages, for evaluation.

        The keys ``averaging`` and ``weight_ema`` select the average. Parameters of groups without an average do not
        change. Between this call and ``train``, a step raises StateError. With several ranks, all ranks must call
        ``eval``. A second call does nothing. The optimizer keeps a copy of the parameters until ``train`` restores
        them.
        """
        if self._trained is not None or not self._has_averages():
            return
        parts = [local(param) for param in self._params]
        weights = [torch.empty_like(part) for part in parts]
        self._bind_params()
        self._synchronize()
        self.optimizer.export([weight.detach() for weight in weights])
        self._synchronize()
        self._trained = [part.detach().clone() for part in parts]
        self._write(weights)

    @torch.no_grad()
    def train(self) -> None:
        """Restore the parameters that ``eval`` has replaced. Do nothing if ``eval`` has replaced none."""
        if self._trained is not None:
            self._write(self._trained)
            self._trained = None

    def _counts_empty_steps(self) -> bool:
        return any(group["count_empty_steps"] or group["weight_ema"] != 0 for group in self.optimizer.param_groups)

    def _has_averages(self) -> bool:
        return any(group["averaging"] != "none" or group["weight_ema"] != 0 for group in self.optimizer.param_groups)

    def _refuse_averages(self, method: str) -> None:
        if self._trained is not None:
            raise StateError(
                f"{method}: the parameters are averages, because opt.eval() was called; call opt.train() first"
            )

    def _synchronize(self) -> None:
        """Wait for all streams: an export uses the stream of the last step, which may not be the current stream."""
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)

    def _write(self, values: list[Any]) -> None:
        for param, value in zip(self._params, values, strict=True):
            local(param).copy_(value)

    def _bind_params(self) -> None:
        """Bind the parameters again if their addresses or strides have changed, such as after the model was moved."""
        layouts = _layouts(self._params)
        if layouts == self._layouts:
            return
        self.optimizer.bind(
            params=[_memory(local(param), f"parameter {name!r}")
                    for name, param in zip(self._names, self._params, strict=True)],
            stream=_stream_of(self._device),
        )  # fmt: skip
        self._layouts = layouts

    def state_dict(self) -> dict[str, Any]:
        """Copy the state of this rank in PyTorch's format: for each parameter, tensors by name, such as ``"step"``.

        Raises
        ------
        StateError
            If the parameters are DTensors (``opt.optimizer.save`` saves the state of all ranks), or if ``eval`` has
            replaced the parameters by averages, to which the state does not belong.
        """
        self._refuse_if_sharded("state_dict")
        self._refuse_averages("state_dict")
        self._copies = {param: self._entries.read_all(number) for number, param in enumerate(self._params)}
        try:
            return dict(super().state_dict())
        finally:
            self._copies = None

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Load a result of ``state_dict``, including the hyper-parameters, as PyTorch's optimizers do.

        Floating-point values are converted to the dtypes of the optimizer's state.

        Parameters
        ----------
        state_dict
            The saved state. Its parameters are matched with those of the optimizer by their order.

        Raises
        ------
        ValueError
            If an entry is missing or unknown, if its shape is wrong or its value is out of range, if a key that cannot
            be changed has another value than in the optimizer, or if the state belongs to another kind of optimizer.
            Nothing has changed.
        StateError
            If the parameters are DTensors (``opt.optimizer.load`` loads the state of all ranks), or if ``eval`` has
            replaced the parameters by averages.
        """
        self._refuse_if_sharded("load_state_dict")
        self._refuse_averages("load_state_dict")
        # PyTorch would convert floating-point state to the dtype of its parameter. Therefore this hook, which runs
        # after all other hooks, writes the state to the library and returns a dictionary without state.
        hook = self.register_load_state_dict_pre_hook(lambda _, state_dict: self._load(state_dict))
        try:
            super().load_state_dict(dict(state_dict))
        finally:
            hook.remove()

    def _refuse_if_sharded(self, method: str) -> None:
        if self._is_sharded:
            raise StateError(
                f"{method}: the parameters are DTensors, and a dictionary would contain the state of one rank only; "
                "on all ranks, call opt.optimizer.save(directory) instead of state_dict(), and "
                "opt.optimizer.load(directory) instead of load_state_dict()"
            )

    def _load(self, state_dict: Mapping[str, Any]) -> dict[str, Any]:
        saved_groups = state_dict["param_groups"]
        ours = {*_CHANGEABLE} - {"lr", "momentum", "weight_decay"}
        for group in saved_groups:
            if ours.isdisjoint(group):
                options = ", ".join(name for name in group if name not in (*_TORCH_ENTRIES, *KEYS))
                raise ValueError(
                    "state: saved by another kind of optimizer, whose groups have "
                    f"{options or 'no keys that only Shampoo has'}; expected the state of a Shampoo optimizer. To "
                    "start with a fresh state, skip load_state_dict()"
                )
        counts, expected = ([len(group["params"]) for group in groups] for groups in (saved_groups, self.param_groups))
        if counts != expected:
            raise ValueError(
                f"state: the numbers of parameters of its groups are {counts}; expected {expected}, as in the optimizer"
            )
        for number, (group, known) in enumerate(zip(saved_groups, self.optimizer.param_groups, strict=True)):
            changeable = {}
            for name, value in group.items():
                if name not in KEYS:
                    continue
                if KEYS[name].changeable:
                    changeable[name] = _plain(name, value)
                elif value != known[name]:
                    raise ValueError(f"state of group {number}: key {name} is {value!r}, but the optimizer was created "
                                     f"with {known[name]!r}, and this key cannot change; create the optimizer with "
                                     f"{name}={value!r}")  # fmt: skip
            make_config(changeable)  # raises an error for a value that the next step could not use
        numbers = [number for group in saved_groups for number in group["params"]]
        values: dict[str, Any] = self._entries.read_unowned()
        for position, number in enumerate(numbers):
            entries = self._entries.by_param[position]
            for name, value in state_dict["state"].get(number, {}).items():
                entry = entries.get(name)
                key = entry.key if entry is not None else f"{self._names[position]}/{name}"
                array = cast(value, entry) if entry is not None else value
                if key in values and values[key] != array:
                    raise ValueError(f"state of {self._names[position]!r}: {name} is {array}, but {values[key]} for "
                                     "other parameters of the same group; expected one value for the "
                                     "group")  # fmt: skip
                values[key] = array
        self.optimizer.load_state_dict(values, stream=_stream_of(self._device))
        return {**state_dict, "state": {}}

    def __getstate__(self) -> dict[str, Any]:
        """Return the data for copy.deepcopy, pickle and torch.save: parameters, groups and state, but no hooks."""
        self._refuse_averages("a copy of the optimizer")
        if not self._alone:
            raise TypeError(
                "a Shampoo optimizer with comm or shard_comm cannot be copied or pickled, because its communicator "
                "cannot be copied; create another optimizer, and load state_dict() into it. For DTensor parameters, "
                "use opt.optimizer.save() and opt.optimizer.load() instead"
            )
        entries: dict[str, Any] = {}
        for number in range(len(self._params)):
            for name, entry in self._entries.by_param[number].items():
                if entry.key not in entries:
                    entries[entry.key] = self._entries.read(number, name)
        kept = ("defaults", "param_groups", "_keys", "_grad_dtype", "_threads", "_initial_keys", "_names",
                "_grad_dtypes", "_options")  # fmt: skip
        return {"entries": entries, **{name: self.__dict__[name] for name in kept}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        entries = state.get("entries")
        super().__setstate__({name: value for name, value in state.items() if name not in ("entries", "state")})
        self.defaults.pop("differentiable", None)  # PyTorch's __setstate__ adds it
        if entries is not None:  # without entries, the caller is PyTorch's load_state_dict
            self._alone, self._copies, self._options_of = True, None, None
            self._trained = None
            self._create(entries={key: to_array(value) for key, value in entries.items()})


_step = Shampoo.step
_step_with_hooks = torch.optim.Optimizer.profile_hook_step(_step)


@functools.wraps(_step)
def _step_once(self: Shampoo, *args: Any, **kwargs: Any) -> Any:
    # PyTorch runs the hooks around the step of a subclass. If that step calls Shampoo.step, no hook must run again.
    is_outermost = type(self).step is Shampoo.step
    return (_step_with_hooks if is_outermost else _step)(self, *args, **kwargs)


# torch.compile must not trace into a step.
Shampoo.step = torch.compiler.disable(_step_once)  # type: ignore[method-assign]
Shampoo.step.hooked = True
