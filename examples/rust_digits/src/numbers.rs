// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! Numbers as text, as printf spells them.

/// A number with so many significant digits, as `%g`, or with `zeros` as `%#g`: in the range of a chart, so never with an
/// exponent.
pub fn significant(value: f64, digits: usize, zeros: bool) -> String {
    if value == 0.0 || !value.is_finite() {
        return value.to_string();
    }
    let rounded = format!("{value:.*e}", digits - 1);
    let exponent: i32 = rounded.split_once('e').and_then(|(_, exponent)| exponent.parse().ok()).unwrap_or(0);
    let decimals = usize::try_from(digits as i32 - 1 - exponent).unwrap_or(0);
    let text = format!("{value:.decimals$}");
    if zeros || !text.contains('.') {
        return text;
    }
    text.trim_end_matches('0').trim_end_matches('.').into()
}
