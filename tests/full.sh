# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the long tier of the tests in stages. tests/run.sh sources this file. This file calls functions of tests/run.sh.

readonly stages=(dev asan tsan system-blas clang-tidy benchmarks arm64 fuzz mutations)
readonly mutation_areas=(core cuda python java rust bindings docs c_host) # each is also a stage, such as mutations/core

# run_stage NAME: runs one stage and appends its results to `table`.
run_stage() {
  case $1 in
    dev) build_and_test dev ;; # the short and the long tier
    # Tests with the label long are excluded, because they spend their time in BLAS, which is not instrumented. The
    # pattern does not match the label long_ranks. Only the short tier excludes the tests with that label, to save time.
    asan | tsan) build_and_test "$1" --label-exclude '^long$' ;;
    system-blas) build_and_test system-blas --label-exclude 'private-blas|^long$' ;;
    clang-tidy) run_clang_tidy ;;
    benchmarks) run_benchmarks ;;
    arm64) source tests/arm64/run.sh ;;
    fuzz) source tests/fuzz/run.sh ;;
    mutations) for area in "${mutation_areas[@]}"; do run_mutations "$area"; done ;;
    mutations/*) run_mutations "${1#mutations/}" ;;
  esac
}

run_clang_tidy() {
  local source tidy_passed=0 tidy_failed=0
  printf '== clang-tidy\n'
  cmake --preset dev "${python_option[@]}" "${cuda_option[@]}" "${java_option[@]}" "${rust_option[@]}" >/dev/null
  mkdir -p build/tidy
  sed 's/ -fno-gnu-unique//' build/dev/compile_commands.json >build/tidy/compile_commands.json # only g++ has this option
  while read -r source; do
    if clang-tidy -p build/tidy --quiet --extra-arg=-Wno-unknown-pragmas "$source" 2>/dev/null; then # "ivdep" is a pragma of g++
      tidy_passed=$((tidy_passed + 1))
    else
      printf 'clang-tidy: %s\n' "$source"
      tidy_failed=$((tidy_failed + 1))
    fi
  done < <(git ls-files 'core/*.cc' 'capi/src/*.cc')
  tally clang-tidy "$tidy_passed" "$tidy_failed"
}

# Deletes earlier results and runs all parts of the benchmarks with small sizes. Then repeats two runs of each part and
# checks that their losses are unchanged.
run_benchmarks() {
  printf '== benchmarks\n'
  rm -rf out/benchmarks/quick
  if bash benchmarks/run.sh --quick && bash benchmarks/run.sh --quick --check 2; then
    tally benchmarks 1 0
  else
    tally benchmarks 0 1
  fi
}

# run_mutations AREA: applies each wrong change in tests/mutations/AREA. Counts the changes that the tests notice.
run_mutations() {
  local last output=build/mutations_$1.log
  printf '== mutations of %s\n' "$1"
  CMAKE_ARGS="${python_option[*]} ${site_option[*]} ${cuda_option[*]}" bash tests/mutations/run.sh "$1" 2>&1 | tee "$output" || true
  last=$(tail -n 1 "$output")
  if [[ $last =~ ^([0-9]+)\ noticed,\ ([0-9]+)\ not\ noticed$ ]]; then
    tally "$1" "${BASH_REMATCH[1]}" "${BASH_REMATCH[2]}"
  else
    tally "$1 (did not run to the end)" 0 1
  fi
}

# record_stage NAME: replaces the rows of this stage in the table at the end of docs/verification.md.
# For mutations/AREA, only the rows of this area are replaced.
record_stage() {
  local page=docs/verification.md where rows="^| ${1/\// | }[ (]"
  where=$(date -u +%F)" | $(git rev-parse --short HEAD)"
  git diff --quiet HEAD -- core capi bindings tests tools cmake examples benchmarks || where+=" with uncommitted changes"
  where+=" | $(sed -n 's/^model name[^:]*: //p' /proc/cpuinfo | head -n 1), $(nproc) cores"
  {
    grep -v "$rows" "$page"
    while read -r row; do
      [ -z "$row" ] || printf '| %s %s %s |\n' "${1%%/*}" "$row" "$where"
    done <<<"$table"
  } >"$page.new"
  mv "$page.new" "$page"
}

# check_stages [STAGE...]: exits if a stage does not exist.
check_stages() {
  local stage
  for stage in "$@"; do
    [[ " ${stages[*]} ${mutation_areas[*]/#/mutations/} " = *" $stage "* ]] || {
      printf 'unknown stage "%s"; expected one of: %s\n' "$stage" "${stages[*]} ${mutation_areas[*]/#/mutations/}" >&2
      exit 2
    }
  done
}

# run_stages [STAGE...]: runs the named stages. If none is named, runs all stages.
run_stages() {
  local stage area
  [ $# -gt 0 ] || set -- "${stages[@]}"
  for stage in "$@"; do
    table=""
    run_stage "$stage"
    record_stage "$stage"
  done
}
