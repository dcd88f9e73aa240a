# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compares the output of shampoo-ckpt inspect with values that the tests compute from the files of the checkpoint."""
import json

import numpy as np
from checkpoints import ELEMENTWISE, MANY_BLOCKS, NAMES, Case, Checkpoint, ckpt, flip, main, make

KINDS = ("filtered_grad", "grafting", "momentum", "factor", "inverse")
WORLDS = {"one rank": (), "copies": ("--copies", 2), "shards": ("--shards", 2),
          "copies and shards": ("--copies", 2, "--shards", 2, "--set", "shard_mode=gather"),
          "large blocks": ("--shape", "wide=200x3", "--set", "max_preconditioner_dim=200")}
DTYPES = {"bf16": ("--set", "factor_dtype=bf16", "--set", "momentum_dtype=bf16", "--set", "grafting_dtype=f16"),
          "f64": ("--set", "computation_dtype=f64", "--set", "filtered_grad_dtype=f32")}


def square(packed):
    """Returns the symmetric matrix whose lower triangle, row by row, is `packed`."""
    n = int((np.sqrt(8 * packed.size + 1) - 1) / 2)
    matrix = np.zeros((n, n))
    matrix[np.tril_indices(n)] = packed
    return matrix + np.tril(matrix, -1).T


def expected_states(checkpoint, name):
    states = {}
    for kind in KINDS:
        entries = checkpoint.entries(name, kind)
        if not entries:
            continue
        states[kind] = {"dtype": NAMES[entries[0].dtype], "entries": len(entries)}
        if kind in ELEMENTWISE:
            states[kind]["norm"] = np.linalg.norm(np.concatenate([entry.values() for entry in entries]))
        else:
            matrices = [square(entry.values()) for entry in entries]
            states[kind]["norm"] = np.linalg.norm(np.concatenate([matrix.ravel() for matrix in matrices]))
            states[kind]["trace"] = sum(np.trace(matrix) for matrix in matrices)
    return states


def text_of(number):
    return f"{number:.6g}"


