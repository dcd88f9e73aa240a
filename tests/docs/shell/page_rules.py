# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""The requirements and rules of each page. Rules change, skip or check commands (rules.py). Each rule has a reason."""
import sysconfig
from pathlib import Path

from shell.rules import Edit, Ends, Instead, Page, Skip, Then

GUIDE = "docs/getting_started.md"  # its commands install the library into $HOME/shampoo
NO_GPU = "^skipped: libshampoo cannot use a GPU here: "
WHY_77 = "on a machine without a GPU, the program reports this and exits with status 77"
NUMBER = r"-?[0-9.]+(e-?[0-9]+)?"  # as %g prints a number below 1e6; does not match "nan" or "inf"


def nccl(machine):
    """Returns the folder in which NCCL is installed, or a folder of the same layout that has the stand-in for NCCL."""
    for folder in ("/usr/local/cuda", "/usr/local", "/usr"):
        if all(Path(folder, name).exists() for name in ("include/nccl.h", "lib/libnccl.so")):
            return folder
    folder = machine.home / "nccl"
    folder.mkdir(exist_ok=True)
    for name, target in (("include", "tests/distributed/standin"), ("lib", "build/dev/tests/distributed/standin")):
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(machine.clone / target)
    return str(folder)


def jaxlib_headers(_):
    """Returns the folder of jaxlib's headers, which exists if jax is installed for the interpreter of the tests."""
    return str(Path(sysconfig.get_path("platlib"), "jaxlib/include"))


#: The pages contain placeholders for folders. Maps each placeholder to a function that returns the actual folder.
WHERE = {
    "/where/shampoo/is": lambda machine: str(machine.home / "shampoo"),
    "/where/nccl/is": nccl,
    "/path/to/jaxlib/include": jaxlib_headers,
}

#: Rules for every page. Unlike the rules of one page, these rules may match nothing.
COMMON = (
    Instead(r"(cmake --preset (release|deb))\b", r"\1 -DSHAMPOO_CUDA_ARCHITECTURES=90-real",
            "with a CUDA toolkit, compiling for only one generation of GPUs saves minutes"),
)  # fmt: skip


def needs_installed(**options):
    return Page(needs=(GUIDE, *options.pop("needs", ())), **options)


# The examples with this rule load images with scikit-learn, which the tests do not install. The section "Requirements"
# in the README.md of each example describes --data, which makes scikit-learn unnecessary.
IMAGES = Instead(r"train\.py", "train.py --data ../c_mlp/data/digits.bin", "scikit-learn is not installed, and the page describes --data")
# Without CC and CXX, pip passes a longer name of the compiler, which ccache does not recognize. The CMake cache is
# removed, because it has options that another page has passed to pip.
PIP = "export CC=cc CXX=c++\nrm -f build/python/CMakeCache.txt"

# Commands that make the edits that docs/rust.md describes.
RUST_PROGRAM = r"""sed -n '/^```rust$/,/^```$/{/^```/!p;/^```$/q}' ../docs/rust.md >src/main.rs
sed -n '/^```toml$/,/^```$/{/^libshampoo/p}' ../docs/rust.md | sed "s|/where/libshampoo/is|$(dirname "$PWD")|" >>Cargo.toml"""

