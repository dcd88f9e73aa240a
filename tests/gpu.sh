#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Validates the CUDA backend on a machine with a GPU. Needs no network.
#
#   bash tests/gpu.sh [option...]          runs all stages, in at most 35 minutes after the build
#
#   --list                 lists the stages
#   --stage N              runs only stage N, in at most 9 minutes. Repeat this option to run several stages
#   --out DIR              writes the logs and the table to DIR; default: $OUT or, if OUT is not set, out/gpu
#   --from FILE            uses programs that --pack made on another machine. Without --from and --fake, programs are
#                          built in build/gpu, which needs a CUDA toolkit, CMake, Ninja and the packages of tests/run.sh
#   --pack FILE            builds and strips the programs, writes them to FILE (.tar.gz, below 64 MiB), and runs nothing.
#                          This needs a CUDA toolkit or access to PyPI, but no GPU. The environment variable
#                          ARCHITECTURES sets CMake's SHAMPOO_CUDA_ARCHITECTURES; default: 80-real;90-real;100-real
#   --fake                 runs on the fake CUDA of the tests, with little work, to test this script
#   --build DIR            with --fake or --pack: uses the programs of the build in DIR; default with --fake: build/ci
#   --jobs N               runs up to N items (single checks) of stages 3 and 4 at the same time; default: half the
#                          number of processors, but at least 1 and at most 8
#
# The most important stages come first. If an item fails, the next items and stages still run. Each stage replaces its
# earlier rows in DIR/results.tsv. At the end, all rows are printed, and written as a table to DIR/summary.md. The
# variable PYTHON names a Python that has numpy and, for stage 7, PyTorch; default: python3. The exit status is 0 if at
# least one item in the table passed, and none failed.
set -uo pipefail
cd "$(dirname "$0")/.."

readonly stage_limit=${STAGE_LIMIT:-540} total_limit=2100 # seconds
readonly stages=(
  "1 system: the GPU, the driver and the versions of the libraries"
  "2 probe: eigensolvers, graph captures, matrix products and copies on this GPU"
  "3 goldens: replays of recorded cases; most run twice and must be bit-identical; some use several ranks or shards"
  "4 suites: the guarantees of the header, large shapes compared with the CPU, a fault of the device"
  "5 sanitizer: memcheck, racecheck, synccheck and initcheck of compute-sanitizer"
  "6 timing: steps of GPT-2 by block size, inverse_root_override and root method; root_async, root_spread and TF32"
  "7 torch: steps of GPT-2 in PyTorch, to compare their times with those of stage 6"
  "8 kernels: the five kernels that take the most time, measured with Nsight Compute"
)

usage() {
  sed -n '5,25p' "$0" | sed 's/^# \{0,1\}//'
  exit "$1"
}

out=${OUT:-out/gpu}
from=""
pack=""
build=""
fake=false
jobs=$(($(nproc) / 2))
jobs=$((jobs < 1 ? 1 : jobs > 8 ? 8 : jobs))
chosen=()
while [ $# -gt 0 ]; do
  case $1 in
    --list) printf '%s\n' "${stages[@]}"; exit 0 ;;
    --fake) fake=true; shift; continue ;;
    --help | -h) usage 0 ;;
    --stage | --out | --from | --pack | --build | --jobs) [ $# -ge 2 ] || usage 2 ;;
    *) printf 'gpu.sh: unknown option %s\n' "$1" >&2; usage 2 ;;
  esac
  case $1 in
    --stage)
      [[ $2 =~ ^[1-8]$ ]] || { printf 'gpu.sh: --stage %s: expected 1 to %d\n' "$2" ${#stages[@]} >&2; exit 2; }
      chosen+=("$2")
      ;;
    --out) out=$2 ;;
    --from) from=$2 ;;
    --pack) pack=$2 ;;
    --build) build=$2 ;;
    --jobs)
      [[ $2 =~ ^[1-9][0-9]?$ ]] || { printf 'gpu.sh: --jobs %s: expected 1 to 99\n' "$2" >&2; exit 2; }
      jobs=$2
      ;;
  esac
  shift 2
