// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

use crate::config::Config;
use crate::dtype::Element;
use crate::error::{check, to_i64, Error, Result};
use libshampoo_sys as sys;

/// The method that computed an inverse root.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum RootMethod {
    /// The power of the only element of a 1x1 matrix.
    Scalar,
    /// The powers of the elements on the diagonal of a diagonal matrix.
    Diagonal,
    /// Eigendecomposition, or the rational approximation that can replace it (docs/roots.md).
    Eigen,
    /// The coupled inverse Newton iteration.
    Newton,
    /// The coupled iteration whose order of convergence is the key "root_order".
    HigherOrder,
    /// `root_method=cans`: a fixed number of matrix products (docs/roots.md).
    Cans,
}

/// How an inverse root was computed.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct RootInfo {
    /// The method that computed the root.
    pub method: RootMethod,
    /// Number of iterations; 0 for methods that are not iterative.
    pub iterations: usize,
    /// 1 if "root_tolerance" was reached, 0 if "root_max_iterations" was reached, -1 if the error stopped decreasing.
    /// Always 1 unless the method is `Newton` or `HigherOrder`.
    pub converged: i32,
    /// Number of further attempts after the first one failed.
    pub retried: usize,
    /// Largest element of |A X^p - I|, computed in f64. A is `a + e I` (see [`inverse_root`]), X is the inverse root,
    /// and p is `root.0 / (root.1 * exponent_multiplier)`, with the argument `root` of `inverse_root`. With
    /// `root_rank_handling=pseudo_inverse`, I is replaced by the projector onto the eigenvectors that the
    /// pseudo-inverse keeps. NaN if X^p or the projector cannot be computed; 0 if `exponent_multiplier` is 0.
    pub residual: f64,
}

/// Computes the inverse root of a symmetric `n` x `n` matrix `a`: `x = (a + e I) ^ (-exponent_multiplier * root.1 /
/// root.0)`. The root `(4, 1)` is the inverse fourth root. `e` is `root_relative_epsilon` times the mean eigenvalue of
/// `a`, which is the trace divided by `n`. If the key `epsilon` is above 0, `e` is `epsilon` instead or, with
/// `root_method=higher_order`, `epsilon` times a bound on the largest eigenvalue.
///
/// Matrices are row-major. Elements of `a` above the diagonal are not read. The keys "epsilon", "exponent_multiplier",
/// "row_sum_epsilon" and "root_..." of the config are used.
///
/// ```
/// let mut config = libshampoo::Config::new()?;
/// config.set("epsilon", 0.0)?;
/// let mut x = [0.0f64; 4];
/// let info = libshampoo::inverse_root(&config, 2, &[16.0, 0.0, 0.0, 81.0], &mut x, (4, 1))?;
/// assert!((x[0] - 0.5).abs() < 1e-15 && (x[3] - 1.0 / 3.0).abs() < 1e-15);
/// assert_eq!(info.method, libshampoo::RootMethod::Diagonal);
/// # Ok::<(), libshampoo::Error>(())
/// ```
///
/// # Errors
///
/// - [`Code::Invalid`](crate::Code::Invalid): a slice does not have n * n elements, `T` is neither `f32` nor `f64`, or
///   the root is out of range.
/// - [`Code::Numeric`](crate::Code::Numeric): `a` contains NaN or infinity, or there is no finite root. `x` has not
///   changed.
pub fn inverse_root<T: Element>(config: &Config, n: usize, a: &[T], x: &mut [T], root: (i32, i32)) -> Result<RootInfo> {
    for (what, count) in [("a", a.len()), ("x", x.len())] {
        if n.checked_mul(n) != Some(count) {
            return Err(Error::invalid(format!("{what} has {count} elements; expected n * n, with n = {n}")));
        }
    }
    let size = to_i64("n", n)?;
    let mut info = sys::shampoo_root_info::new();
    let (from, to) = (a.as_ptr().cast(), x.as_mut_ptr().cast());
    // SAFETY: both matrices have n * n elements of T, and x cannot overlap a.
    check(unsafe {
        sys::shampoo_matrix_inverse_root(config.as_ptr(), size, T::DTYPE.code(), from, to, root.0, root.1, &mut info)
    })?;
    Ok(RootInfo {
        method: match info.method {
            0 => RootMethod::Scalar,
            1 => RootMethod::Diagonal,
            2 => RootMethod::Eigen,
            3 => RootMethod::Newton,
            4 => RootMethod::HigherOrder,
            _ => RootMethod::Cans,
        },
        iterations: info.iterations as usize,
        converged: info.converged,
        retried: info.retried as usize,
        residual: info.residual,
    })
}

/// Orthogonalizes a `rows` x `columns` matrix as a step of method muon does: if `a = U diag(s) V^T`, then `x` is close
/// to `U V^T`.
///
/// Matrices are row-major. The keys "orthogonalization" and "ns_..." of the config are used. These keys can differ
/// from their defaults only if the method of the config reads them, so set `method=muon`.
///
/// ```
/// let mut config = libshampoo::Config::new()?;
/// config.set("method", "muon")?;
/// config.set("orthogonalization", "exact")?;
/// let mut x = [0.0f64; 4];
/// libshampoo::orthogonalize(&config, (2, 2), &[3.0, 0.0, 0.0, 0.1], &mut x)?;
/// assert!((x[0] - 1.0).abs() < 1e-14 && (x[3] - 1.0).abs() < 1e-14);
/// # Ok::<(), libshampoo::Error>(())
/// ```
///
/// # Errors
///
/// - [`Code::Invalid`](crate::Code::Invalid): a slice does not have rows * columns elements, a dim is out of range, or
///   `T` is neither `f32` nor `f64`.
/// - [`Code::Numeric`](crate::Code::Numeric): `a` contains NaN or infinity, or the iteration diverged. `x` has not
///   changed.
pub fn orthogonalize<T: Element>(config: &Config, (rows, columns): (usize, usize), a: &[T], x: &mut [T]) -> Result<()> {
    for (what, count) in [("a", a.len()), ("x", x.len())] {
        if rows.checked_mul(columns) != Some(count) {
            return Err(Error::invalid(format!(
                "{what} has {count} elements; expected rows * columns, with rows = {rows} and columns = {columns}"
            )));
        }
    }
    let (height, width) = (to_i64("rows", rows)?, to_i64("columns", columns)?);
    let (from, to) = (a.as_ptr().cast(), x.as_mut_ptr().cast());
    // SAFETY: both matrices have rows * columns elements of T, and x cannot overlap a.
    check(unsafe { sys::shampoo_matrix_orthogonalize(config.as_ptr(), height, width, T::DTYPE.code(), from, to) })
}