PAGES = {
    "README.md": Page(rules=(
        Instead(r"bash tests/run\.sh", "bash -n tests/run.sh", "tests/run.sh would run this test again"),
        Instead(r"pip install \.", "test -e pyproject.toml", "the test of docs/python.md runs this command"),
        Ends(r"^\./minimal", (0,), rf"^w =( {NUMBER}){{6}}$", "the program prints w"),
    )),
    "CONTRIBUTING.md": Page(rules=(
        Instead(r"--build --preset dev", "--build --preset dev --target docs_print_keys nccl_standin",
                "building all targets takes half an hour; the next command and other pages need only these two"),
        Instead(r"--label-exclude long", r"--label-exclude long --tests-regex '^docs\.(keys|links)$'",
                "the programs of the other tests are not built"),
    )),
    "benchmarks/README.md": Page(rules=(
        Instead(r"bash benchmarks/run\.sh", "bash -n benchmarks/run.sh", "all parts take hours; the stage "
                "'benchmarks' of the long tier runs them with small sizes"),
        Instead(r"report\.py( --fill)?", "report.py --check", "the test does not change files"),
    )),
    GUIDE: Page(program="trainer.c", rules=(
        Then(r"^cc .*trainer\.c", "./a.out | grep -F 'w = '", "checks that the linked program runs"),
        Then(r"cmake --install .* --prefix /usr/local", 'test -e "$SHELL_ROOT/usr/local/include/shampoo/shampoo.h"',
             "checks that the header is installed"),
    )),
    "docs/ablation.md": Page(needs=("README.md",), rules=(
        Edit("docs/measure/ablation_plan.py", r"^EPOCHS = 10$", "EPOCHS = 1", "all runs take 16 minutes"),
        Edit("docs/measure/ablation_plan.py", r"^SEARCH_SEEDS = .*$", "SEARCH_SEEDS = (101,)",
             "all runs take 16 minutes"),
        Edit("docs/measure/ablation_plan.py", r"^SEEDS = .*$", "SEEDS = (1,)", "all runs take 16 minutes"),
        Edit("docs/measure/ablation_plan.py", r"^HALF_GRID = 2", "HALF_GRID = 1", "all runs take 16 minutes"),
        Edit("docs/measure/ablation_plan.py", r"^MOST_WIDENING = 8", "MOST_WIDENING = 0", "all runs take 16 minutes"),
        Instead(r"ablation_table\.py out/ablation\.json", r"\g<0> --targets 1 0.5",
                "one epoch does not reach the default targets"),
    )),
    "docs/checkpoints.md": needs_installed(
        needs=("examples/c_mpi/README.md",),
        before="""export PATH=$HOME/shampoo/bin:$PATH
rm -rf checkpoints other && cp -r examples/c_mpi/saved checkpoints
mpirun -n 1 examples/c_mpi/build/train_digits_mpi --data examples/c_mlp/data/digits.bin --checkpoint other --stop-after 2 >/dev/null""",
        rules=(Ends(r"shampoo-ckpt diff", (1,), r"^different: [0-9]+ of",
                    "the two checkpoints were saved at different steps"),),
    ),
    "docs/java.md": Page(wants=("java",), before="sed -n '/^import io/,/^}$/p;/^}$/q' docs/java.md >Minimal.java", rules=(
        Ends(r"^java -cp", (0,), r"^w\[5\] = -?[0-9.E-]+$", "the program prints w"),
        Instead(r"^mvn install:install-file -DpomFile=(\S+) -Dfile=(\S+)$", r"test -e \1 && test -e \2", "Maven would download a plugin"),
    )),
    "docs/jax.md": Page(wants=("python",), before=PIP, rules=(
        Then(r"SHAMPOO_XLA_INCLUDE=", "(cd / && python3 -c 'import libshampoo.jax')", "checks that the module exists"),
    )),
    "docs/performance.md": Page(rules=(
        Instead(r"--block 64,128,256,512,1024", "--block 64,256 --min-runs 1", "the whole table takes an hour"),
        Instead(r"--shapes 4096x1024,1024x1024,1024 --block 128,256,512,1024",
                "--shapes 512x256,256 --block 64,128 --min-runs 1", "the whole table takes an hour"),
        Instead(r"--runs 12", "--runs 1 --mib 64", "the test does not need an exact measurement of the disk"),
    )),
    "docs/python.md": Page(wants=("python",), before=PIP, rules=(
        Skip(r"SHAMPOO_CUDA=ON", "there is no CUDA toolkit", unless="cuda"),
        Instead(r"cmake\.define\.SHAMPOO_CUDA=ON", r"\g<0> --config-settings cmake.define.SHAMPOO_CUDA_ARCHITECTURES=90-real",
                "compiling for one generation of GPUs saves minutes"),
        Then(r"SHAMPOO_CUDA=ON", "test -e $(cd / && python3 -c 'import os, libshampoo; print(os.path.dirname(libshampoo.__file__))')/libshampoo_cuda.so",
             "checks that the package contains the CUDA backend"),
    )),
    "docs/tuning.md": Page(needs=("docs/python.md",), wants=("python",), rules=(
        Instead(r"--seeds 5", "--seeds 1 --only parabola", "all rows take an hour"),
        Ends(r"defaults\.py", (0,), r"\| parabola \|", "the table has the row of parabola"),
        Instead(r"low_rates\.py", "low_rates.py --seeds 1 --steps 3 --rates 0.001", "the whole table takes minutes"),
        Ends(r"low_rates\.py", (0,), r"\| full \| 0\.001 \|", "the table has its last row"),
    )),
    "docs/roots.md": Page(wants=("benchmark",), rules=(
        Instead(r"--count 20000", "--count 200", "the test roots.random checks the whole table"),
        Skip(r"root_accuracy\.py", "Python has no mpmath", unless="mpmath"),
        Instead(r"--benchmark_min_time=0\.3", "--benchmark_min_time=0.01 --benchmark_filter='/(32|64|128)(/|$)'",
                "roots of matrices of size 2048 take a quarter of an hour"),
    )),
    "docs/rust.md": Page(wants=("rust",), rules=(
        Then(r"^cargo new", RUST_PROGRAM, "makes the edits that the page describes"),
        Ends(r"^cargo run", (0,), r"^w = \[-?[0-9.e-]+(, -?[0-9.e-]+){5}\]$", "the program prints w"),
    )),
    "examples/c_conv/README.md": needs_installed(),
    "examples/c_dlopen/README.md": needs_installed(),
    "examples/c_host/README.md": needs_installed(rules=(
        Ends(r"--broken-from", (1,), r"the gradient of parameter .* has NaN",
             "the trainer stops and prints the library's message"),
    )),
    "examples/c_mlp/README.md": needs_installed(),
    "examples/c_mpi/README.md": needs_installed(),
    "examples/c_nccl/README.md": needs_installed(needs=("CONTRIBUTING.md",), rules=(
        Instead(r"-DC_NCCL_GPUS=ON", "", "there is no CUDA toolkit", unless="cuda"),
        Skip(r"train_digits_gpus", "there is no CUDA toolkit", unless="cuda"),
        Ends(r"train_digits_gpus", (0, 77), NO_GPU + "|^bit-identical on every rank", WHY_77),
    )),
    "examples/c_transformer/README.md": needs_installed(rules=(
        Instead(r"--optimizer shampoo|--compare(-frequencies)?", r"\g<0> --steps 12 --warmup 1 --batch 4 --every 12",
                "whole runs take minutes"),
        Ends(r"train_text", (0,), r"[1-9][0-9]* inverse roots", "even these few steps compute inverse roots"),
    )),
    "examples/cuda_mlp/README.md": needs_installed(wants=("cuda",), rules=(
        Ends(r"^build/train_digits_cuda", (0, 77), NO_GPU + "|^Shampoo computed", WHY_77),
    )),
    "examples/java_digits/README.md": Page(
        needs=("docs/java.md",), wants=("java",), before="cp ../../install/share/java/libshampoo-*.jar libshampoo.jar"),
    "examples/jax_digits/README.md": Page(needs=("docs/python.md",), wants=("python",), rules=(IMAGES,)),
    "examples/python_digits/README.md": Page(needs=("docs/python.md",), wants=("python",), rules=(IMAGES,)),
    "examples/rust_digits/README.md": needs_installed(wants=("rust",)),
    "examples/tinygrad_digits/README.md": Page(needs=("docs/python.md",), wants=("python",), rules=(IMAGES,)),
}  # fmt: skip
