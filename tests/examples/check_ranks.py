#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""check_ranks.py --data DATA --calls CALLS -- COMMAND...: checks the examples with several ranks.

COMMAND starts the example; the number of ranks replaces {ranks} in it. CALLS is the library of signal_at.c,
which records file operations.

Checks that
- on four ranks, the loss falls and the parameters of all ranks are bit-identical, with replicas and with local shards;
- with replicas, each rank stores at most a third of the state of all ranks, and a step with several exchanges gives the
  same losses as a step with one exchange;
- with communication in bfloat16, each rank sends half as many bytes as in float32, and the parameters of all ranks are
  bit-identical;
- on two and three ranks, losses and parameters with gathered shards equal those with replicas;
- after a run with replicas has ended early, it can be resumed with gathered shards, and then again with replicas;
- a run on four ranks can be resumed on one rank;
- a save writes the parameters to the disk under their final name before it writes the state.
"""
import argparse
import collections
import os
import pathlib
import re
import subprocess
import tempfile

RANKS = 4
EPOCHS = 3
HIGHEST_LOSS = 0.15  # losses up to 0.05 were seen; before the first step the loss is 2.36
LARGEST_SHARE = 1 / 3  # one of the four ranks has the last layer in addition to a quarter of the other layers
EPOCH = re.compile(r"^ +(\d+) +(\d+\.\d+) +(\d+\.\d+) %$", re.MULTILINE)
# Matches the lines that list the parameters by the kind of their blocks.
BLOCKS = re.compile(r"^shampoo +(.*)$", re.MULTILINE)
WHOLE = ["on blocks of the whole parameter: W1 b1 W2 b2 W3 b3"]
PIECES = ["on pieces of the rank's chunk: W1 b1 W2 b2 W3 b3"]
RANK = re.compile(r"^ +(\d+) +(\d+) +(\d+) KiB +(\d+) bytes +([0-9a-f]{16})$", re.MULTILINE)

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--data", required=True, help="digits.bin")
parser.add_argument("--calls", required=True, help="library to preload, which records file operations")
parser.add_argument("command", nargs="+", help="command that starts the program on {ranks} ranks")
arguments = parser.parse_args()


# losses: the printed loss of each epoch. state: for each rank, the KiB of its state. sent: for each rank, the bytes
# that it sends in a step. bits: the hash of the parameters, which is the same on all ranks.
Run = collections.namedtuple("Run", "losses state sent bits")


def command_of(ranks):
    return [*(word.replace("{ranks}", str(ranks)) for word in arguments.command), "--data", arguments.data]


def train(*options, ranks=RANKS, blocks=None, epochs=range(EPOCHS + 1), **environment):
    command = [*command_of(ranks), "--epochs", str(EPOCHS), *options]
    run = subprocess.run(command, capture_output=True, text=True, timeout=100, check=False,
                         env={**os.environ, **environment})
    assert run.returncode == 0, run.stdout + run.stderr
    assert BLOCKS.findall(run.stdout) == (blocks or WHOLE), run.stdout
    epochs_printed, rows = EPOCH.findall(run.stdout), RANK.findall(run.stdout)
    assert [int(epoch) for epoch, _, _ in epochs_printed] == list(epochs), run.stdout
    assert [int(rank) for rank, *_ in rows] == list(range(ranks)), run.stdout
    assert len({bits for *_, bits in rows}) == 1, "the ranks differ:\n" + run.stdout
    assert all(int(count) > 0 for _, count, *_ in rows), run.stdout
    losses = [loss for _, loss, _ in epochs_printed]
    print(f"{ranks} ranks, {' '.join(options) or 'data parallel'}: loss {losses[-1]} after {epochs[-1]} epochs")
    assert epochs[-1] < EPOCHS or float(losses[-1]) < HIGHEST_LOSS, run.stdout
    return Run(losses, [int(state) for _, _, state, *_ in rows], [int(sent) for *_, sent, _ in rows], rows[0][-1])


first = train()
print(f"state of the ranks in KiB: {first.state}")
assert max(first.state) <= LARGEST_SHARE * sum(first.state), first
assert len(set(first.sent)) == 1 and first.sent[0] > 0, first
buckets = train("--set", "verify_replicas=1", "--set", "comm_bucket_bytes=30000")
assert buckets.losses == first.losses, "buckets change the result"

narrow = train("--set", "communication_dtype=bf16")
assert max(narrow.sent) <= 0.51 * first.sent[0], (narrow, first)

local = train("--fsdp", blocks=PIECES)
assert local.sent == [0] * RANKS, local
assert local.losses != first.losses, "with local shards the blocks are different, so the losses should differ"

# Gradients are summed in the same way with and without shards, so losses and parameters are equal.
for count in (2, 3):
    whole, gathered = train("--shards", "none", ranks=count), train("--shards", "gather", ranks=count)
    assert gathered.losses == whole.losses, (count, gathered.losses, whole.losses)
    assert gathered.bits == whole.bits, f"{count} ranks: the losses are the same, but the parameters differ"
    assert gathered.state == whole.state, (count, gathered.state, whole.state)

# Starts a run with replicas, resumes it with gathered shards, and then again with replicas. Afterwards, starts another
# run on four ranks, and resumes it on one rank.
with tempfile.TemporaryDirectory() as folder:
    folder = os.path.realpath(folder)
    saved, log = f"{folder}/saved", pathlib.Path(folder, "calls")
    save = ["--checkpoint", saved]
    whole = train(ranks=2)
    train(*save, "--stop-after", "1", ranks=2, epochs=range(2), LD_PRELOAD=arguments.calls, CALLS=str(log))
    calls = [call for call in log.read_text(encoding="utf-8").splitlines() if saved in call or call == f"fsync {folder}"]
    assert calls[:5] == [f"mkdir {saved}", f"fsync {folder}", f"fsync {saved}/parameters.saving",
                         f"rename {saved}/parameters.saving {saved}/parameters-1.bin", f"fsync {saved}"], calls
    assert not any("parameters" in call for call in calls[5:]), calls
    resumed = train(*save, "--resume", "--stop-after", "2", "--shards", "gather", ranks=2, epochs=range(1, 3))
    assert resumed.losses == whole.losses[1:3], (resumed, whole)
    resumed = train(*save, "--resume", ranks=2, epochs=range(2, EPOCHS + 1))
    assert resumed.losses == whole.losses[2:] and resumed.bits == whole.bits, (resumed, whole)
with tempfile.TemporaryDirectory() as folder:
    save = ["--checkpoint", folder]
    train(*save, "--stop-after", "1", epochs=range(2))
    train(*save, "--resume", ranks=1, epochs=range(1, EPOCHS + 1))

wrong = subprocess.run([*command_of(RANKS), "--set", "no_such_key=1"], capture_output=True, text=True, timeout=100,
                       check=False)
assert wrong.returncode != 0 and "no_such_key" in wrong.stderr, wrong
