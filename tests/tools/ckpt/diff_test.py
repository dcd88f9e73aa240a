# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares the output of shampoo-ckpt diff with numbers that the tests compute from the files of the checkpoints."""
import re

import numpy as np
from checkpoints import ELEMENTWISE, MANY_BLOCKS, Case, Checkpoint, ckpt, flip, main, make

WEIGHT = "encoder/layer.0/weight"


def differences(a, b):
    """Return the numbers that diff should print for a state with values `a` in one checkpoint and `b` in the other.

    The numbers are: number of elements, number of different elements, largest difference, largest relative difference.
    """
    differ = a != b
    distance = np.abs(a - b)[differ]
    relative = distance / np.maximum(np.abs(a), np.abs(b))[differ]
    return a.size, int(differ.sum()), distance.max(initial=0), relative.max(initial=0)


class Diff(Case):
    def diff(self, status, a, b):
        """Run diff and check the exit status. Return ({(parameter, state): numbers}, other lines except headings)."""
        rows, lines = {}, []
        for line in self.run_tool(status, "diff", a, b).splitlines()[2:]:
            row = re.fullmatch(r"(\S+) +(\S+) +(\d+) +(\d+) +(\S+) +(\S+)", line)
            if row:
                name, state, elements, different, largest, relative = row.groups()
                rows[name, state] = (int(elements), int(different), float(largest), float(relative))
            elif line and not line.startswith("parameter "):
                lines.append(line)
        return rows, lines

    def check(self, a, b, rows, names, states):
        """Check that `rows` has the correct numbers for each state that differs, and has no row for equal states."""
        for name in names:
            for state in states:
                values = [one.whole(name, state) for one in (a, b)]
                self.assertFalse(np.isnan(values).any())
                expected = differences(*values)
                row = rows.get((name, state))
                self.assertEqual(row is None, expected[1] == 0, (name, state))
                if row:
                    self.assertEqual(row[:2], expected[:2])
                    np.testing.assert_allclose(row[2:], expected[2:], rtol=6e-6)

    def test_equal_checkpoints(self):
        one = make(self.folder / "one")
        gathered = ("--copies", 2, "--shards", 2, "--set", "shard_mode=gather")
        for number, options in enumerate(((), ("--copies", 3), gathered)):
            other = make(self.folder / str(number), *options)
            rows, lines = self.diff(0, one, other)
            self.assertEqual((rows, lines), ({}, ["the same: 36 states of 5 parameters"]))

    def test_differences_are_counted_and_measured(self):
        folders = [make(self.folder / str(steps), "--steps", steps, "--set", "factor_dtype=bf16") for steps in (2, 3)]
        a, b = map(Checkpoint, folders)
        rows, lines = self.diff(1, *folders)
        self.assertEqual(lines[:2], [f"group {group}: step is 2 in A, 3 in B" for group in (0, 1)])
        self.assertRegex(lines[-1], r"^different: \d+ of 36 states .*; other differences: 2$")
        self.check(a, b, rows, (WEIGHT, "größe", "wide"), ELEMENTWISE)
        self.check(a, b, rows, ("bias", "scalar"), ELEMENTWISE[:2])
        for state in ("factor.0", "inverse.0", "factor.1"):
            values = [np.concatenate([one.tensors[f"{block['key']}/{state}"].values() for block in a.blocks(WEIGHT)])
                      for one in (a, b)]
            row = rows[WEIGHT, state]
            expected = differences(*values)
            self.assertEqual(row[:2], expected[:2])
            np.testing.assert_allclose(row[2:], expected[2:], rtol=6e-6)

    def test_blocks_that_are_read_in_several_batches(self):
        folders = [make(self.folder / str(seed), "--seed", seed, *MANY_BLOCKS) for seed in (1, 2)]
        rows, lines = self.diff(1, *folders)
        self.assertEqual(len(lines), 1)
        self.check(*map(Checkpoint, folders), rows, (WEIGHT, "bias", "größe", "wide", "scalar"), ELEMENTWISE[:1])

    def test_parameters_that_are_divided_into_different_blocks(self):
        for number, options in enumerate((("--shards", 2), ("--shards", 3),
                                          ("--set", "max_preconditioner_dim=5", "--set1", "max_preconditioner_dim=4"))):
            with self.subTest(options):
                folders = [make(self.folder / f"{number}-0", "--seed", 1),
                           make(self.folder / f"{number}-1", "--seed", 2, *options)]
                a, b = map(Checkpoint, folders)
                rows, lines = self.diff(1, *folders)
                self.check(a, b, rows, (WEIGHT, "größe", "wide"), ELEMENTWISE)
                self.check(a, b, rows, ("bias", "scalar"), ELEMENTWISE[:2])
                for name in (WEIGHT, "größe", "wide"):
                    counts = []
                    for one, other in ((a, b), (b, a)):
                        places = [list(other.places(block)) for block in other.blocks(name)]
                        blocks = one.blocks(name)
                        shapes = [block["shape"] for block in other.blocks(name)]
                        differing = sum(list(one.places(block)) not in places or block["shape"] not in shapes
                                        for block in blocks)
                        counts += [differing, len(blocks)]
                    self.assertIn('"{}": {} of {} blocks in A and {} of {} blocks in B are in only one checkpoint: '
                                  "of their states, only those with one element for each element of the parameter are "
                                  "compared".format(name, *counts), lines)

    def test_states_of_weight_ema_and_soap_with_different_blocks(self):
        divided = ("--set", "max_preconditioner_dim=5", "--set1", "max_preconditioner_dim=4")
        for number, (keys, compared, left_out) in enumerate((
                (("--set", "weight_ema=0.9"), ("ema_offset", "momentum"), ()),
                (("--set", "method=soap", "--set", "grafting=none", "--set", "momentum=0", "--set", "weight_ema=0.9"),
                 ("ema_offset",), ("filtered_grad", "second_moment")))):
            with self.subTest(keys):
                folders = [make(self.folder / f"{number}-0", "--seed", 1, *keys),
                           make(self.folder / f"{number}-1", "--seed", 2, *keys, *divided)]
                a, b = map(Checkpoint, folders)
                rows, _ = self.diff(1, *folders)
                self.check(a, b, rows, (WEIGHT,), compared)
                for state in left_out:
                    self.assertNotIn((WEIGHT, state), rows)

    def test_a_checkpoint_that_was_loaded_into_different_blocks(self):
        one = make(self.folder / "one")
        other = make(self.folder / "other", "--load", one, "--set", "max_preconditioner_dim=5", "--set",
                     "on_block_mismatch=reset", "--shards", 2)
        rows, lines = self.diff(1, one, other)
        self.assertFalse([state for _, state in rows if state in ELEMENTWISE], rows)
        self.assertIn("group 0: max_preconditioner_dim is 4 in A, 5 in B", lines)
        self.assertEqual(sum("are in only one checkpoint" in line for line in lines), 3, lines)

    def test_different_parameters_and_hyper_parameters(self):
        a = make(self.folder / "a", "--shape", "extra=4x2")
        b = make(self.folder / "b", "--shape", "scalar=", "--shape", "wide=130x2", "--set", "lr=0.5", "--set",
                 "momentum=0")
        for first, second, names in ((a, b, "AB"), (b, a, "BA")):
            rows, lines = self.diff(1, first, second)
            expected = ['only in {A}: "extra", (4, 2) f32', 'only in {A}: "scalar", () f32',
                        '"wide": shape is {wide}', "group 0: lr is {lr}", "group 0: momentum is {momentum}"]
            text = {"A": names[0], "B": names[1], "wide": "(130, 3) in A, (130, 2) in B", "lr": "0.02 in A, 0.5 in B",
                    "momentum": "0.9 in A, 0 in B"}
            if names == "BA":
                text.update(A="B", wide="(130, 2) in A, (130, 3) in B", lr="0.5 in A, 0.02 in B",
                            momentum="0 in A, 0.9 in B")
            for line in expected:
                self.assertIn(line.format(**text), lines)
            self.assertIn(f'"{WEIGHT}": states that are not in {"B" if names == "AB" else "A"}: momentum', lines)
            self.assertNotIn("wide", [name for name, _ in rows])

    def test_states_with_different_dtypes(self):
        a = make(self.folder / "a", "--steps", 1)
        b = make(self.folder / "b", "--steps", 1, "--set", "momentum_dtype=bf16", "--set", "grafting_dtype=f64")
        rows, lines = self.diff(1, a, b)
        self.assertIn(f'"{WEIGHT}": momentum is f32 in A, bf16 in B', lines)
        self.assertIn(f'"{WEIGHT}": grafting is f32 in A, f64 in B', lines)
        self.check(Checkpoint(a), Checkpoint(b), rows, (WEIGHT,), ELEMENTWISE)
        self.assertIn((WEIGHT, "momentum"), rows)

    def test_a_parameter_that_is_compared_in_several_windows(self):
        # If the blocks of A and B differ, diff reads windows of 2^20 elements (kWindow in state_difference.cc).
        options = ("--steps", 1, "--shape", "wide=1100x1000", "--set", "precondition_frequency=100")
        folders = [make(self.folder / str(dim), *options, "--seed", dim, "--set", f"max_preconditioner_dim={dim}")
                   for dim in (550, 1000)]
        rows, _ = self.diff(1, *folders)
        self.check(*map(Checkpoint, folders), rows, ("wide",), ELEMENTWISE)

    def test_numbers_that_are_not_finite(self):
        one = make(self.folder / "one", "--poke", "wide/0/momentum=nan,inf,0,-inf,2")
        same = make(self.folder / "same", "--poke", "wide/0/momentum=nan,inf,-0,-inf,2")
        rows, _ = self.diff(0, one, same)
        self.assertEqual(rows, {})
        pokes = ("1,inf,0,-inf,2", 1), ("nan,-inf,0,5,2", 2), ("nan,inf,nan,-inf,1", 2)
        for number, (poke, different) in enumerate(pokes):
            other = make(self.folder / str(number), "--poke", f"wide/0/momentum={poke}")
            self.assertEqual(self.diff(1, one, other)[0], {("wide", "momentum"): (390, different, np.inf, np.inf)})

    def test_damage_is_an_error(self):
        a, b = make(self.folder / "a"), make(self.folder / "b")
        blocks_of_5 = make(self.folder / "blocks_of_5", "--set", "max_preconditioner_dim=5")
        for folder, others in ((a, (b,)), (b, (a, blocks_of_5)), (blocks_of_5, (a,))):
            tensor = Checkpoint(folder).entries(WEIGHT, "momentum")[0]
            flip(tensor.path, tensor.begin)
            for other in others:
                for pair in ((folder, other), (other, folder)):
                    error = self.run_tool(2, "diff", *pair)
                    self.assertRegex(error, 'entry "encoder.*/momentum": its checksum does not match')
                    self.assertIn(str(folder), error)
            flip(tensor.path, tensor.begin)
        self.diff(0, a, b)

    def test_progress(self):
        a, b = make(self.folder / "a"), make(self.folder / "b")
        blocks_of_5 = make(self.folder / "blocks_of_5", "--set", "max_preconditioner_dim=5")
        self.assertEqual(ckpt("diff", a, b).stderr, "")
        for other in (b, blocks_of_5):
            lines = ckpt("diff", "--progress", a, other).stderr.splitlines()
            self.assertRegex(lines[0], r"^diff: \d+ bytes of [0-9.]+ KiB, \d+ %$")
            self.assertRegex(lines[-1], r"^diff: ([0-9.]+ KiB) of \1, 100 %$")


if __name__ == "__main__":
    main()
