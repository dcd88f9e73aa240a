# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks the t-tests of the benchmarks with tabulated quantiles and with closed forms."""
import math
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "benchmarks"))
import student  # noqa: E402

# From the tables of Student's t distribution.
QUANTILES = {
    (0.95, 1): 6.313752, (0.95, 4): 2.131847, (0.975, 4): 2.776445, (0.95, 9): 1.833113, (0.975, 9): 2.262157,
    (0.99, 9): 2.821438, (0.95, 30): 1.697261, (0.9995, 5): 6.868827, (0.95, 1e7): 1.644854,
}  # fmt: skip


def near(value: float, expected: float, tolerance: float = 1e-6) -> bool:
    """Return whether a value is close to the expected value."""
    return abs(value - expected) <= tolerance * max(1, abs(expected))


def closed_form(t: float) -> float:
    """Return the distribution function of Student's t distribution with 4 degrees of freedom."""
    share = t * t / (4 + t * t)
    return 0.5 + 0.5 * math.copysign(math.sqrt(share), t) * (1 + 0.5 * (1 - share))


def check_distribution() -> None:
    """Check Student's t distribution: its quantiles, its closed form for 4 degrees of freedom, and its symmetry."""
    for (probability, degrees), t in QUANTILES.items():
        assert near(student.quantile(probability, degrees), t), (probability, degrees)
        assert near(student.probability_below(t, degrees), probability), (probability, degrees)
        assert near(student.probability_below(-t, degrees), 1 - probability), (probability, degrees)
    for i in range(-60, 61):
        assert near(student.probability_below(i / 10, 4), closed_form(i / 10), 1e-12), i
    assert student.probability_below(0, 7) == 0.5
    assert student.probability_below(math.inf, 4) == 1 and student.probability_below(-math.inf, 4) == 0


def check_one_sample() -> None:
    """Check p_below(), which tests whether the mean of one sample is below a number."""
    values = [1.0, 2.0, 3.0, 4.0, 5.0]  # mean 3, standard error sqrt(0.5)
    assert near(student.p_below(values, 4), closed_form(-math.sqrt(2)), 1e-12)
    assert near(student.p_below(values, 2), closed_form(math.sqrt(2)), 1e-12)
    assert near(student.p_below(values, 3), 0.5)
    # If the mean is below the number by the 95 % quantile times the standard error, p is 0.05.
    assert near(student.p_below(values, 3 + 2.131847 * math.sqrt(0.5)), 0.05, 1e-6)
    # p is 1 if a value is not finite, or if there are fewer than two values. If all values are equal, p is 0 if they
    # are below the number, and 1 otherwise.
    assert student.p_below([1.0, 1.0, math.inf], 9) == 1 and student.p_below([1.0], 9) == 1
    assert student.p_below([1.0, math.nan], 9) == 1
    assert student.p_below([2.0, 2.0], 2) == 1 and student.p_below([2.0, 2.0], 3) == 0


def check_two_samples() -> None:
    """Check Welch's test of two samples."""
    same = [1.0, 2.0, 3.0]
    # Variances and sizes are equal, so there are 4 degrees of freedom, and t is -1 / sqrt(2/3).
    assert near(student.p_below_others(same, [2.0, 3.0, 4.0]), closed_form(-1 / math.sqrt(2 / 3)), 1e-12)
    assert near(student.p_below_others(same, same), 0.5)
    # The second sample hardly varies, so the degrees of freedom are those of the first sample.
    narrow = [4 + 1e-9 * i for i in range(20)]
    assert near(student.p_below_others([1.0, 2.0, 3.0, 4.0, 5.0], narrow), closed_form(-math.sqrt(2)), 1e-6)
    assert student.p_below_others([math.inf, 1.0], same) == 1
    assert near(student.half_interval([1.0, 2.0, 3.0, 4.0, 5.0]), 2.776445 * math.sqrt(0.5))


check_distribution()
check_one_sample()
check_two_samples()
