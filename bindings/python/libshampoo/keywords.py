# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Types of the hyper-parameters that ``libshampoo.jax.shampoo`` takes as keyword arguments."""
from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypedDict


class Keywords(TypedDict, total=False):
    """All keys of ``libshampoo.KEYS`` except ``lr``, ``output`` and ``threads``.

    Editors and type checkers use this class to complete and check keyword arguments. A test compares the fields of the
    class with ``libshampoo.KEYS``.
    """

    preset: str | None
    method: str | None
    beta1: float | str | None
    beta3: float | str | None
    beta2: float | str | None
    epsilon: float | str | None
    root_relative_epsilon: float | str | None
    momentum: float | str | None
    use_nesterov: bool | None
    weight_decay: float | str | None
    weight_decay_type: str | None
    peak_lr: float | str | None
    cautious_decay: bool | None
    max_preconditioner_dim: int | None
    use_merge_dims: bool | None
    merge_min_dim: int | None
    precondition_1d: bool | None
    route: str | None
    precondition_frequency: int | None
    factor_update_frequency: int | None
    precondition_dims: str | None
    refresh_growth: float | str | None
    start_preconditioning_step: int | None
    inverse_root_override: int | str | Sequence[int] | None
    exponent_multiplier: float | str | None
    use_bias_correction: bool | None
    grafting: str | None
    grafting_beta2: float | str | None
    grafting_epsilon: float | str | None
    initial_inverse: str | None
    root_method: str | None
    root_order: int | None
    root_tolerance: float | str | None
    root_max_iterations: int | None
    root_rank_handling: str | None
    root_rank_rtol: float | str | None
    root_rank_atol: float | str | None
    root_failure_tolerance: int | None
    track_root_residuals: bool | None
    root_spread: bool | None
    root_async: int | None
    on_nonfinite: str | None
    computation_dtype: Any
    root_dtype: Any
    factor_dtype: Any
    inverse_dtype: Any
    filtered_grad_dtype: Any
    momentum_dtype: Any
    grafting_dtype: Any
    second_moment_dtype: Any
    allow_stalled_moments: bool | None
    gradient_scale: float | str | None
    communicate: str | None
    communication_dtype: Any
    comm_bucket_bytes: int | None
    balance: str | None
    shard_mode: str | None
    verify_replicas: int | None
    checkpoint_keep: int | None
    on_block_mismatch: str | None
    status_lag: int | None
    root_device: str | None
    precondition_math: str | None
    track_times: bool | None
    shampoo_beta: float | str | None
    relative_epsilon: float | str | None
    factor_correction: str | None
    kl_eigenvalues: str | None
    kl_init: float | str | None
    kl_cap: float | str | None
    basis_method: str | None
    basis_iterations: int | None
    basis_tolerance: float | str | None
    skip_dim_size: int | None
    update_norm: str | None
    update_norm_target: float | str | None
    max_update_rms: float | str | None
    norm_control: str | None
    norm_radius: float | str | None
    radial_outward: float | str | None
    radial_inward: float | str | None
    update_floor: float | str | None
    update_floor_rows: bool | None
    shape_scale: str | None
    second_moment: str | None
    soap_post: str | None
    orthogonalization: str | None
    ns_coefficients: str | Sequence[Sequence[float]] | None
    ns_steps: int | None
    ns_norm: str | None
    muon_math: str | None
    dual_norm_scale: bool | None
    muon_local: bool | None
    adam_lr: float | str | None
    adam_beta1: float | str | None
    adam_beta2: float | str | None
    adam_epsilon: float | str | None
    averaging: str | None
    average_train: float | str | None
    average_eval: float | str | None
    average_lr_power: float | str | None
    weight_ema: float | str | None
    weight_ema_start: int | None
    average_dtype: Any
    state_rounding: str | None
    param_rounding: str | None
    rounding_seed: int | None
    basis_order: str | None
    first_step: str | None
    factor_start: str | None
    basis_init: str | None
    basis_sort: str | None
    basis_transport: str | None
    basis_epsilon: float | str | None
    ignored_dims: int | str | Sequence[int] | None
    inverse_exponent: float | str | None
    drop_weighting: bool | None
    trace_scaling: float | str | None
    row_sum_epsilon: bool | None
    momentum_dampening: float | str | None
    count_empty_steps: bool | None