class Inspect(Case):
    def inspect(self, *arguments, status=0):
        return json.loads(self.run_tool(status, "inspect", "--json", *arguments))

    def check(self, directory):
        checkpoint = Checkpoint(directory)
        report = self.inspect(directory)
        rows = {line.split("  ")[0]: line.split() for line in self.run_tool(0, "inspect", directory).splitlines()}
        self.assertEqual([param["name"] for param in report["parameters"]],
                         [param["name"] for param in checkpoint.index["parameters"]])
        for param in report["parameters"]:
            stored = checkpoint.param(param["name"])
            self.assertEqual((param["shape"], param["group"], param["dtype"]),
                             (stored["shape"], stored["group"], NAMES[stored["dtype"]]))
            self.assertEqual(param["blocks"], len(checkpoint.blocks(param["name"])))
            expected = expected_states(checkpoint, param["name"])
            self.assertGreaterEqual(len(expected), 3)
            self.assertEqual(set(expected), set(param["states"]) - {"diagonal"})
            row = rows[param["name"]][-6:]
            self.assertEqual(row[0], str(param["blocks"]))
            for kind, cell in zip(KINDS, row[1:]):
                if kind not in expected:
                    self.assertEqual(cell, "-")
                    continue
                state = param["states"][kind]
                self.assertFalse(state["damaged"])
                self.assertEqual((state["dtype"], state["entries"]),
                                 (expected[kind]["dtype"], expected[kind]["entries"]))
                for number in ("norm", "trace"):
                    self.assertEqual(number in state, number in expected[kind])
                    if number in state:
                        np.testing.assert_allclose(state[number], expected[kind][number], rtol=1e-12)
                self.assertEqual(float(cell), float(text_of(state.get("trace", state["norm"]))))
        self.assertEqual(report["ranks"], checkpoint.index["world"])
        self.assertEqual(report["files"],
                         [{"name": path.name, "bytes": path.stat().st_size} for path in checkpoint.files()])
        self.assertEqual(report["bytes"], sum(path.stat().st_size for path in checkpoint.files()))
        self.assertEqual(report["groups"], checkpoint.index["groups"])
        self.assertEqual(report["damage"], [])

    def test_checkpoints_of_one_and_of_several_ranks(self):
        for name, options in WORLDS.items():
            with self.subTest(name):
                self.check(make(self.folder / name, *options))

    def test_states_in_other_dtypes(self):
        for name, options in DTYPES.items():
            with self.subTest(name):
                self.check(make(self.folder / name, *options))

    def test_snapshots_are_symmetric_matrices(self):
        make(self.folder, "--steps", 6, "--set", "root_async=2", "--set", "precondition_frequency=3")
        checkpoint = Checkpoint(self.folder)
        for param in self.inspect(self.folder)["parameters"]:
            matrices = [square(entry.values()) for entry in checkpoint.entries(param["name"], "snapshot")]
            if not matrices:
                continue
            state = param["states"]["snapshot"]
            norm = np.linalg.norm(np.concatenate([matrix.ravel() for matrix in matrices]))
            np.testing.assert_allclose(state["norm"], norm, rtol=1e-12)
            np.testing.assert_allclose(state["trace"], sum(np.trace(matrix) for matrix in matrices), rtol=1e-12)
            self.assertGreater(norm, 0)
        self.assertGreater(len(checkpoint.entries("wide", "snapshot")), 0)

    def test_blocks_that_are_read_in_several_batches(self):
        self.check(make(self.folder, *MANY_BLOCKS))

    def test_numbers_that_are_not_finite(self):
        for poke, cell in (("nan", "nan"), ("inf,-1", "inf")):
            folder = make(self.folder / poke, "--poke", f"größe/1/momentum={poke}")
            param = next(param for param in self.inspect(folder)["parameters"] if param["name"] == "größe")
            self.assertIsNone(param["states"]["momentum"]["norm"])
            self.assertIsNotNone(param["states"]["grafting"]["norm"])
            row = next(line for line in self.run_tool(0, "inspect", folder).splitlines() if line.startswith("größe"))
            self.assertEqual(row.split()[-3], cell)
        folder = make(self.folder / "factor", "--poke", "wide/0/factor.0=inf")
        row = next(line for line in self.run_tool(0, "inspect", folder).splitlines() if line.startswith("wide"))
        self.assertEqual(row.split()[-2], "inf")
        param = next(param for param in self.inspect(folder)["parameters"] if param["name"] == "wide")
        self.assertEqual((param["states"]["factor"]["norm"], param["states"]["factor"]["trace"]), (None, None))

    def test_header_and_hyper_parameters(self):
        make(self.folder, "--steps", 4, "--copies", 2, "--set", "weight_decay=0.125", "--set1", "root_spread=true")
        text = self.run_tool(0, "inspect", self.folder)
        groups = [line for line in text.splitlines() if line.startswith("group ")]
        self.assertRegex(groups[0], "^group 0 +step 4: lr 0.02, .*weight_decay 0.125")
        self.assertNotIn("root_spread", groups[0])  # inspect prints root_spread only if it is not the default
        self.assertRegex(groups[1], "^group 1 +step 4: lr 0.1, .*root_spread true")
        self.assertRegex(text, "\nranks +2\n")
        self.assertRegex(text, "\nfiles +2, [0-9.]+ KiB\n")

    def test_the_last_or_the_named_checkpoint_is_shown(self):
        make(self.folder, "--saves", 3, "--steps", 2, "--set", "checkpoint_keep=2")
        (self.folder / "checkpoint-000009.json.tmp").write_text("")
        report = self.inspect(self.folder)
        self.assertEqual((report["number"], report["complete"], report["unfinished"]), (3, [2, 3], [9]))
        self.assertEqual(report["groups"][0]["step"], 6)
        self.assertRegex(self.run_tool(0, "inspect", self.folder),
                         "\nnumber +3, the last of 2 in the directory: 2, 3; unfinished: 9\n")
        older = self.inspect(self.folder / "checkpoint-000002.json")
        self.assertEqual((older["number"], older["groups"][0]["step"], older["complete"]), (2, 4, []))

    def test_blocks_are_listed(self):
        make(self.folder, "--shards", 2)
        checkpoint = Checkpoint(self.folder)
        text = self.run_tool(0, "inspect", "--blocks", self.folder)
        listed = {}
        for param in self.inspect("--blocks", self.folder)["parameters"]:
            firsts = [block["first"] for block in param["block_list"]]
            self.assertEqual(firsts, sorted(firsts))
            listed.update({block["key"]: block for block in param["block_list"]})
        self.assertEqual(set(listed), {block["key"] for block in checkpoint.index["blocks"]})
        for stored in checkpoint.index["blocks"]:
            block = listed[stored["key"]]
            for field in ("shape", "strides", "file"):
                self.assertEqual(block[field], stored[field])
            self.assertEqual(block.get("piece"), stored.get("piece"))
            self.assertEqual(block["first"], checkpoint.places(stored)[0])
            self.assertEqual(block["entries"], {state: NAMES[entry["dtype"]] for state, entry in stored["entries"].items()})
            line = next(line for line in text.splitlines() if line.startswith(stored["key"] + " "))
            self.assertIn(f"({', '.join(map(str, stored['shape']))})  ", line)
            for state in stored["entries"]:
                self.assertIn(f" {state}", line)

    def test_without_norms_only_the_index_is_needed(self):
        make(self.folder)
        for path in Checkpoint(self.folder).files():
            path.unlink()
        report = self.inspect("--no-norms", self.folder)
        self.assertEqual(len(report["parameters"]), 5)
        self.assertNotIn("states", report["parameters"][0])

    def test_a_damaged_entry_is_reported(self):
        make(self.folder, "--copies", 2)
        checkpoint = Checkpoint(self.folder)
        name = "encoder/layer.0/weight"
        tensor = checkpoint.entries(name, "momentum")[0]
        flip(tensor.path, tensor.begin)
        result = ckpt("inspect", "--json", self.folder)
        self.assertEqual(result.returncode, 1)
        self.assertIn("momentum", result.stderr)
        report = json.loads(result.stdout)
        self.assertEqual(len(report["damage"]), 1)
        states = next(param["states"] for param in report["parameters"] if param["name"] == name)
        self.assertEqual([kind for kind in states if states[kind]["damaged"]], ["momentum"])
        self.assertNotIn("norm", states["momentum"])
        row = next(line for line in self.run_tool(1, "inspect", self.folder).splitlines() if line.startswith(name))
        self.assertEqual(row.split().count("damaged"), 1)


if __name__ == "__main__":
    main()
