# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The class ``Optimizer``, the main interface of the package."""
from __future__ import annotations

import os
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Any

from . import _native, state
from .buffers import COPY, GRAD, OUT, PARAM, Buffers, Views
from .comm import MpiComm, connect, wrap
from .device import dlpack_stream, find_device
from .errors import Error, StateError
from .groups import Group
from .keys import KEYS, fixed_key, unknown_key
from .params import describe, split_groups
from .plan import Plan, plan_desc

#: Default of arguments for which None is a value with its own meaning.
_KEEP: Any = object()

STATS = (
    "steps", "skipped_steps", "nonfinite_blocks", "root_computed", "root_scalar", "root_diagonal", "root_eigen",
    "root_newton", "root_higher_order", "root_cans", "root_retried", "root_retried_float64", "root_retried_eigen",
    "root_retried_dsyevr", "root_retried_dsyev", "root_retried_device", "root_retried_device_newton", "root_reused",
)  # fmt: skip


def _key_attribute(name: str) -> Any:
    """Create a property for a key. Its getter returns the value of the first group; its setter changes all groups."""

    def get(optimizer: Optimizer) -> Any:
        return optimizer.param_groups[0][name]

    def put(optimizer: Optimizer, value: Any) -> None:
        groups = optimizer.param_groups
        before = [group[name] for group in groups]
        for number, group in enumerate(groups):
            try:
                group[name] = value
            except Exception:
                for changed, old in zip(groups[:number], before):
                    changed[name] = old
                raise

    doc = f"{KEYS[name].doc}\n\nThe value of the first group. Setting it changes all groups or, on failure, no group."
    return property(get, put, doc=doc)