done
[ ${#chosen[@]} -gt 0 ] || chosen=(1 2 3 4 5 6 7 8)

if ! $fake && [ -z "$pack" ] && ! ls /dev/nvidia[0-9]* >/dev/null 2>&1 && ! nvidia-smi -L >/dev/null 2>&1; then
  printf 'gpu.sh: this machine has no NVIDIA GPU: use --fake, or --pack to prepare a run on another machine\n' >&2
  exit 1
fi

work=$(mktemp -d "${TMPDIR:-/tmp}/shampoo_gpu.XXXXXX")
trap 'rm -rf "$work"' EXIT
programs=$work/programs
python=${PYTHON:-python3}
golden=tests/golden
tools=tests/cuda/gpu

# --- Programs ---

# copy_programs BUILD: copies the programs and libraries of a build to $programs.
copy_programs() {
  local tests=$1/tests/cuda bench=$1/tools/bench name
  local -A files
  if $fake; then
    files=([replay]=$tests/golden/shampoo_replay_cuda [contract]=$tests/shampoo_cuda_contract_control_tests
      [against_cpu]=$tests/shampoo_cuda_against_cpu_control_tests [faults]=$tests/shampoo_cuda_faults_tests
      [probe]=$tests/shampoo_cuda_probe_over_fake [bench]=$bench/shampoo_bench_over_fake
      [libshampoo_cuda.so.0]=$tests/plugin/libshampoo_cuda.so.0)
  else
    files=([replay]=$tests/golden/shampoo_replay_gpu [contract]=$tests/shampoo_cuda_contract_gpu_tests
      [against_cpu]=$tests/shampoo_cuda_against_cpu_gpu_tests [faults]=$tests/shampoo_cuda_faults_gpu_tests
      [probe]=$tests/shampoo_cuda_probe [bench]=$bench/shampoo_bench
      [libshampoo_cuda.so.0]=$1/capi/libshampoo_cuda.so.0)
  fi
  files[libshampoo.so.0]=$1/capi/libshampoo.so.0
  files[replay_on_cpu]=$1/tests/golden/shampoo_replay
  mkdir -p "$programs"
  for name in "${!files[@]}"; do
    if [ -e "${files[$name]}" ]; then
      cp -L "${files[$name]}" "$programs/$name"
    elif [ -n "$pack" ]; then
      printf 'gpu.sh: the build %s lacks %s\n' "$1" "${files[$name]}" >&2
      return 1
    fi
  done
  git rev-parse --short HEAD >"$programs/commit" 2>/dev/null || echo unknown >"$programs/commit"
  git diff --quiet HEAD -- core capi tests tools cmake 2>/dev/null || echo "with uncommitted changes" >>"$programs/commit"
}

# build_programs ARCHITECTURES [option of CMake]...: builds the programs in build/gpu.
build_programs() {
  build=build/gpu
  cmake -S . -B $build -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DSHAMPOO_CUDA=ON "-DSHAMPOO_CUDA_ARCHITECTURES=$1" \
    "${@:2}" -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=0 &&
    cmake --build $build --target shampoo shampoo_cuda shampoo_replay shampoo_replay_gpu shampoo_cuda_contract_gpu_tests \
      shampoo_cuda_against_cpu_gpu_tests shampoo_cuda_faults_gpu_tests shampoo_cuda_probe shampoo_bench
}

if [ -n "$pack" ]; then
  if [ -z "$build" ] && ! $fake; then build_programs "${ARCHITECTURES:-80-real;90-real;100-real}" -DSHAMPOO_CUDA_FROM_PYPI=ON || exit 1; fi
  copy_programs "${build:-build/ci}" || exit 1
  for file in "$programs"/*; do
    [ "${file##*/}" = commit ] || strip "$file" || exit 1
  done
  mkdir -p "$(dirname "$pack")"
  tar -C "$programs" -czf "$pack" . || exit 1
  bytes=$(wc -c <"$pack")
  printf '%s: %d MiB\n' "$pack" $((bytes >> 20))
  [ "$bytes" -lt $((64 << 20)) ] || { printf 'gpu.sh: expected less than 64 MiB\n' >&2; exit 1; }
  exit 0
fi

if [ -n "$from" ]; then
  mkdir -p "$programs"
  tar -C "$programs" -xzf "$from" || exit 1
elif $fake; then
  copy_programs "${build:-build/ci}"
else
  { build_programs native && copy_programs $build; } || {
    printf 'gpu.sh: the programs could not be built here: make them with --pack on another machine, and use --from\n' >&2
    exit 1
  }
fi

# Prints the folders of the CUDA libraries, with a colon before each folder. The folders are those of a toolkit and of
# the Python packages that PyTorch installs.
library_folders() {
  local folder
  for folder in "${CUDA_HOME:-/usr/local/cuda}"/lib64 /usr/local/cuda/lib64; do
    [ ! -d "$folder" ] || printf ':%s' "$folder"
  done
  "$python" - 2>/dev/null <<'PY' || true
import glob, importlib.util
spec = importlib.util.find_spec("nvidia")
for root in (spec.submodule_search_locations if spec else []):
    for folder in sorted(glob.glob(root + "/*/lib")):
        print(":" + folder, end="")
PY
}
if $fake; then
  export PATH=$PWD/$tools/fake_tools:$PATH
  export LD_LIBRARY_PATH=$programs
else
  LD_LIBRARY_PATH=$programs$(library_folders)${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
  export LD_LIBRARY_PATH
  PATH=$PATH:${CUDA_HOME:-/usr/local/cuda}/bin
fi
export SHAMPOO_TEST_CUDA_PLUGIN=$programs/libshampoo_cuda.so.0
unset OPENBLAS_CORETYPE OPENBLAS_L2_SIZE

# --- Items of a stage ---

mkdir -p "$out"
out=$(cd "$out" && pwd)
results=$out/results.tsv
touch "$results"
started=$SECONDS
stage=0
stage_started=0
log=/dev/null

# record ITEM RESULT SECONDS NOTE: adds a row to the results, and prints it.
record() {
  printf '%s\t%s\t%s\t%s\t%s\n' "$stage" "$1" "$2" "$3" "$4" >>"$results"
  printf '  %-44s %-8s %5s s  %s\n' "$1" "$2" "$3" "$4"
}

skip() { record "$1" skipped 0 "$2"; }

# remaining: prints the seconds that are left for this stage.
remaining() {
  local of_stage=$((stage_limit - (SECONDS - stage_started))) of_all=$((total_limit - (SECONDS - started)))
  echo $((of_stage < of_all ? of_stage : of_all))
}

# within LIMIT: prints LIMIT or, if less time is left for this stage, the seconds that are left.
within() {
  local left
  left=$(remaining)
  echo $(($1 < left ? $1 : left))
}

# run ITEM LIMIT COMMAND...: runs a command for at most LIMIT seconds, records the result, and appends the output to the
# log of the stage. The variable last_output names a file with the output. Returns the status of the command. If COMMAND
# is a function of this script, `run` enforces no limit: a function that may take long must limit its time itself.
run() {
  local item=$1 limit=$2 begun=$SECONDS status left note=""
  shift 2
  left=$(remaining)
  last_output=$work/output.$BASHPID
  : >"$last_output"
  if [ "$left" -lt 5 ]; then
    skip "$item" "no time is left in this stage"
    return 1
  fi
  printf '\n== %s: %s\n' "$item" "$*" >>"$log"
  if declare -F "$1" >/dev/null; then
    ("$@") >"$last_output" 2>&1 </dev/null
  else
    timeout --kill-after=5 "$(within "$limit")" "$@" >"$last_output" 2>&1 </dev/null
  fi
  status=$?
  cat "$last_output" >>"$log"
  if [ $status -eq 0 ]; then
    record "$item" passed $((SECONDS - begun)) ""
  else
    [ $status -ne 124 ] && [ $status -ne 137 ] && note="status $status" || note="ran out of time"
    record "$item" FAILED $((SECONDS - begun)) "$note"
  fi
  return $status
}

# side_by_side COMMAND...: waits until fewer than $jobs commands are running, then starts COMMAND in the background. The
# items that the command runs are recorded in a separate log and a separate file of results; see collect.
started_items=0
side_by_side() {
  while [ "$(jobs -rp | wc -l)" -ge "$jobs" ]; do wait -n; done
  ((++started_items))
  (
    log=$work/log.$started_items
    results=$work/results.$started_items
    : >"$log"
    : >"$results"
    "$@"
  ) &
}

# collect: waits for all commands that side_by_side has started. Then appends their logs and results to those of the
# stage, in the order in which the commands were started.
collect() {
  local i
  wait
  for ((i = 1; i <= started_items; ++i)); do
    cat "$work/log.$i" >>"$log"
    cat "$work/results.$i" >>"$results"
  done
  started_items=0
}

# have PROGRAM ITEM: returns whether a program was built. If it was not built, records the item as skipped.
have() {
  [ ! -x "$programs/$1" ] || return 0
  skip "$2" "the program $1 was not built"
  return 1
}

# --- Stages ---

versions() {
  cat "$programs/commit"
  uname -srm
  nvcc --version 2>/dev/null | tail -n 2 || true
  "$python" --version
  "$python" -c 'import torch; print("torch", torch.__version__, torch.version.cuda)' 2>/dev/null || echo "no torch"
  ldd "$programs/libshampoo_cuda.so.0"
  ! ldd "$programs/libshampoo_cuda.so.0" | grep 'not found'
}

stage_1() {
  if command -v nvidia-smi >/dev/null; then
    run "nvidia-smi" 60 nvidia-smi
    run "GPU and driver" 60 nvidia-smi --query-gpu=name,driver_version,compute_cap,memory.total,clocks.max.sm,power.limit \
      --format=csv,noheader && head -n 1 "$last_output" >"$out/gpu.txt"
  else
    skip "nvidia-smi" "it is not installed"
  fi
  run "versions, and all libraries are found" 60 versions
  if have bench "a step"; then run "a step" 120 "$programs/bench" --device cuda --plugin "$SHAMPOO_TEST_CUDA_PLUGIN" --shapes 64x48 --block 64 --min-runs 1; fi
}

stage_2() {
  local options=()
  ! $fake || options=(--tiny)
  if have probe "probe"; then
    run "probe" 400 "$programs/probe" "${options[@]}" && cp "$last_output" "$out/probe.txt"
  fi
}

# cases SUITE [COUNT]: prints the files of the recorded cases of a suite (see tests/golden/README.md). With --fake,
# prints only the first COUNT files (default: 3).
cases() {
  local files=("$golden/data/$1"/*.safetensors)
  files=("${files[@]/*\/data.safetensors/}") # data.safetensors is not a case: it has the images of the training cases
  if $fake; then
    printf '%s\n' "${files[@]}" | sed '/^$/d' | head -n "${2:-3}"
  else
    printf '%s\n' "${files[@]}" | sed '/^$/d'
  fi
}

# replay_and_judge ITEM LIMIT SUITE OUT OPTION...: replays the cases of a suite and judges the results.
replay_and_judge() {
  local item=$1 limit=$2 suite=$3 folder=$work/$4 files
  shift 4
  mapfile -t files < <(cases "$suite")
  run "$item" "$limit" "$programs/replay" --device cuda --threads 1 "$@" --out "$folder" "${files[@]}" || return 1
  if "$python" -c 'import numpy' 2>/dev/null; then
    run "$item: ${#files[@]} results within tolerance" 120 judge "$suite" "$folder" ${#files[@]}
  else
    skip "$item: results within tolerance" "$python has no numpy"
  fi
}

# judge SUITE FOLDER COUNT: compares the results in FOLDER with the recorded results or, if the array `expected` has
# options of compare.py, with the results that these options name. Fails unless exactly COUNT results pass.
expected=()
judge() {
  local options=("${expected[@]}") said
  if $fake; then options+=(--missing-ok); fi
  said=$("$python" $golden/compare.py "${options[@]}" "$golden/data/$1" "$2") || { printf '%s\n' "$said"; return 1; }
  printf '%s\n' "$said"
  [[ $'\n'$said == *$'\n'"$3 passed, 0 failed"* ]]
}

# same_bits FOLDER OTHER: returns whether both folders have the same files with the same contents.
same_bits() { diff -rq "$work/$1" "$work/$2"; }

# replay_twice SUITE: replays and judges a suite, and checks that a second replay gives bit-identical results.
replay_twice() {
  local files
  replay_and_judge "$1" 240 "$1" "$1.1"
  mapfile -t files < <(cases "$1")
  run "$1, again" 240 "$programs/replay" --device cuda --threads 1 --out "$work/$1.2" "${files[@]}" &&
    run "$1: both runs are bit-identical" 60 same_bits "$1.1" "$1.2"
}

# shards_on_cpu LIMIT: replays trajectories with 3 shards on the CPU: once with the recorded inputs, and 8 times with
# perturbed inputs. All replays together take at most LIMIT seconds.
shards_on_cpu() {
  local files seed left end
  end=$((SECONDS + $(within "$1")))
  mapfile -t files < <(cases trajectory)
  for seed in 0 1 2 3 4 5 6 7 8; do
    local options=(--out "$work/shards.cpu")
    [ $seed -eq 0 ] || options=(--perturb $seed --out "$work/shards.noise.$seed")
    left=$((end - SECONDS))
    [ $left -gt 0 ] || return 124 # timeout 0 would set no limit
    timeout --kill-after=5 $left "$programs/replay_on_cpu" --threads 1 --shard rect --shards 3 "${options[@]}" \
      "${files[@]}" || return
  done
}

# replay_shards: replays trajectories with 3 shards on the GPU, and compares the results with those of the CPU. The
# recorded results do not apply, because each shard has its own blocks. The tolerance is 4 times the largest change that
# perturbed inputs cause on the CPU, but at least the recorded tolerance.
replay_shards() {
  local ranks seed
  run "3 shards, on the CPU" 240 shards_on_cpu 240 || return
  expected=(--against "$work/shards.cpu")
  for seed in 1 2 3 4 5 6 7 8; do expected+=(--noise "$work/shards.noise.$seed"); done
  for ranks in 1 2; do
    replay_and_judge "3 shards, $ranks replicas" 240 trajectory "shards.$ranks" --shard rect --shards 3 --ranks $ranks
  done
}

stage_3() {
  have replay "goldens" || return
  local suite ranks communicate collectives
  for suite in trajectory training eigenbasis muon; do
    if $fake && [ $suite = training ]; then skip "training" "it takes minutes with the fake CUDA"; continue; fi
    side_by_side replay_twice $suite
  done
  for suite in rules norms elementwise later_release; do side_by_side replay_and_judge $suite 240 $suite "$suite.1"; done
  for ranks in 2 3; do
    for communicate in updates params; do
      side_by_side replay_and_judge "trajectory, $ranks ranks, $communicate" 240 trajectory "ranks.$ranks.$communicate" \
        --ranks $ranks --communicate $communicate
    done
  done
  side_by_side replay_and_judge "averages, 2 ranks" 240 muon "muon.ranks" --ranks 2
  side_by_side replay_shards
  # With shard_mode=gather, the blocks are those of whole parameters, so the recorded results apply.
  for collectives in all all_gather; do
    side_by_side replay_and_judge "gathered shards, $collectives" 240 trajectory "gathered.$collectives" \
      --shard rect --shards 3 --ranks 2 --shard-mode gather --collectives $collectives
  done
  collect
}

stage_4() {
  local some=()
  if have contract "contract"; then
    ! $fake || some=("--test-case=a step on the device*,a replay uses the buffers*")
    side_by_side run "contract" 300 "$programs/contract" --test-suite-exclude=long,fake "${some[@]}"
    $fake || side_by_side run "contract: communicators of host memory" 300 "$programs/contract" \
      "--test-case=ranks make bit-identical steps over communicators*"
  fi
  if have against_cpu "against_cpu"; then
    if $fake; then
      side_by_side run "against_cpu: large shapes" 120 "$programs/against_cpu" "--test-case=large factor matrices and the roots of matrices above*"
    else
      side_by_side run "against_cpu: large shapes" 200 "$programs/against_cpu" "--source-file=*large_test*" --duration=true
      side_by_side run "against_cpu" 300 "$programs/against_cpu" "--source-file-exclude=*large_test*" --test-suite-exclude=long
    fi
  fi
  collect
  # The program `faults` causes a fault of the device. It is a separate program, because a process cannot use CUDA after
  # a fault. No other item runs at the same time.
  if have faults "a fault of the device"; then run "a fault of the device" 60 "$programs/faults" --test-suite=fault; fi
}

# initcheck LIMIT PROGRAM...: runs a program under initcheck. Fails if a kernel of libshampoo reads memory that nothing
# has written. No filter of kernels is passed, because initcheck must see the writes of the CUDA libraries. The kernels
# of the CUDA libraries read workspace before they write it, so reports about these kernels are ignored.
initcheck() {
  local limit
  limit=$(within "$1")
  shift
  timeout --kill-after=5 "$limit" compute-sanitizer --tool initcheck --print-limit 0 --show-backtrace no "$@" 2>&1 | awk '
    /^========= (Uninit|Host API)/ { report = $0; next }
    /^=========     at / { if (/shampoo::/ && ++ours <= 20) print report "\n" $0; next }
    /^========= ERROR SUMMARY/ { ended = 1 }
    !/^=========/ || /SUMMARY/
    END { printf "%d reports for our kernels%s\n", ours, ended ? "" : ", and initcheck did not end"; exit ours > 0 || !ended }'
  local status=("${PIPESTATUS[@]}")
  return $((status[0] != 0 ? status[0] : status[1]))
}

# under_sanitizer TOOL ITEM LIMIT PROGRAM...: runs a program under a tool of compute-sanitizer.
under_sanitizer() {
  local tool=$1 item=$2 limit=$3
  shift 3
  if [ "$tool" = initcheck ]; then
    run "initcheck: $item" "$limit" initcheck "$limit" "$@"
    return
  fi
  # Check only the kernels of libshampoo, because the CUDA libraries cannot be changed.
  local check=(compute-sanitizer --tool "$tool" --error-exitcode 9 --kernel-name kernel_substring=shampoo)
  [ "$tool" != memcheck ] || check+=(--report-api-errors no)
  run "$tool: $item" "$limit" "${check[@]}" "$@"
}

stage_5() {
  if ! command -v compute-sanitizer >/dev/null; then
    skip "compute-sanitizer" "it is not installed"
    return
  fi
  local tool files shape=600x512
  ! $fake || shape=60x51
  mapfile -t files < <(cases trajectory 1 | head -n 4)
  for tool in memcheck racecheck synccheck initcheck; do
    [ $tool != initcheck ] || files=("${files[0]}") # initcheck is slow: it also checks kernels of the CUDA libraries
    if have replay "$tool: trajectories"; then
      under_sanitizer $tool "trajectories" 100 "$programs/replay" --device cuda --threads 1 --out "$work/$tool" "${files[@]}"
    fi
    if have contract "$tool: a step"; then
      under_sanitizer $tool "a step" 60 "$programs/contract" "--test-case=a step on the device*"
    fi
    if have bench "$tool: blocks of 512"; then
      under_sanitizer $tool "blocks of 512" 100 "$programs/bench" --device cuda --plugin "$SHAMPOO_TEST_CUDA_PLUGIN" \
        --shapes $shape --block 512 --min-runs 1
    fi
  done
}

# bench ITEM LIMIT OPTION...: runs shampoo_bench. Appends the printed table to timing.txt, and the JSON report to
# timing.json.
bench() {
  local item=$1 limit=$2
  shift 2
  if run "$item" "$limit" "$programs/bench" --device cuda --plugin "$SHAMPOO_TEST_CUDA_PLUGIN" --json "$work/bench.json" "$@"; then
    { printf '\n%s: %s\n' "$item" "$*"; sed '1,/^device/d' "$last_output"; } >>"$out/timing.txt"
    { [ -s "$out/timing.json" ] && echo ,; cat "$work/bench.json"; } >>"$out/timing.json"
  fi
}

# root_methods BLOCK LIMIT OPTION...: measures steps with blocks of size BLOCK. Measures each root method with
# inverse_root_override=2 and with inverse_root_override=4. Each measurement takes at most LIMIT seconds.
root_methods() {
  local block=$1 limit=$2 root method
  shift 2
  for root in 2 4; do
    bench "eigen, root $root, blocks of $block" "$limit" "$@" --block "$block" --set root_method=eigen \
      --set inverse_root_override=$root
    # The output of the first item lists all root methods of the library.
    [ -n "$methods" ] ||
      methods=$(sed -n 's/^library .*"root_methods": \[\([^]]*\)\].*/\1/p' "$last_output" | tr -d '",')
    for method in ${methods:-newton higher_order cans}; do
      [ "$method" = eigen ] || bench "$method, root $root, blocks of $block" "$limit" "$@" --block "$block" \
        --set "root_method=$method" --set inverse_root_override=$root
    done
  done
}

# The slowest items come last: the largest blocks, and roots on the host.
stage_6() {
  have bench "timing" || return
  local model=(--case gpt2 --min-runs 3) blocks=(256 512) block=1024 largest=2048 methods="" size
  ! $fake || model=(--shapes 64x48,40 --min-runs 1) blocks=() block=16 largest=32
  rm -f "$out/timing.txt" "$out/timing.json" "$out/root_methods.txt"
  for size in "${blocks[@]}" $block; do root_methods $size 60 "${model[@]}"; done
  bench "TF32, blocks of $block" 60 "${model[@]}" --block $block --set precondition_math=tf32
  bench "10 steps in a row" 60 "${model[@]}" --block $block --period 10
  bench "10 steps in a row, root_spread" 60 "${model[@]}" --block $block --period 10 --set root_spread=true
  bench "10 steps in a row, root_async" 60 "${model[@]}" --block $block --period 10 --set root_async=5
  root_methods $largest 90 "${model[@]}"
  bench "10 steps in a row, root_async on the host" 60 "${model[@]}" --block $block --period 10 --set root_async=5 \
    --set root_device=host
  [ -s "$out/timing.json" ] || return
  { echo '['; cat "$out/timing.json"; echo ']'; } >"$work/json" && mv "$work/json" "$out/timing.json"
  # This item does not use `run`, which would skip it if no time were left.
  if "$python" $tools/root_methods_table.py "$out/timing.json" >"$out/root_methods.txt" 2>>"$log"; then
    record "root methods by block size and inverse_root_override" passed 0 ""
  else
    record "root methods by block size and inverse_root_override" FAILED 0 "see the log"
  fi
}

stage_7() {
  if ! "$python" -c 'import torch' 2>/dev/null; then
    skip "PyTorch" "$python has no torch"
    return
  fi
  local options=(--device cuda --block 1024)
  ! $fake || options=(--device cpu --block 16 --shapes 64x48,40)
  run "PyTorch" 400 "$python" $tools/torch_reference.py "${options[@]}" && cp "$last_output" "$out/torch.txt"
}

stage_8() {
  if ! command -v ncu >/dev/null; then
    skip "Nsight Compute" "ncu is not installed"
    return
  fi
  have bench "Nsight Compute" || return
  local shapes=768x2304,768x768,768x3072,3072x768,768 metrics=gpu__time_duration.sum
  ! $fake || shapes=40x30
  metrics+=,sm__throughput.avg.pct_of_peak_sustained_elapsed,gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed
  run "ncu" 300 ncu --csv --metrics $metrics --launch-count 4000 --log-file "$work/ncu.csv" "$programs/bench" --device cuda \
    --plugin "$SHAMPOO_TEST_CUDA_PLUGIN" --shapes $shapes --block 1024 --min-runs 1 &&
    run "the five largest kernels" 60 "$python" $tools/kernels_table.py "$work/ncu.csv" && cp "$last_output" "$out/kernels.txt"
}

# --- The table ---

summary() {
  printf '# tests/gpu.sh%s\n\n' "$($fake && echo ' --fake')"
  printf -- '- date: %s\n- commit: %s\n' "$(date -u +%F)" "$(tr '\n' ' ' <"$programs/commit")"
  printf -- '- GPU, driver, compute capability: %s\n\n' "$(cat "$out/gpu.txt" 2>/dev/null || echo unknown)"
  printf '| stage | item | result | seconds | note |\n|---|---|---|---:|---|\n'
  sort -s -n -k 1,1 "$results" | awk -F '\t' '{ printf "| %s | %s | %s | %s | %s |\n", $1, $2, $3, $4, $5 }'
  awk -F '\t' '{ ++n[$3] } END { printf "\n%d passed, %d failed, %d skipped\n", n["passed"], n["FAILED"], n["skipped"] }' "$results"
}

for stage in "${chosen[@]}"; do
  printf '== stage %s\n' "${stages[$((stage - 1))]}"
  stage_started=$SECONDS
  log=$out/stage_$stage.log
  : >"$log"
  awk -F '\t' -v stage="$stage" '$1 != stage' "$results" >"$work/results" && cp "$work/results" "$results"
  "stage_$stage"
done
summary | tee "$out/summary.md"
grep -q $'\tpassed\t' "$results" && ! grep -q $'\tFAILED\t' "$results"
