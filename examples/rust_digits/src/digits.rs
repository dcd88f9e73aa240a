// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

//! The handwritten digits: 8x8 images and their labels. ../c_mlp/data/README.md describes their source.

use crate::mlp::{CLASSES, INPUTS};
use crate::options::Result;

pub struct Digits {
    /// Number of training images. They come first; all images after them are test images.
    pub train_count: usize,
    /// The images one after another, 64 pixels for each, row by row. All values are in [0, 1].
    pub images: Vec<f32>,
    /// Label of each image, 0 to 9.
    pub labels: Vec<usize>,
}

const MAGIC: &[u8] = b"digits8\n";
const INK: u8 = 16;

impl Digits {
    /// Reads a file that ../c_mlp/data/make_digits.py wrote. The first 8 bytes identify the format. The numbers of
    /// training images and of test images follow, 2 bytes each, little-endian. The rest of the file has 65 bytes for
    /// each image: 64 pixels, from 0 (paper) to 16 (ink), and the label.
    pub fn load(path: &str) -> Result<Self> {
        let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
        if bytes.len() < 12 || !bytes.starts_with(MAGIC) {
            return Err(format!(
                "{path} does not begin with \"digits8\" and two counts; expected a file that make_digits.py wrote"
            )
            .into());
        }
        let number = |at: usize| usize::from(bytes[at]) + 256 * usize::from(bytes[at + 1]);
        let (train_count, test_count) = (number(8), number(10));
        let count = train_count + test_count;
        let mut digits = Digits { train_count, images: Vec::new(), labels: Vec::new() };
        for image in bytes[12..].chunks_exact(INPUTS + 1).take(count) {
            let (pixels, label) = (&image[..INPUTS], usize::from(image[INPUTS]));
            if pixels.iter().any(|pixel| *pixel > INK) || label >= CLASSES {
                return Err(format!("{path}: image {} has a wrong pixel or label", digits.labels.len()).into());
            }
            digits.images.extend(pixels.iter().map(|pixel| f32::from(*pixel) / f32::from(INK)));
            digits.labels.push(label);
        }
        if digits.labels.len() < count {
            return Err(format!("{path} has {} complete images; expected {count}", digits.labels.len()).into());
        }
        Ok(digits)
    }
}
