#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_gpus.py --data DATA --gpus GPUS --cpu CPU --one ONE: checks the examples for GPUs with the fake CUDA.

GPUS is train_digits_gpus and ONE is train_digits_cuda. Both run on fake GPUs. CPU is train_digits_nccl, which runs on
the host, with the option --host-memory.

Checks that
- with replicas and with shards, the loss falls, the parameters of all GPUs are bit-identical, and the losses agree with
  those of CPU on the same number of ranks;
- the losses with two copies of the sharded parameters (HSDP) agree with those with one copy;
- with shards, each GPU stores only a part of the state;
- with shards and the option --gather (shard_mode=gather), losses and parameters are bit-identical to those of a run
  without shards;
- with --gather and two copies of the sharded parameters, the losses agree with those of a run without shards;
- ONE prints how much its gradient differs from the gradient that the host computes, and the losses of ONE agree with
  those of CPU.
"""
import argparse
import re
import subprocess

EPOCHS = 3
HIGHEST_LOSS = 0.15  # limit of the last loss, which was 0.033 in a run; before the first step the loss is 2.36
# Largest relative difference of losses between two runs. In one comparison, rounding caused a difference of
# 0.0031 after 66 steps. If the program CPU sharded the parameters differently from GPUS, the difference would be 0.1.
TOLERANCE = 0.01
SHORT = ("--epochs", "1", "--batch", "128")  # 11 steps, each of which refreshes the inverse roots
HIGHEST_SHORT_LOSS = 1.5  # limit of the last loss, which was 1.2 in a run
EPOCH = re.compile(r"^ +(\d+) +(\d+\.\d+) .*%$", re.MULTILINE)
# Matches a rank's number, its KiB of state, the bytes that it sends in a step, and the hash of its parameters.
RANK = re.compile(r"^ +(\d+) +(\d+) KiB +(\d+) bytes +\d+\.\d+ ms +([0-9a-f]{16})$", re.MULTILINE)

parser = argparse.ArgumentParser(description=__doc__)
for name in ("--data", "--gpus", "--cpu", "--one"):
    parser.add_argument(name, required=True)
arguments = parser.parse_args()


def run(command):
    return subprocess.run([command[0], "--data", arguments.data, "--epochs", str(EPOCHS), *command[1:]],
                          capture_output=True, text=True, timeout=120, check=False)


def losses_of(done, epochs=EPOCHS, highest=HIGHEST_LOSS):
    assert done.returncode == 0, done.stdout + done.stderr
    losses = [float(loss) for _, loss in EPOCH.findall(done.stdout)]
    assert len(losses) == epochs + 1 and losses[0] > 2 and losses[-1] < highest, done.stdout
    return losses


def rows_of(done, ranks):
    """Return the printed row of each rank. Check that the parameters of all ranks are bit-identical."""
    rows = RANK.findall(done.stdout)
    assert [int(rank) for rank, *_ in rows] == list(range(ranks)), done.stdout
    assert len({bits for *_, bits in rows}) == 1 and "bit-identical on every rank" in done.stdout, done.stdout
    return rows


def train(ranks, shards):
    """Train on fake GPUs. Return the losses, and for each rank the KiB of its state and the bytes that it sent.

    shards: number of GPUs that together hold one copy of the parameters; 0: all GPUs; 1: there are no shards."""
    done = run([arguments.gpus, "--ranks", str(ranks), "--shards", str(shards)])
    losses, rows = losses_of(done), rows_of(done, ranks)
    return losses, [int(state) for _, state, *_ in rows], [int(sent) for _, _, sent, _ in rows]


def train_shortly(ranks, shards, *options):
    """Make 11 steps on fake GPUs. Return the losses, the hash of the parameters, and for each rank the KiB of its state
    and the bytes that it sent. shards: see train()."""
    done = run([arguments.gpus, "--ranks", str(ranks), "--shards", str(shards), *SHORT, *options])
    losses, rows = losses_of(done, 1, HIGHEST_SHORT_LOSS), rows_of(done, ranks)
    return losses, rows[0][-1], [int(state) for _, state, *_ in rows], [int(sent) for _, _, sent, _ in rows]


def on_cpu(ranks, *options):
    return losses_of(run([arguments.cpu, "--ranks", str(ranks), "--host-memory", *options]))


def check_close(losses, expected, what):
    largest = max(abs(a - b) / b for a, b in zip(losses, expected))
    print(f"{what}: loss {losses[-1]}, expected {expected[-1]}, largest difference {100 * largest:.2f} %")
    assert largest < TOLERANCE, (what, losses, expected)


replicas, whole_state, sent = train(2, 1)
assert min(sent) > 0, sent
check_close(replicas, on_cpu(2), "2 replicas")
for shards in (2, 3, 4):
    losses, state, sent = train(shards, 0)
    check_close(losses, on_cpu(shards, "--fsdp"), f"{shards} shards")
    assert sent == [0] * shards and max(state) < 0.6 * sum(whole_state), (state, sent, whole_state)
    if shards == 2:
        two, state_of_two = losses, state
copies, state, sent = train(4, 2)
check_close(copies, two, "2 copies of 2 shards")
assert min(sent) > 0 and max(state) < 0.6 * max(state_of_two), (state, sent)

for count in (2, 4):
    whole, bits, state, _ = train_shortly(count, 1)
    gathered = train_shortly(count, 0, "--gather")
    assert gathered[:3] == (whole, bits, state) and min(gathered[3]) > 0, (count, gathered, whole, bits, state)
copies, _, state_of_copies, sent = train_shortly(4, 2, "--gather")
check_close(copies, whole, "2 copies of 2 gathered shards")
assert sorted(state_of_copies) == sorted(state) and min(sent) > 0, (state_of_copies, state, sent)

one = run([arguments.one])
check_close(losses_of(one), on_cpu(1, "--set", "max_preconditioner_dim=1024"), "1 GPU")
assert "gradient    differs" in one.stdout, one.stdout

wrong = run([arguments.gpus, "--ranks", "4", "--shards", "3"])
assert wrong.returncode == 1 and "--shards 3: expected a divisor of 4" in wrong.stderr, wrong
wrong = run([arguments.gpus, "--gather"])
assert wrong.returncode == 1 and "--gather with --shards 1: expected --shards 0, or 2 or more" in wrong.stderr, wrong
wrong = run([arguments.gpus, "--ranks", "5"])
assert wrong.returncode == 1 and "--ranks 5: there are 4 GPUs" in wrong.stderr, wrong
