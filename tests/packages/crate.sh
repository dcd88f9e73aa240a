#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# crate.sh ROOT PACKAGES SOURCE: tests the crates. ROOT is the minimal Debian that root.sh creates, and the tests run in
# a copy of it. PACKAGES is the folder of the Debian packages, and SOURCE is the repository. Checks that the first
# program of docs/rust.md builds and runs with the shared library and with the static archive.
set -euo pipefail
source "$(dirname "$0")/root.sh"
make_root "$1"
copy_root "$1"
mkdir -p "$root/packages" "$root/program/src"
cp "$2"/libshampoo0_*.deb "$2"/libshampoo-dev_*.deb "$root/packages"
cp -rL "$3/bindings/rust" "$root/packages/rust"
rm -rf "$root/packages/rust/target"
code_of "$3/docs/rust.md" rust >"$root/program/src/main.rs"
sed -i 's/^    Ok(())/    println!("{w:?}");\n    Ok(())/' "$root/program/src/main.rs"
cat >"$root/program/Cargo.toml" <<'T'
[package]
name = "program"
version = "0.0.0"
edition = "2021"
[dependencies]
libshampoo = { path = "/packages/rust/libshampoo" }
T
install /packages/libshampoo0_*.deb /packages/libshampoo-dev_*.deb cargo rustc gcc libc6-dev pkg-config
inside 'cd /program && cargo run --quiet --offline'

# With the crate feature "static", the program must run without the shared library.
sed -i 's|libshampoo" }|libshampoo", features = ["static"] }|' "$root/program/Cargo.toml"
install libstdc++-12-dev
inside 'cd /program && cargo build --quiet --offline'
inside 'apt-get -qq purge libshampoo0 >/dev/null 2>&1 && ! ls /usr/lib/*/libshampoo.so* 2>/dev/null && /program/target/debug/program'
[ -s "$root/packages/rust/libshampoo/LICENSE" ] || { echo 'the crate has no LICENSE'; exit 1; }
