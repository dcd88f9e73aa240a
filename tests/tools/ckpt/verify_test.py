# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks that the command `shampoo-ckpt verify` finds all damage, and names each damaged file, entry and parameter."""
import re

from checkpoints import Case, Checkpoint, ckpt, flip, main, make

WEIGHT = "encoder/layer.0/weight"


class Verify(Case):
    def damage(self):
        """Runs `verify`. Returns the lines that report damage, and the last line, which counts the damage."""
        lines = self.run_tool(1, "verify", self.folder).splitlines()
        self.assertTrue(lines[-1].startswith("not ok: "), lines)
        return lines[:-1], lines[-1]

    def test_undamaged_checkpoints(self):
        for number, options in enumerate(((), ("--copies", 2, "--shards", 2), ("--set", "factor_dtype=bf16"),
                                          ("--copies", 2, "--shards", 3, "--set", "shard_mode=gather"))):
            folder = make(self.folder / str(number), *options)
            checkpoint = Checkpoint(folder)
            size = sum(path.stat().st_size for path in checkpoint.files())
            self.assertEqual(self.run_tool(0, "verify", folder),
                             f"ok: {len(checkpoint.tensors)} entries, {size} bytes in {len(checkpoint.files())} "
                             f"file{'' if len(checkpoint.files()) == 1 else 's'}: {checkpoint.path}\n")

    def test_every_damaged_entry_is_named(self):
        make(self.folder, "--copies", 2)
        tensors = Checkpoint(self.folder).tensors
        damaged = {name: tensor for number, (name, tensor) in enumerate(tensors.items()) if number % 7 == 3}
        for number, tensor in enumerate(damaged.values()):
            flip(tensor.path, tensor.begin if number % 2 else tensor.end - 1)
        lines, last = self.damage()
        named = {}
        for line in lines:
            path, name = re.match(r'damaged: (.*): entry "(.*)": its checksum does not match', line).groups()
            named[name] = path
        self.assertEqual(named, {name: str(tensor.path) for name, tensor in damaged.items()})
        self.assertIn(f"{len(damaged)} of {len(tensors)} entries are damaged or lost, 0 of 2 files", last)

    def test_missing_and_changed_files_are_named(self):
        make(self.folder, "--copies", 3)
        checkpoint = Checkpoint(self.folder)
        missing, short, header = checkpoint.files()
        missing.unlink()
        with open(short, "r+b") as file:
            file.truncate(short.stat().st_size - 1)
        flip(header, 40)
        lines, last = self.damage()
        self.assertEqual(len(lines), 3)
        for path, text in ((missing, "No such file"), (short, "it was changed or truncated"),
                           (header, "the checksum of its header")):
            line = next(line for line in lines if str(path) in line)
            self.assertIn(text, line)
        self.assertIn(f"{len(checkpoint.tensors)} of {len(checkpoint.tensors)} entries", last)
        self.assertIn("3 of 3 files", last)

    def test_a_file_without_blocks(self):
        make(self.folder, "--copies", 2)
        checkpoint = Checkpoint(self.folder)
        gone = checkpoint.files()[1]
        checkpoint.rewrite(lambda index: index.update(
            blocks=[block for block in index["blocks"] if block["file"] != gone.name]))
        gone.unlink()
        lines, last = self.damage()
        self.assertEqual([line for line in lines if line.startswith("damaged")],
                         [line for line in lines if gone.name in line])
        self.assertIn("1 of 2 files", last)

    def test_a_changed_index_is_reported(self):
        make(self.folder)
        path = Checkpoint(self.folder).path
        flip(path, path.stat().st_size // 2)
        self.assertRegex(self.run_tool(1, "verify", self.folder), f"^damaged: {path}: its checksum does not match")

    def test_an_index_with_impossible_numbers(self):
        def sizes(index):
            for file in index["files"]:
                file["bytes"] = 2**62

        for change, text in (
                (lambda index: index["groups"][0].update(step=2**53), "the step of a group is out of range"),
                (sizes, "files have too many bytes")):
            checkpoint = Checkpoint(make(self.folder, "--copies", 3))
            checkpoint.rewrite(change)
            self.assertEqual(self.run_tool(1, "verify", self.folder),
                             f"damaged: {checkpoint.path}: the index is malformed: {text}; load another checkpoint\n")

    def test_a_later_format_is_no_damage(self):
        checkpoint = Checkpoint(make(self.folder))
        checkpoint.rewrite(lambda index: index.update(format_version=2))
        result = ckpt("verify", self.folder)
        self.assertEqual((result.returncode, result.stdout), (2, ""))
        self.assertIn("the checkpoint has format 2, but this version of the library reads only formats up to 1",
                      result.stderr)

    def test_a_parameter_that_is_too_large_to_search(self):
        checkpoint = Checkpoint(make(self.folder))
        checkpoint.rewrite(lambda index: index["parameters"].append(
            {"name": "huge", "shape": [2**62], "dtype": "F32", "group": 0}))
        lines, _ = self.damage()
        self.assertEqual(lines, [f'not covered: parameter "huge": of its {2**62} elements, {2**62} are in no block: '
                                 f"0 to {2**62 - 1}"])

    def test_elements_that_no_block_has(self):
        make(self.folder)
        checkpoint = Checkpoint(self.folder)
        block = checkpoint.blocks("bias")[2]  # elements 6 to 8
        corner = checkpoint.blocks(WEIGHT)[-1]  # the last three elements of the last row
        self.assertEqual(list(checkpoint.places(corner)), [60, 61, 62])
        checkpoint.rewrite(lambda index: [index["blocks"].remove(one) for one in (block, corner)])
        lines, last = self.damage()
        self.assertEqual(lines, [f'not covered: parameter "{WEIGHT}": of its 63 elements, 3 are in no block: 60 to 62',
                                 'not covered: parameter "bias": of its 17 elements, 3 are in no block: 6 to 8'])
        self.assertIn("2 of 5 parameters have elements that are in no block or in several blocks", last)

    def test_rows_that_no_block_has(self):
        make(self.folder)
        checkpoint = Checkpoint(self.folder)
        block = checkpoint.blocks(WEIGHT)[0]  # 4 x 4 elements of a matrix with rows of 7 elements
        checkpoint.rewrite(lambda index: index["blocks"].remove(block))
        lines, _ = self.damage()
        self.assertEqual(lines[0].split("elements, ")[1], "16 are in no block: 0 to 3, 7 to 10, 14 to 17, 21 to 24")

    def test_elements_that_two_blocks_have(self):
        make(self.folder)
        checkpoint = Checkpoint(self.folder)
        block = checkpoint.blocks("bias")[3]  # elements 9 to 11

        def move(_):
            block["offset"] -= 1

        checkpoint.rewrite(move)
        lines, _ = self.damage()
        self.assertEqual(lines, ['not covered: parameter "bias": of its 17 elements, 1 are in no block: 11; '
                                 "1 are in several blocks: 8"])

    def test_a_parameter_that_is_checked_in_several_windows(self):
        # The tool checks windows of 2^22 elements (kWindow in coverage.cc).
        make(self.folder, "--steps", 1, "--shape", "wide=2500x2500", "--set", "max_preconditioner_dim=1250",
             "--set", "precondition_frequency=100")
        checkpoint = Checkpoint(self.folder)
        last = checkpoint.blocks("wide")[-1]
        checkpoint.rewrite(lambda index: index["blocks"].remove(last))
        lines, _ = self.damage()
        first = [1250 * 2500 + 1250 + 2500 * row for row in range(4)]
        self.assertIn(f"{1250 * 1250} are in no block: " + ", ".join(f"{at} to {at + 1249}" for at in first) +
                      " and 1246 more ranges", lines[0])

    def test_progress(self):
        make(self.folder, "--copies", 2)
        self.assertEqual(ckpt("verify", self.folder).stderr, "")
        lines = ckpt("verify", "--progress", self.folder).stderr.splitlines()
        self.assertRegex(lines[0], r"^verify: \d+ bytes of [0-9.]+ KiB, \d+ %$")
        self.assertRegex(lines[-1], r"^verify: ([0-9.]+ KiB) of \1, 100 %$")

    def test_nothing_is_changed(self):
        make(self.folder, "--copies", 2)
        before = {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.folder.iterdir()}
        for arguments in (("verify",), ("inspect",), ("diff", self.folder)):
            self.run_tool(0, *arguments, self.folder)
        self.assertEqual(before, {path: (path.read_bytes(), path.stat().st_mtime_ns) for path in self.folder.iterdir()})


if __name__ == "__main__":
    main()