class Optimizer:
    """A Shampoo optimizer that updates the caller's arrays in place. ``libshampoo.Shampoo`` is an alias.

    Only one thread at a time can use an optimizer. Several threads can use different optimizers at the same time.
    Create an optimizer after a fork, not before.

    Keys that can be changed between steps are attributes, such as ``lr`` and ``weight_decay``. Reading an attribute
    returns the value of the first group, and setting it changes all groups. Other attributes cannot be set on an
    ``Optimizer``. A subclass can set its own attributes. If the name of such an attribute is a key, the subclass
    must define the attribute in its class body.

    Parameters
    ----------
    params
        A mapping from names to arrays, a sequence of arrays or of pairs (name, array), or a list of groups. A group is
        a dictionary with the item ``"params"`` and an item for each hyper-parameter that the group sets. A mapping can
        contain mappings, lists and tuples: the array ``params["layers"][0]["w"]`` has the name "layers/0/w". Arrays are
        NumPy arrays or support DLPack. They are dense and row-major, of float32, float64, float16 or bfloat16. To add
        information that an array does not have, such as a role, pass a ``Param`` instead of the array. Checkpoints
        identify parameters by their names. Read-only arrays, such as those of JAX, need output="updates".
    device
        "cpu", "cuda" or a numbered device such as "cuda:1". None: the device of the first parameter.
    comm, shard_comm
        ``comm`` connects ranks that hold the same parameters. ``shard_comm`` connects ranks that hold the shards of one
        copy of the parameters. Each argument is a communicator of mpi4py, a ``Communicator``, a ``NativeComm``, a
        ``NcclComm``, or None. Creating an optimizer with a communicator is collective.
    threads
        Number of threads that work on a step. 0: as many as are useful, at most one for each available processor.
    grad_dtype, out_dtype, copy_dtype
        Dtypes of the gradients, and of the arrays ``out`` and ``copy`` of ``bind``. The default is the dtype of the
        parameter. For example, use grad_dtype="bfloat16" for bfloat16 gradients of float32 parameters.
    stream
        CUDA stream on which the state is initialized.
    **keys
        Hyper-parameters such as ``lr`` and ``grafting``, for all groups that do not set them. ``libshampoo.KEYS`` lists
        all hyper-parameters with their documentation.

    Raises
    ------
    ValueError
        If a value is out of range or an array cannot be used. The message names the key or the parameter.
    TypeError
        If a keyword is not a key, or the value of a key has the wrong type.

    Examples
    --------
    >>> import numpy, libshampoo
    >>> w = numpy.ones((4, 3), numpy.float32)
    >>> opt = libshampoo.Optimizer({"w": w}, lr=0.5, grafting="adam")
    >>> for _ in range(100):
    ...     opt.step({"w": w.copy()})
    >>> bool(abs(w).max() < 1e-2)
    True
    """

    def __init__(
        self,
        params: Any,
        *,
        device: str | None = None,
        comm: Any = None,
        shard_comm: Any = None,
        threads: int = 0,
        grad_dtype: Any = None,
        out_dtype: Any = None,
        copy_dtype: Any = None,
        stream: int = 0,
        **keys: Any,
    ) -> None:
        self._handle: _native.shampoo_optimizer | None = None
        self._lock = threading.Lock()
        self._process = os.getpid()
        self._comms: list[MpiComm] = []
        found, group_keys = split_groups(params, grad_dtype=grad_dtype, out_dtype=out_dtype, copy_dtype=copy_dtype)
        views: Views = [
            _native.View(param.array, f"parameter {name!r}", dlpack_stream(stream)) for name, param, _ in found
        ]
        described = [
            describe(name, param, group, view) for (name, param, group), view in zip(found, views, strict=True)
        ]
        self._device = find_device(device, views[0])
        self._buffers = Buffers(described, self._device)
        self._buffers.check(PARAM, views)
        comm, own = wrap(comm)
        shard_comm, shard_own = wrap(shard_comm)
        self._comms = own + shard_own
        replica_comm, replica = connect(comm)
        shards, shard = connect(shard_comm)
        if replica_comm is None or shards is None:
            self._world = replica_comm or shards
        else:
            self._world = _KEEP  # neither communicator connects all ranks, so save() and load() need the argument world
        self._plan = Plan(described, group_keys, keys, plan_desc(self._device[0], threads, replica, shard))
        desc = _native.shampoo_optimizer_desc()
        desc.device_type, desc.device_id = self._device
        desc.replica_comm, desc.shard_comm, desc.stream = replica_comm, shards, stream or None
        try:
            self._plan.finish()
        except Error:
            # The other ranks wait in shampoo_optimizer_create. This call reports to them that this rank has no plan.
            with suppress(Error):
                _native.shampoo_optimizer_create(self._plan.handle, desc)
            raise
        outputs = [_native.shampoo_config_get(config, "output") for config in self._plan.configs]
        for number, output in enumerate(outputs):
            if output != outputs[0]:  # the class Buffers binds the outputs of all groups in the same way
                raise ValueError(
                    f"key output: the value is {outputs[0]!r} in group 0, but {output!r} in group {number}; expected "
                    "the same value in all groups. Create a separate optimizer for each value"
                )
        self._updates = outputs[0] == "updates"
        none: Views = [None] * len(views)
        self._buffers.check_written([views, none, none if self._updates else views, none])
        self._has_grads = False
        self._scalars: dict[tuple[int, str], _native.View | None] = {}

        self._handle = _native.shampoo_optimizer_create(self._plan.handle, desc)
        self._buffers.bind(self._handle, {PARAM: views} if self._updates else {PARAM: views, OUT: views})
        self._groups = [
            Group(self, number, config, [name for name, _, group in found if group == number])
            for number, config in enumerate(self._plan.configs)
        ]

    if not TYPE_CHECKING:  # type checkers report unknown attributes themselves

        def __setattr__(self, name: str, value: Any) -> None:
            if not name.startswith("_") and not hasattr(type(self), name):
                if name in KEYS:
                    raise AttributeError(fixed_key(name))
                if type(self) is Optimizer:
                    raise AttributeError(f"an Optimizer has no attribute {name!r}: {unknown_key(name)}")
            super().__setattr__(name, value)

        def __getattr__(self, name: str) -> Any:
            hint = f': read the key as param_groups[0]["{name}"]' if name in KEYS else ""
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}{hint}", name=name, obj=self)

    @property
    def param_groups(self) -> list[Group]:
        """Parameter groups. Each group is a mapping from keys to their values."""
        return self._groups

    @contextmanager
    def _using(self) -> Iterator[_native.shampoo_optimizer]:
        if not self._lock.acquire(blocking=False):
            raise StateError(
                "the optimizer is in use by another thread or by an unfinished call of this thread; only one call at a "
                "time can use it"
            )
        try:
            if self._handle is None:
                raise StateError("the optimizer is closed")
            if self._process != os.getpid():
                raise StateError(
                    "the optimizer was created before a fork, and a fork does not copy threads; create the optimizer "
                    "in the child process, after the fork"
                )
            yield self._handle
        finally:
            self._lock.release()

    def step(self, grads: Any = None, *, stream: int = 0) -> None:
        """Run one step. The step releases the GIL, so other Python threads can run.

        Parameters
        ----------
        grads
            Gradients: a mapping by name, which can be nested, or a sequence in the order of the parameters. A parameter
            without a gradient (None or missing) does not change. Gradients are read in place, and stay bound until
            other gradients are passed. A gradient that is not row-major, such as a transposed array, is copied when it
            is passed; on CUDA it raises ValueError. If ``grads`` is None, the step uses the bound gradients.
        stream
            On CUDA, the cudaStream_t in which the step is enqueued, as an integer. 0 is the legacy default stream.

        Raises
        ------
        ValueError
            If ``grads`` is an empty mapping, or a gradient has the wrong dtype, shape or device. The message names the
            gradient.
        FloatingPointError
            If a gradient is not finite, a state would overflow, or the call reports such an error of an earlier step.
            With one rank, parameters and state have not changed, but the passed gradients are now bound.
        """
        with self._using() as handle:
            if grads is not None:
                self._bind(handle, grads=grads, stream=stream)
            elif not self._has_grads:
                raise StateError("step: there are no gradients yet; pass them to step, or bind them first")
            _native.shampoo_optimizer_step(handle, stream or None)
            self._buffers.release_retired()

    def export(self, weights: Any, *, blend: float = 1.0) -> None:
        """Write averages of the parameters to other arrays, for evaluation and for use after training.

        The keys ``averaging`` and ``weight_ema`` select the average. Parameters of groups without an average are
        copied. The parameters and the state do not change. With several ranks, all ranks must call this method.

        Parameters
        ----------
        weights
            Arrays to write: a mapping by name, which can be nested and can omit parameters, or a sequence in the order
            of the parameters, in which None omits a parameter. The arrays must not overlap the parameters.
        blend
            A number in [0, 1]: the result is (1 - blend) * parameter + blend * average.

        Raises
        ------
        ValueError
            If an array has the wrong dtype or shape, is read-only, or overlaps its parameter.

        Examples
        --------
        >>> import numpy as np, libshampoo
        >>> params = {"w": np.ones((4, 3), np.float32)}
        >>> opt = libshampoo.Optimizer(params, weight_ema=0.9)
        >>> opt.step({"w": np.ones((4, 3), np.float32)})
        >>> average = {"w": np.empty_like(params["w"])}
        >>> opt.export(average)
        >>> bool((average["w"] == params["w"]).all())  # after step 1, the average is equal to w
        True
        """
        with self._using() as handle:
            _native.shampoo_optimizer_export(handle, float(blend), self._buffers.read(OUT, weights, 0, keeps=False))

    def bind(
        self, *, params: Any = _KEEP, grads: Any = _KEEP, out: Any = _KEEP, copy: Any = _KEEP, stream: int = 0
    ) -> None:
        """Set the arrays that all later steps use. If an argument is not passed, its arrays stay bound.

        A mapping can omit parameters. In ``grads``, an omitted parameter has no gradient. In the other mappings, an
        omitted parameter keeps its array.

        Parameters
        ----------
        params
            New arrays for the parameters. Steps update these arrays in place unless ``out`` is set.
        grads
            Gradients. Later steps read the arrays in place. An array that is not row-major is copied now, so later
            changes of that array have no effect. None: no parameter has a gradient.
        out
            Arrays to which steps write the new parameters or, with output="updates", the updates. With
            output="updates", every parameter that has a gradient needs an array in ``out``. With
            output="parameters", ``out`` can be None: steps then write the new parameters to the arrays of ``params``.
        copy
            Arrays to which steps write the new parameters a second time, for example a bfloat16 model in addition to
            float32 weights.
        stream
            CUDA stream on which later steps read the arrays.
        """
        with self._using() as handle:
            self._bind(handle, params=params, grads=grads, out=out, copy=copy, stream=stream)

    def _bind(
        self,
        handle: _native.shampoo_optimizer,
        *,
        params: Any = _KEEP,
        grads: Any = _KEEP,
        out: Any = _KEEP,
        copy: Any = _KEEP,
        stream: int = 0,
    ) -> None:
        before, changed = self._buffers.views, {}
        for role, arrays in ((PARAM, params), (GRAD, grads), (OUT, out), (COPY, copy)):
            if arrays is not _KEEP:
                changed[role] = self._buffers.read(role, arrays, dlpack_stream(stream))
        if not self._updates and out is None:
            changed[OUT] = changed.get(PARAM, before[PARAM])
        elif not self._updates and PARAM in changed:  # a parameter without a separate output is updated in place
            changed[OUT] = [
                new if now is old else now
                for new, old, now in zip(changed[PARAM], before[PARAM], changed.get(OUT, before[OUT]), strict=True)
            ]
        self._buffers.bind(handle, changed)
        self._has_grads = self._has_grads or GRAD in changed

    @property
    def plan(self) -> Plan:
        """Plan of the optimizer: its blocks, their owners and their memory."""
        return self._plan

    lr = _key_attribute("lr")
    beta1 = _key_attribute("beta1")
    beta2 = _key_attribute("beta2")
    epsilon = _key_attribute("epsilon")
    root_relative_epsilon = _key_attribute("root_relative_epsilon")
    momentum = _key_attribute("momentum")
    weight_decay = _key_attribute("weight_decay")
    grafting_beta2 = _key_attribute("grafting_beta2")
    grafting_epsilon = _key_attribute("grafting_epsilon")
    shampoo_beta = _key_attribute("shampoo_beta")
    adam_lr = _key_attribute("adam_lr")
    gradient_scale = _key_attribute("gradient_scale")

    def status(self, wait: bool = True) -> None:
        """If steps on CUDA have failed, raise the first error that no earlier call has reported.

        On the CPU, ``step`` raises all errors of steps, so this method raises none.

        Parameters
        ----------
        wait
            Whether to wait for the steps that are enqueued.

        Raises
        ------
        FloatingPointError
            If a gradient was not finite or a state would have overflowed. The attribute ``step`` of the exception is
            the number of the step that failed.
        """
        with self._using() as handle:
            _native.shampoo_optimizer_status(handle, int(wait))

    def bind_scalar(self, name: str, value: Any, *, group: int = 0, stream: int = 0) -> None:
        """Make each step read a hyper-parameter from an array with one element.

        Parameters
        ----------
        name
            "lr", "beta1", "weight_decay" or "gradient_scale". "beta1" is allowed only if the optimizer was
            created with beta1 above 0.
        value
            Array of float32 or float64. On CUDA, it must be in device memory. If ``value`` is None, steps stop reading
            an array. On the CPU, they then use the value that was read last, until the key is set. On CUDA, they use
            the value that was set last.
        group
            Number of the parameter group.
        stream
            CUDA stream on which later steps read the array.
        """
        with self._using() as handle:
            view = None if value is None else _native.View(value, name, dlpack_stream(stream))
            dtype = _native.SHAMPOO_F32
            if view is not None:
                dtype = view.dtype
                view.check(name, dtype, (1,) * len(view.shape), *self._device, PARAM)
            _native.shampoo_optimizer_bind_scalar(handle, group, name, dtype, None if view is None else view.pointer)
            self._buffers.retire([self._scalars.get((group, name))])
            self._scalars[group, name] = view

    def stat(self, name: str) -> float:
        """Return one counter. The comment of ``shampoo_optimizer_stat()`` in shampoo.h lists the names."""
        with self._using() as handle:
            return _native.shampoo_optimizer_stat(handle, name)

    def stats(self) -> dict[str, int]:
        """Return the counters of steps and inverse roots since the optimizer was created."""
        with self._using() as handle:
            return {name: int(_native.shampoo_optimizer_stat(handle, name)) for name in STATS}

    def state_dict(self, *, stream: int = 0) -> dict[str, Any]:
        """Copy the state of this rank into NumPy arrays by name. The package safetensors can store the result.

        If ml_dtypes is not installed, a bfloat16 array is returned as a uint16 array with the bits of the elements.

        Parameters
        ----------
        stream
            CUDA stream on which the state is copied.
        """
        with self._using() as handle:
            return state.read(handle, stream)

    def load_state_dict(self, entries: Any, *, stream: int = 0) -> None:
        """Restore a state that ``state_dict`` returned. Hyper-parameters do not change.

        Parameters
        ----------
        entries
            Arrays by name.
        stream
            CUDA stream on which the state is copied.

        Raises
        ------
        ValueError
            If an entry is missing, unknown, or has the wrong shape or dtype. The state has not changed.
        """
        with self._using() as handle:
            state.write(handle, entries, stream)

    def save(self, directory: Any, *, world: Any = _KEEP, stream: int = 0) -> None:
        """Save the state of all ranks as a checkpoint. Collective.

        Parameters
        ----------
        directory
            Directory for checkpoints, which is created if it does not exist. Only the newest checkpoints are
            kept (key "checkpoint_keep").
        world
            Communicator of all ranks of the job. The default is the communicator of the optimizer. Required if the
            optimizer has both ``comm`` and ``shard_comm``.
        stream
            CUDA stream on which the state is copied.
        """
        from .checkpoint import save

        save([self], directory, world=self._all_ranks(world), stream=stream)

    def load(self, directory: Any, *, world: Any = _KEEP, stream: int = 0) -> None:
        """Load a checkpoint. Collective.

        Parameters
        ----------
        directory
            A directory that was passed to ``save``, or an index file ``checkpoint-<number>.json`` in such a directory.
            From a directory, the last complete checkpoint is loaded.
        world
            Communicator of all ranks of the job. The default is the communicator of the optimizer. Required if the
            optimizer has both ``comm`` and ``shard_comm``.
        stream
            CUDA stream on which the state is copied.

        Raises
        ------
        ValueError
            If the checkpoint does not match the optimizer, for example in parameters, dtypes, method, grafting or
            blocks.
        OSError
            If there is no checkpoint, or a file is missing or damaged. The state has not changed, unless the load
            failed after it had begun to write states (docs/checkpoints.md).
        """
        from .checkpoint import load

        load([self], directory, world=self._all_ranks(world), stream=stream)

    def _all_ranks(self, world: Any) -> Any:
        world = self._world if world is _KEEP else world
        if world is _KEEP:
            raise TypeError(
                "world: missing; expected a communicator of all ranks, because the optimizer has both comm and "
                "shard_comm"
            )
        return world

    def close(self) -> None:
        """Free the memory and threads of the optimizer, and release the bound arrays. A second call has no effect.

        If ``comm`` or ``shard_comm`` is a communicator of mpi4py, ``close`` is collective, because it also closes the
        ``MpiComm`` that the optimizer has created from this communicator.
        """
        self._destroy()
        while self._comms:
            self._comms.pop().close()

    def _destroy(self) -> None:
        if self._handle is None:
            return
        with self._using() as handle:
            self._handle = None
            _native.shampoo_optimizer_destroy(handle)
            self._buffers.release()
            self._scalars.clear()
            self._world = None  # a communicator must be destroyed after the optimizers that use it

    def __copy__(self) -> Optimizer:
        raise TypeError(
            "an optimizer cannot be copied; create another one, and pass the result of state_dict() to its "
            "load_state_dict()"
        )

    def __deepcopy__(self, memo: Any) -> Optimizer:
        return self.__copy__()

    def __reduce__(self) -> Any:
        raise TypeError("an optimizer cannot be pickled; call save(), or pickle the result of state_dict()")

    # Default arguments keep the two functions: at interpreter exit, names of this module may already be None.
    def __del__(
        self, _getpid: Callable[[], int] = os.getpid, _is_finalizing: Callable[[], bool] = sys.is_finalizing
    ) -> None:
        handle = self.__dict__.get("_handle")
        if handle is not None and self._process != _getpid():
            handle.disown()  # the optimizer's threads and its memory on a GPU belong to another process
        elif handle is not None and not _is_finalizing():  # at exit, the handle frees the optimizer without Python code
            self._destroy()  # close() would be collective, and other ranks might not call it

    def __enter__(self) -> Optimizer:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        if self._handle is None:
            return "Optimizer(closed)"
        try:
            rate = f"lr={self.lr:g}"
        except StateError:  # the optimizer is in use by another call, or was created before a fork
            rate = "lr unavailable"
        head, *lines = repr(self._plan).split("\n")
        device = "cpu" if self._device[0] == _native.SHAMPOO_CPU else f"cuda:{self._device[1]}"
        return "\n".join([f"Optimizer({rate}, {device}, {head.removeprefix('Plan(')}", *lines])
