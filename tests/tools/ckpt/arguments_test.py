# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Checks how the tool shampoo-ckpt handles its arguments: help, version, and the error messages for wrong arguments."""
import os
import pathlib
import re

from checkpoints import Case, ckpt, main, make


class Arguments(Case):
    def test_help_names_all_commands_and_options(self):
        result = ckpt("--help")
        self.assertEqual((result.returncode, result.stderr), (0, ""))
        for word in ("inspect", "verify", "diff", "--blocks", "--json", "--no-norms", "--progress", "--version"):
            self.assertIn(word, result.stdout)
        for line in result.stdout.splitlines():
            self.assertLessEqual(len(line), 100)
        for arguments in (("-h",), ("help",), ("inspect", "--help"), ("diff", "a", "--help")):
            self.assertEqual(ckpt(*arguments).stdout, result.stdout)

    def test_the_manual_page_names_all_commands_and_options(self):
        page = pathlib.Path(os.environ["MANUAL_PAGE"]).read_text(encoding="ascii").replace("\\-", "-")
        # "shampoo-ckpt inspects" is the beginning of a sentence in the help, not a command.
        for word in set(re.findall(r"(?<![\w-])--[a-z-]+|shampoo-ckpt [a-z]+", ckpt("--help").stdout)) - {"shampoo-ckpt inspects"}:
            self.assertIn(word, page)

    def test_version(self):
        self.assertRegex(self.run_tool(0, "--version"), f"^shampoo-ckpt {re.escape(os.environ['SHAMPOO_VERSION'])},")

    def test_errors_name_the_expected_arguments(self):
        for arguments, text in (
                ((), "expected inspect, verify or diff"),
                (("look", "x"), "unknown command look: expected inspect"),
                (("inspect",), "inspect takes 1 path, got 0: expected shampoo-ckpt inspect PATH"),
                (("verify", "a", "b"), "verify takes 1 path, got 2"),
                (("diff", "a"), "diff takes 2 paths, got 1: expected shampoo-ckpt diff A B"),
                (("inspect", "--table", "a"), "no option --table: expected one of --blocks, --json"),
                (("verify", "--json", "a"), "verify has no option --json: expected one of --progress")):
            result = ckpt(*arguments)
            self.assertEqual((result.returncode, result.stdout), (2, ""), arguments)
            self.assertIn(text, result.stderr)
            self.assertIn("--help", result.stderr)

    def test_paths_without_a_checkpoint(self):
        empty = self.folder / "empty"
        empty.mkdir()
        other = self.folder / "other.json"
        other.write_text("{}")
        unfinished = self.folder / "unfinished"
        unfinished.mkdir()
        (unfinished / "checkpoint-000001.json.tmp").write_text("")
        for command in ("inspect", "verify"):
            self.assertIn("does not exist", self.run_tool(2, command, self.folder / "nothing"))
            self.assertIn("has no checkpoint:", self.run_tool(2, command, empty))
            self.assertIn("has only unfinished checkpoints:", self.run_tool(2, command, unfinished))
        self.assertIn(str(other), self.run_tool(2, "inspect", other))
        self.assertIn(str(other), self.run_tool(1, "verify", other))
        whole = make(self.folder / "whole")
        self.assertIn("does not exist", self.run_tool(2, "diff", whole, self.folder / "nothing"))
        self.assertIn(str(other), self.run_tool(2, "diff", other, whole))

    def test_a_path_may_begin_with_a_dash(self):
        self.assertIn("--json does not exist", self.run_tool(2, "inspect", "--", "--json"))

    def test_output_that_cannot_be_written(self):
        make(self.folder)
        with open("/dev/full", "w", encoding="utf-8") as full:
            import subprocess
            result = subprocess.run([os.environ["SHAMPOO_CKPT"], "inspect", str(self.folder)], stdout=full,
                                    stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(result.returncode, 2)
        self.assertIn("cannot write", result.stderr)


if __name__ == "__main__":
    main()
