# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that an optimizer uses the caller's arrays in place and keeps them alive, and that errors name the array."""
from __future__ import annotations

import gc
import importlib.util
import weakref
from typing import Any

import numpy as np
import pytest

import libshampoo
from libshampoo import _native
from tools import OldDlpack, OnlyDlpack, bfloat16


def test_bind_uses_the_memory_of_its_arrays() -> None:
    w, grad, out, copy = (np.ones((4, 3), np.float32) for _ in range(4))
    opt = libshampoo.Optimizer([w])
    opt.bind(grads=[OnlyDlpack(grad)], out=[out], copy=[OnlyDlpack(copy)])
    pointers = [view.pointer for (view,) in opt._buffers.views]
    assert pointers == [array.ctypes.data for array in (w, grad, out, copy)]


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OldDlpack], ids=["numpy", "dlpack", "old_dlpack"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_all_dtypes_are_supported(dtype: str, wrap: Any) -> None:
    if dtype == "bfloat16" and wrap in (OnlyDlpack, OldDlpack):
        pytest.skip("NumPy cannot export bfloat16 by DLPack")
    kind = np.dtype(bfloat16() if dtype == "bfloat16" else dtype)
    w = np.ones((4, 3), kind)
    opt = libshampoo.Optimizer([wrap(w)], lr=0.5)
    opt.step([wrap(np.ones((4, 3), kind))])
    assert (w.astype(np.float32) < 1).all()


def rejects(match: str, array: Any, **options: Any) -> None:
    w = np.ones((4, 3), np.float32)
    opt = libshampoo.Optimizer({"layer.weight": w}, **options)
    with pytest.raises(ValueError, match=match):
        opt.step({"layer.weight": array})
    assert (w == 1).all()


def grid(dtype: Any = np.float32) -> np.ndarray:
    return np.ones((8, 6), dtype)


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OldDlpack], ids=["numpy", "dlpack", "old_dlpack"])
def test_the_error_for_a_wrong_array_names_its_parameter(wrap: Any) -> None:
    who = "gradient of 'layer.weight': "
    rejects(who + "dtype float64", wrap(np.ones((4, 3))))
    rejects(who + 'dtype float64; expected float32, .* Create .* with grad_dtype="float64"', wrap(np.ones((4, 3))))
    rejects(who + "dtype int32", wrap(np.ones((4, 3), np.int32)))
    rejects(who + r"shape \(3, 4\); expected \(4, 3\)", wrap(np.ones((3, 4), np.float32)))
    rejects(who + r"shape \(12,\)", wrap(np.ones(12, np.float32)))


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OldDlpack], ids=["numpy", "dlpack", "old_dlpack"])
def test_parameters_that_are_not_row_major_are_rejected(wrap: Any) -> None:
    for array in (grid()[::2, ::2], grid()[:4, :3], np.asfortranarray(np.ones((4, 3), np.float32)), grid()[::-1]):
        with pytest.raises(ValueError, match=r"parameter 'w': its strides .* numpy\.ascontiguousarray.*memory_format"):
            libshampoo.Optimizer({"w": wrap(array)})
    opt = libshampoo.Optimizer({"w": np.ones((4, 3), np.float32)})
    with pytest.raises(ValueError, match=r"output of 'w': its strides .* numpy\.ascontiguousarray"):
        opt.bind(out={"w": wrap(grid()[:4, :3])})
    # A dim of length 1 may have any stride.
    w = np.ones((4, 1), np.float32)
    libshampoo.Optimizer([w]).step([wrap(grid()[:1, :4].T)])


