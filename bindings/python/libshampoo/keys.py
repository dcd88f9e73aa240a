# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Keys: reads the library's table of hyper-parameters, and makes configs from keyword arguments."""
from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from types import MappingProxyType
from typing import Any

from . import _native
from .dtypes import LONG_NAMES, name_of
from .errors import PYTHON_TYPES


@dataclass(frozen=True)
class Key:
    """One hyper-parameter.

    Attributes
    ----------
    name, value_type, default, range, doc
        Same as in docs/keys.md. ``value_type`` is "f64", "i64", "bool", "choice", "dtype", "list" or "text".
    per_group
        Whether parameter groups can have different values.
    changeable
        Whether the key can be changed between steps.
    for_replay
        Whether the key exists only to reproduce other implementations.
    """

    name: str
    value_type: str
    default: str
    range: str
    doc: str
    per_group: bool
    changeable: bool
    for_replay: bool


def _read_keys() -> dict[str, Key]:
    found = {}
    info = _native.shampoo_key_info()
    for index in range(_native.shampoo_config_key_count()):
        _native.shampoo_config_describe_key(index, info)
        found[info.name] = Key(
            info.name, info.value_type, info.default_value, info.range, info.doc, info.scope == 1,
            info.changeable == 1, info.for_replay == 1,
        )  # fmt: skip
    return found


#: All keys by name, in the order of docs/keys.md.
KEYS: Mapping[str, Key] = MappingProxyType(_read_keys())


def help_text(name: str | None = None) -> str:
    """Return the description of a key or, without a name, of all keys whose ``for_replay`` is false."""
    if name is not None:
        check_name(name)
    lines = []
    for key in [KEYS[name]] if name is not None else [key for key in KEYS.values() if not key.for_replay]:
        scope = "" if key.per_group else ", of the whole optimizer"
        changeable = ", can be changed between steps" if key.changeable else ""
        value_type = PYTHON_TYPES.get(key.value_type, key.value_type)
        lines.append(f"{key.name} = {key.default}    ({value_type}, {key.range}{scope}{changeable})")
        lines.append(f"    {key.doc}")
    return "\n".join(lines)


def unknown_key(name: object) -> str:
    """Return the error message for an unknown key. The message suggests a similar key if there is one."""
    if not isinstance(name, str):
        return f"there is no key {name!r}; expected a string: libshampoo.KEYS has all keys"
    try:
        _native.shampoo_config_set_str(_native.shampoo_config_create(), name, "")
    except ValueError as error:
        return str(error).replace("docs/keys.md lists", "libshampoo.KEYS has")
    raise AssertionError(f"{name} is a key")


def fixed_key(name: str) -> str:
    """Return the error message for a key that cannot be changed between steps."""
    return (
        f"key {name}: fixed when the optimizer is created; create a new optimizer with the new value. Only keys for "
        "which libshampoo.KEYS[name].changeable is true can be changed between steps"
    )


def check_name(name: str) -> None:
    """Raise TypeError if a name is not the name of a key."""
    if name not in KEYS:
        raise TypeError(unknown_key(name))


_KINDS = {
    "f64": "a number:",
    "i64": "an integer:",
    "bool": "a bool:",
    "choice": "one of",
    "list": "integers:",
    "text": "one of",
}


def _wrong_type(key: Key, value: Any) -> TypeError:
    expected = f"{_KINDS.get(key.value_type, key.value_type)} {key.range}"
    text = f"key {key.name}: the value {value!r} is not allowed: expected {expected}"
    if value is None:
        text += f"; to use the default, {key.default}, leave the key out"
    elif callable(value) and key.changeable:
        text += f"; for a schedule set opt.{key.name} before each step"
        if key.name == "lr":
            text += " (libshampoo.jax.shampoo accepts a schedule)"
    return TypeError(text)


def to_number(name: str, value: Any) -> float:
    """Convert the value of a floating-point key to a float.

    Raises
    ------
    TypeError
        If the value is not a number. The message names the key.
    """
    try:
        if callable(value):
            raise TypeError("a function is not a number")
        return float(value)
    except Exception as error:  # arrays with several elements raise exceptions that depend on their package
        raise _wrong_type(KEYS[name], value) from error


def _text(key: Key, value: Any) -> str:
    if value is None and key.default == "auto":
        return "auto"
    if value is None or (callable(value) and key.value_type != "dtype"):
        raise _wrong_type(key, value)
    if isinstance(value, bool) or type(value).__name__ in ("bool", "bool_"):  # numpy.bool is not a subclass of bool
        return "true" if value else "false"
    if key.value_type == "dtype":
        return LONG_NAMES.get(name_of(value), name_of(value))
    if isinstance(value, str):
        return value
    if key.value_type == "list" and hasattr(value, "__iter__"):
        return ",".join(map(_integer, value))
    if key.value_type == "text" and hasattr(value, "__iter__"):  # ns_coefficients is a list of (a, b, c)
        return ";".join(",".join(repr(float(number)) for number in entry) for entry in value)
    return _integer(value) if key.value_type in ("i64", "list") else str(value)


def _integer(value: Any) -> str:
    """Return "10" for 10, numpy.int64(10) and 10.0. For other values, return str(value), which the library checks."""
    whole = isinstance(value, Real) and value == value // 1
    return str(int(value) if whole else value)


def set_key(config: _native.shampoo_config, name: str, value: Any) -> None:
    """Set a key to a number, bool, str or dtype, to a sequence of numbers, or to a sequence of such sequences.

    None is accepted if the default is "auto".
    """
    check_name(name)
    key = KEYS[name]
    if key.value_type == "f64" and not isinstance(value, (str, bool)) and value is not None:
        _native.shampoo_config_set_f64(config, name, to_number(name, value))
    else:
        _native.shampoo_config_set_str(config, name, _text(key, value))


def make_config(keys: Mapping[str, Any], base: _native.shampoo_config | None = None) -> _native.shampoo_config:
    """Copy ``base``, or create a config with the defaults if ``base`` is None. Then set ``keys`` in the new config."""
    config = _native.shampoo_config_create() if base is None else _native.shampoo_config_clone(base)
    for name, value in keys.items():
        set_key(config, name, value)
    return config


def read_key(config: _native.shampoo_config, name: str) -> float | int | bool | str:
    """Return the value of a key as a Python object: a float, int or bool, or a str for all other values."""
    check_name(name)
    text = _native.shampoo_config_get(config, name)
    kind = KEYS[name].value_type
    try:
        if kind == "f64":
            return float(text)
        if kind == "i64":
            return int(text)
    except ValueError:  # the value is "auto"
        return text
    return text == "true" if kind == "bool" and text in ("true", "false") else text
