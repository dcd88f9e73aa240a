#!/bin/sh
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# on_gpu.sh PYTHON GOLDEN SUITE OUT REPLAY: replays a suite of recorded runs on the GPU with the program REPLAY, and
# compares the results in the folder OUT with the recorded ones. GOLDEN is the folder tests/golden. Exits with 77 if
# there is no GPU.
set -eu
cases=$(ls "$2/data/$3"/*.safetensors | grep -v '/data\.safetensors$')
# shellcheck disable=SC2086
"$5" --device cuda --threads 1 --out "$4" $cases
"$1" "$2/compare.py" "$2/data/$3" "$4"