def check_copies(grads: list[Any], dtype: Any) -> None:
    """Check that steps with ``grads`` and steps with row-major copies of ``grads`` give bit-identical parameters."""
    shapes = [np.shape(grad.array if isinstance(grad, OnlyDlpack) else grad) for grad in grads]
    arrays = [grad.array if isinstance(grad, OnlyDlpack) else grad for grad in grads]
    given, copied = ([np.full(shape, 2, dtype) for shape in shapes] for _ in range(2))
    one, other = (libshampoo.Optimizer(params, lr=0.5) for params in (given, copied))
    for _ in range(2):
        one.step(grads)
        other.step([np.array(array, order="C") for array in arrays])
    assert [array.tobytes() for array in given] == [array.tobytes() for array in copied]
    assert all((array != 2).any() for array in given if array.size > 0)


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OldDlpack], ids=["numpy", "dlpack", "old_dlpack"])
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_gradients_that_are_not_row_major_are_copied(dtype: str, wrap: Any) -> None:
    if dtype == "bfloat16" and wrap in (OnlyDlpack, OldDlpack):
        pytest.skip("NumPy cannot export bfloat16 by DLPack")
    kind = np.dtype(bfloat16() if dtype == "bfloat16" else dtype)

    def numbers(*shape: int) -> np.ndarray:
        return np.random.default_rng(1).standard_normal(shape).astype(kind)

    check_copies(
        [wrap(array) for array in (
            numbers(70, 50).T, numbers(8, 6)[::2, ::2], numbers(8, 6)[::-1, ::-1], numbers(9)[::-2],
            numbers(2, 3, 4, 5).transpose(0, 2, 3, 1), numbers(2, 3, 4, 5).transpose(3, 2, 1, 0),
            numbers(3, 1, 5).T, numbers(4, 0, 3).T, numbers(5, 7)[:, 2],
        )], kind,
    )  # fmt: skip
    if wrap not in (OnlyDlpack, OldDlpack):  # only NumPy 2.1 and later export read-only arrays by DLPack
        frozen = numbers(4, 6).T
        frozen.setflags(write=False)
        check_copies([np.broadcast_to(numbers(3), (4, 3)), np.broadcast_to(numbers(1)[0], (3, 2, 4)), frozen], kind)


def test_a_gradient_that_is_not_row_major_is_copied_when_it_is_passed() -> None:
    w, source = np.zeros((4, 3), np.float32), np.ones((3, 4), np.float32)
    kept = weakref.ref(source)
    opt = libshampoo.Optimizer([w], lr=0.5, grafting="sgd", beta1=0.0)
    opt.bind(grads=[source.T])
    source[:] = np.nan
    del source
    gc.collect()
    assert kept() is None, "the array must be released after it was copied"
    opt.step()
    assert np.isfinite(w).all() and (w != 0).all()
    # The gradient may be a transposed view of the parameter: the view is copied before the step writes the parameter.
    square = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    libshampoo.Optimizer([square], lr=0.1).step([square.T])


def test_pytorch_parameters_must_be_row_major_but_gradients_need_not() -> None:
    torch = pytest.importorskip("torch")
    w = torch.ones(2, 3, 4, 4)
    opt = libshampoo.Optimizer([w], lr=0.5)
    opt.step([torch.ones(2, 3, 4, 4).contiguous(memory_format=torch.channels_last)])
    opt.step([torch.ones(1).expand(2, 3, 4, 4)])
    assert (w < 1).all()
    with pytest.raises(ValueError, match="its strides"):
        libshampoo.Optimizer([w.contiguous(memory_format=torch.channels_last)])


def test_negated_views_of_pytorch_are_rejected() -> None:
    torch = pytest.importorskip("torch")
    negated = torch.full((3,), 1j).conj().imag  # all elements are -1
    assert negated.is_neg()
    w = torch.zeros(3)
    opt = libshampoo.Optimizer([w], lr=0.5)
    with pytest.raises(ValueError, match=r"gradient of 'param0': a negated view; pass tensor.resolve_neg\(\)"):
        opt.step([negated])
    with pytest.raises(ValueError, match=r"parameter 'param0': a negated view"):
        libshampoo.Optimizer([negated])
    opt.step([negated.resolve_neg()])
    assert (w > 0).all()


@pytest.mark.parametrize("package", ["numpy", "jax", "torch"])
def test_32_bit_parameters_can_have_16_bit_gradients(package: str) -> None:
    if importlib.util.find_spec(package) is None:
        pytest.skip(f"{package} is not installed")
    kind = bfloat16()
    grad: Any = np.ones((4, 3), kind)
    dtype: Any = kind
    if package == "jax":
        import jax.numpy

        grad, dtype = jax.numpy.ones((4, 3), jax.numpy.bfloat16), jax.numpy.bfloat16
    elif package == "torch":
        import torch

        grad, dtype = torch.ones(4, 3, dtype=torch.bfloat16), torch.bfloat16
    for name in ("bfloat16", "bf16", dtype):
        w = np.ones((4, 3), np.float32)
        libshampoo.Optimizer([w], lr=0.5, grad_dtype=name).step([grad])
        assert (w < 1).all()
    with pytest.raises(ValueError, match='dtype bfloat16; expected float32, .* Create .* with grad_dtype="bfloat16"'):
        libshampoo.Optimizer([w]).step([grad])


def test_arrays_that_cannot_be_used_are_rejected() -> None:
    rejects("gradient of 'layer.weight': its byte order", np.ones((4, 3), ">f4"))
    rejects("gradient of 'layer.weight': its address", np.zeros(49, np.uint8)[1:].view(np.float32).reshape(4, 3))
    rejects("gradient of 'layer.weight': on a device of DLPack type 10", OnlyDlpack(np.ones((4, 3), np.float32), (10, 0)))
    opt = libshampoo.Optimizer({"w": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="gradient of 'v'"):
        opt.step({"v": np.ones(3, np.float32)})
    with pytest.raises(ValueError, match="gradient arrays: 2; expected 1"):
        opt.step([np.ones(3, np.float32)] * 2)
    with pytest.raises(ValueError, match='output of .* Create the optimizer with out_dtype="float64"'):
        opt.bind(out=[np.ones(3)])
    with pytest.raises(TypeError, match="gradient of 'w': list is not an array"):
        opt.step({"w": [1.0, 2.0, 3.0]})
    with pytest.raises(ValueError, match="device: 'tpu'; expected"):
        libshampoo.Optimizer([np.ones(3, np.float32)], device="tpu")


def test_arrays_that_cannot_be_written_are_rejected() -> None:
    frozen = np.ones(3, np.float32)
    frozen.setflags(write=False)
    with pytest.raises(ValueError, match="parameter 'w': read-only; .* NumPy array .* output=.updates.*libshampoo.jax"):
        libshampoo.Optimizer({"w": frozen})
    of_jax = type("ArrayImpl", (OnlyDlpack,), {"__module__": "jaxlib._jax"})
    with pytest.raises(ValueError, match="parameter 'w': read-only"):
        libshampoo.Optimizer({"w": of_jax(np.ones(3, np.float32))})
    opt = libshampoo.Optimizer({"w": np.ones(3, np.float32)})
    opt.step({"w": of_jax(np.ones(3, np.float32))})
    opt.step({"w": frozen})
    with pytest.raises(ValueError, match="output of 'w': read-only"):
        opt.bind(out={"w": frozen})
    with pytest.raises(ValueError, match="parameter 'v': overlaps the parameter 'w'"):
        same = np.ones(3, np.float32)
        libshampoo.Optimizer({"w": same, "v": same})
    with pytest.raises(ValueError, match="read-only"):
        libshampoo.Optimizer([np.float32(1)])


def test_a_step_that_outputs_updates_does_not_write_parameters() -> None:
    array, out = np.ones(3, np.float32), np.zeros(3, np.float32)
    of_jax = type("ArrayImpl", (OnlyDlpack,), {"__module__": "jaxlib._jax"})
    opt = libshampoo.Optimizer({"w": of_jax(array)}, output="updates", lr=0.5)
    opt.bind(out=[out])
    opt.step([of_jax(np.ones(3, np.float32))])
    opt.bind(params=[of_jax(np.full(3, 2, np.float32))])
    opt.step()
    assert (array == 1).all() and (out < 0).all()
    plain = libshampoo.Optimizer({"w": array})
    plain.bind(params=[of_jax(array)], out=[out])
    with pytest.raises(ValueError, match="parameter 'w': read-only"):
        plain.bind(out=None)


def test_output_updates_for_only_one_of_two_groups_is_rejected() -> None:
    """Checks that the key ``output`` can be ``updates`` only if all groups set it to ``updates``."""
    first, second = np.ones(3, np.float32), np.ones(3, np.float32)
    for group in (0, 1):
        groups: list[dict[str, Any]] = [{"params": {"w": first}}, {"params": {"v": second}}]
        groups[group]["output"] = "updates"
        with pytest.raises(ValueError, match="key output: the value is .* in group 0, but .* in group 1; expected"):
            libshampoo.Optimizer(groups)
    both = libshampoo.Optimizer([{"params": {"w": first}}, {"params": {"v": second}}], output="updates")
    both.step({"w": None, "v": None})


def test_tensors_that_require_gradients_are_updated_in_place() -> None:
    class Trained(OnlyDlpack):
        requires_grad = True

        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("Can't export tensors that require gradient, use tensor.detach()")

        def detach(self) -> OnlyDlpack:
            return OnlyDlpack(self.array)

    w = np.ones(3, np.float32)
    libshampoo.Optimizer([Trained(w)], lr=0.5).step([np.ones(3, np.float32)])
    assert (w < 1).all()


def test_paddle_tensors_are_updated_in_place() -> None:
    """``Tensor`` and ``Parameter`` imitate Paddle: the CPU has no number, and only detached tensors can be exported."""

    class Tensor(OnlyDlpack):
        stop_gradient = True

        def __init__(self, array: np.ndarray) -> None:
            super().__init__(array, (1, None))  # type: ignore[arg-type]

    class Parameter(Tensor):
        stop_gradient = False

        def __dlpack__(self, **options: Any) -> Any:
            raise RuntimeError("Can't export Tensor that requires gradient, use tensor.detach() instead.")

        def detach(self) -> Tensor:
            return Tensor(self.array)

    w = np.ones(3, np.float32)
    libshampoo.Optimizer([Parameter(w)], lr=0.5).step([Tensor(np.ones(3, np.float32))])
    assert (w < 1).all()


def test_tensorflow_variables_are_rejected_as_parameters() -> None:
    class Variable:
        def numpy(self) -> Any:
            return np.ones(3, np.float32)

        def assign(self, value: Any) -> None:
            pass

    with pytest.raises(TypeError, match=r"parameter 'w': Variable .* pass NumPy arrays, .* variable\.assign\(array\)"):
        libshampoo.Optimizer({"w": Variable()})
    eager = type("EagerTensor", (OnlyDlpack,), {"__module__": "tensorflow.python.framework.ops"})
    with pytest.raises(ValueError, match=r"parameter 'w': read-only; .* NumPy array .* variable\.assign\(array\)"):
        libshampoo.Optimizer({"w": eager(np.ones(3, np.float32))})
    w = np.ones(3, np.float32)
    libshampoo.Optimizer([w], lr=0.5).step([eager(np.ones(3, np.float32))])
    assert (w < 1).all()
    tensor = type("Tensor", (Variable,), {"__module__": "tinygrad.tensor"})
    with pytest.raises(TypeError, match="parameter 'w': Tensor of tinygrad: use libshampoo.tinygrad.Shampoo"):
        libshampoo.Optimizer({"w": tensor()})


def test_arrays_that_a_step_writes_must_not_overlap_others() -> None:
    whole = np.ones(24, np.float32)
    w, v = whole[:4], whole[4:8]
    for other in (whole[3:7], whole[0:4]):
        with pytest.raises(ValueError, match="overlaps the parameter '[wv]', to which a step writes"):
            libshampoo.Optimizer({"w": w, "v": other})
    opt = libshampoo.Optimizer({"w": w, "v": v})
    opt.step({"v": whole[8:12], "w": whole[8:12]})  # gradients may overlap: they are only read
    for rejected_call, message in (
        (lambda: opt.step({"v": whole[7:11]}), "gradient of 'v': overlaps the parameter 'v'"),
        (lambda: opt.step({"v": whole[:4]}), "gradient of 'v': overlaps the parameter 'w'"),
        (lambda: opt.bind(out={"w": whole[6:10]}), "overlaps the"),
        (lambda: opt.bind(copy={"w": whole[12:16], "v": whole[13:17]}), "copy of 'v': overlaps the copy of 'w'"),
        (lambda: opt.bind(params={"w": whole[5:9]}), "overlaps the"),
        (lambda: opt.bind(out={"w": whole[10:14]}), "gradient of 'w': overlaps the output of 'w'"),
    ):
        before = opt._buffers.views
        with pytest.raises(ValueError, match=message):
            rejected_call()
        assert opt._buffers.views is before
    opt.bind(out={"w": w, "v": whole[16:20]}, copy=[whole[20:24], None])
    opt.step()


def test_parameters_missing_in_a_mapping_keep_their_arrays() -> None:
    w, v, other, out, copy = (np.ones(4, np.float32) for _ in range(5))
    opt = libshampoo.Optimizer({"w": w, "v": v}, lr=0.5)
    grads = [np.ones(4, np.float32)] * 2
    opt.bind(grads=grads, params={"w": other})
    opt.step()
    assert (w == 1).all() and (other < 1).all() and (v < 1).all()
    opt.bind(copy={"v": copy}, out={"w": out})
    opt.bind(params={"v": w}, copy={"w": np.ones(4, np.float32)})
    opt.step()
    assert (out < 1).all() and (w < 1).all() and copy.tobytes() == w.tobytes()


def test_a_failing_bind_changes_nothing() -> None:
    w, grad = np.ones((4, 3), np.float32), np.ones((4, 3), np.float32)
    opt = libshampoo.Optimizer([w])
    opt.bind(grads=[grad])
    before = opt._buffers.views
    with pytest.raises(ValueError):
        opt.bind(grads=[grad[:2]])
    assert opt._buffers.views is before


@pytest.mark.parametrize("wrap", [lambda array: array, OnlyDlpack, OldDlpack], ids=["numpy", "dlpack", "old_dlpack"])
def test_bound_arrays_are_kept_alive(wrap: Any) -> None:
    w, grad = np.ones(12, np.float32), np.full(12, 2, np.float32)
    kept = [weakref.ref(w), weakref.ref(grad)]
    opt = libshampoo.Optimizer([wrap(w)], lr=0.5, grafting="adam")
    opt.bind(grads=[wrap(grad)])
    del w, grad
    gc.collect()
    assert all(array() is not None for array in kept)
    opt.step()
    assert (kept[0]() < 1).all()
    opt.bind(grads=None)
    gc.collect()
    assert kept[1]() is None, "the gradient must be released"
    opt.close()
    gc.collect()
    assert kept[0]() is None


def test_a_dlpack_capsule_is_consumed_once() -> None:
    class Again:
        def __init__(self) -> None:
            self.capsule = np.ones(3, np.float32).__dlpack__()

        def __dlpack__(self) -> Any:
            return self.capsule

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    again = Again()
    _native.View(again)
    with pytest.raises(ValueError, match="used before"):
        _native.View(again)


def test_errors_of_other_packages_are_not_hidden() -> None:
    class Broken:
        def __dlpack__(self, **options: Any) -> Any:
            raise BufferError("not today")

        def __dlpack_device__(self) -> tuple[int, int]:
            return (1, 0)

    with pytest.raises(BufferError, match="not today"):
        _native.View(Broken())

    class Listed(OnlyDlpack):
        def __dlpack_device__(self) -> Any:
            return list(self.device)

    with pytest.raises(TypeError, match=r"weights: __dlpack_device__ returned \[1, 0\], not two integers"):
        _native.View(Listed(np.ones(3, np.float32)), "weights")
    with pytest.raises(TypeError, match=r"weights: __dlpack_device__ returned \(1, 'a'\), not two integers"):
        _native.View(OnlyDlpack(np.ones(3, np.float32), (1, "a")), "weights")  # type: ignore[arg-type]

    class Property:
        @property
        def __array_struct__(self) -> Any:
            raise MemoryError("here")

    with pytest.raises(MemoryError, match="here"):
        _native.View(Property())


def test_the_module_has_every_name_in_its_stub() -> None:
    """Checks that the module _native has every name in its type stub _native.pyi."""
    import re
    from pathlib import Path

    stub = (Path(libshampoo.__file__).parent / "_native.pyi").read_text()
    names = set(re.findall(r"^(?:class|def) (\w+)|^(SHAMPOO_\w+)", stub, re.M))
    assert len(names) > 50
    for pair in names:
        assert hasattr(_native, "".join(pair)), pair
