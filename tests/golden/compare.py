#!/usr/bin/env python3
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
"""Compare results, such as those of shampoo_replay, with golden cases.

    compare.py CASE_DIR OUT_DIR [--missing-ok] [--against DIR [--noise DIR]...]
    compare.py --self-test CASE_DIR...

CASE_DIR holds *.safetensors cases of one suite. OUT_DIR holds files of the same names. Each file has the
following tensors. The first column is the suite of the case or, before "...", the start of the name of the suite:
    trajectory...   every tensor param/<t>/<p> and eval/<t>/<p> that the case has (step t, parameter p)
    matrix_root...  X
    training        loss
    residuals       residuals
With --against, the expected results are the results in DIR instead of the results in the cases. The results in DIR come
from an implementation that is known to be correct. The tolerances are still those of the cases.
With --noise, DIR has results of that implementation for perturbed inputs. The atol of a trajectory is then at least
four times the largest change that the perturbation has caused. Use --noise if rounding errors have larger effects than
in the recorded run, for example if shards have their own factor matrices, which are worse conditioned.
If a tensor in OUT_DIR has an additional first dim, it has the results of several runs, and all of them are compared.
A case that is marked "informative" and has no tolerance passes if its file in OUT_DIR has a finite X or no X.
A case without a file in OUT_DIR fails. With --missing-ok, such a case is ignored.
Needs only numpy. Prints one line per case, then 'N passed, M failed'. Exit status: 1 if a case fails.
"""
import json
import os
import struct
import sys
import tempfile

import numpy as np

NP = {"F64": np.float64, "F32": np.float32, "F16": np.float16, "I64": np.int64, "I32": np.int32, "I16": np.int16,
      "I8": np.int8, "U8": np.uint8, "BOOL": np.bool_, "BF16": None}


def load(path):
    """Return ({name: array}, settings of the case); the settings are None if the file has none."""
    with open(path, "rb") as f:
        n = struct.unpack("<Q", f.read(8))[0]
        head = json.loads(f.read(n))
        body = f.read()
    meta = head.pop("__metadata__", {})
    out = {}
    for k, d in head.items():
        a, b = d["data_offsets"]
        raw = body[a:b]
        if d["dtype"] == "BF16":
            x = (np.frombuffer(raw, np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            x = np.frombuffer(raw, NP[d["dtype"]])
        out[k] = x.reshape(d["shape"]).astype(np.float64)
    return out, json.loads(meta["case"]) if "case" in meta else None


def store(path, tensors):
    """Write tensors as float64. Only the self-test uses this function."""
    head, pos, parts = {}, 0, []
    for k, x in tensors.items():
        b = np.ascontiguousarray(x, np.float64).tobytes()
        head[k] = {"dtype": "F64", "shape": list(x.shape), "data_offsets": [pos, pos + len(b)]}
        pos += len(b)
        parts.append(b)
    h = json.dumps(head).encode()
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(h)) + h + b"".join(parts))


def wanted(ref, case):
    """Return [(name, allowed error of each element)] for the tensors to compare.

    The allowed error of X is None here; judge() computes it.
    """
    suite = case["suite"]
    if suite.startswith("trajectory"):
        tol = case["tolerance"]
        return [(k, tol["atol"] + tol["rtol"] * np.abs(v)) for k, v in ref.items() if k.startswith(("param/", "eval/"))]
    if suite == "training":
        return [("loss", np.array(case["loss_atol"]))]
    if suite == "residuals":
        return [("residuals", case["rtol"] * np.abs(ref["residuals"]))]
    if suite.startswith("matrix_root"):
        return [("X", None)]
    return []


def judge(ref, case, out):
    """Compare the tensors of `out` with `ref`. Return (passed, largest error / tolerance, remark)."""
    worst, where = 0.0, ""
    for k, allowed in wanted(ref, case):
        want = ref.get(k)
        if k == "X":
            if case.get("tol_exact") is not None:
                want = ref["X_exact"]
                allowed = np.full(want.shape, case["tol_exact"] * np.abs(want).max())
            elif case.get("tol_x") is not None and want is not None:
                allowed = np.full(want.shape, case["tol_x"] * np.abs(want).max())
            else:
                ok = "X" not in out or np.isfinite(out["X"]).all()
                return ok, 0.0, "informative only; status of the reference: " + str(case["status"])
        if k not in out:
            return False, float("inf"), f"{k} missing"
        got = out[k]
        several = got.ndim == want.ndim + 1 and got.shape[1:] == want.shape and len(got) > 0
        if not several and (got.size != want.size or (got.shape != want.shape and got.size > 1)):
            return False, float("inf"), f"{k} has shape {got.shape}, expected {want.shape}"
        if want.size == 0:
            continue
        if not several:
            got = got.reshape(want.shape)
        d = np.abs(got - want)
        both_nan = np.isnan(got) & np.isnan(want)
        r = np.where(both_nan, 0.0, np.where(np.isnan(d), np.inf, d / np.maximum(allowed, 1e-300)))
        m = float(r.max())
        if m > worst:
            worst, where = m, k
    return worst <= 1.0, worst, f"worst at {where}" if where else "exact"


NOISE_FACTOR = 4  # atol is at least this factor times the largest change that a perturbation causes


def widen(ref, case, noisy):
    """Raise the atol of a trajectory to NOISE_FACTOR times the largest difference between noisy and ref.

    Return the factor by which atol has grown. It is 1 if atol was already large enough.
    """
    change = 0.0
    for k, _ in wanted(ref, case):
        if ref[k].size:
            change = max(change, float(np.abs(noisy[k].reshape(ref[k].shape) - ref[k]).max()))
    if not np.isfinite(change):
        raise ValueError("perturbed results are not finite")
    tol = case["tolerance"]
    atol = max(tol["atol"], NOISE_FACTOR * change)
    factor = atol / tol["atol"]
    tol["atol"] = atol
    return factor


def compare(case_dir, out_dir, quiet=False, missing_ok=False, against=None, noise=()):
    good = bad = 0
    for f in sorted(os.listdir(case_dir)):
        if not f.endswith(".safetensors"):
            continue
        ref, case = load(os.path.join(case_dir, f))
        if case is None or not wanted(ref, case):
            continue
        p = os.path.join(out_dir, f)
        if not os.path.exists(p):
            if missing_ok:
                continue
            ok, worst, why = False, float("inf"), "no output file"
        else:
            try:
                if against is not None:
                    ref.update(load(os.path.join(against, f))[0])
                factor = 1.0
                for noisy in noise:
                    factor *= widen(ref, case, load(os.path.join(noisy, f))[0])
                ok, worst, why = judge(ref, case, load(p)[0])
                if factor > 1:
                    why += f", with {factor:.3g} times the recorded atol"
            except Exception as e:  # noqa: BLE001
                ok, worst, why = False, float("inf"), f"unreadable: {type(e).__name__} {e}"
        good, bad = good + ok, bad + (not ok)
        if not quiet:
            print(f"{'pass' if ok else 'FAIL'}  {f[:-12]:50s} error/tolerance {worst:9.3g}  {why}")
    if not quiet:
        print(f"{good} passed, {bad} failed")
    return good, bad


def self_test_noise(case_dir, files, folder):
    """Check --noise with a trajectory: an error of 3 times the noise passes, an error of 5 times the noise fails."""
    failures = 0
    ref, case = load(os.path.join(case_dir, files[0]))
    if not case["suite"].startswith("trajectory"):
        return 0
    key = next(k for k, _ in wanted(ref, case) if ref[k].size)
    noise = 100 * float(dict(wanted(ref, case))[key].max())
    folders = {}
    for name, moved in (("against", 0), ("noise", noise), ("inside", 3 * noise), ("outside", 5 * noise), ("bad", np.nan)):
        folders[name] = os.path.join(folder, name)
        os.makedirs(folders[name])
        x = ref[key].copy()
        x.reshape(-1)[0] += moved
        store(os.path.join(folders[name], files[0]), {k: x if k == key else ref[k] for k, _ in wanted(ref, case)})
    for name, noisy, expected in (("inside", "noise", (1, 0)), ("outside", "noise", (0, 1)), ("inside", "against", (0, 1)),
                                  ("inside", "bad", (0, 1))):
        got = compare(case_dir, folders[name], quiet=True, missing_ok=True, against=folders["against"],
                      noise=[folders[noisy]])
        if got != expected:
            print(f"   folder {name} with --noise {noisy}: (passed, failed) is {got}, expected {expected}")
            failures += 1
    return failures


def self_test(dirs):
    """Check that recorded results pass, and that results fail if they are changed, missing or of the wrong shape."""
    failures = 0
    for d in dirs:
        files = [f for f in sorted(os.listdir(d)) if f.endswith(".safetensors")]
        tried = caught = own = total = 0
        for f in files:
            ref, case = load(os.path.join(d, f))
            if case is None or not wanted(ref, case):
                continue
            total += 1
            out = dict(ref)
            ok = judge(ref, case, out)[0]
            own += ok
            if not ok:
                print("   the recorded numbers fail:", f)
            if case.get("informative") and case.get("tol_x") is None:
                continue
            rng = np.random.default_rng(0)
            names = [k for k, _ in wanted(ref, case) if ref[k].size]
            for kind in ("one entry", "nan", "missing", "shape"):
                k = names[rng.integers(len(names))]
                out = dict(ref)
                x = out[k].copy()
                if kind == "one entry":
                    i = rng.integers(x.size)
                    if k == "X":
                        a = 5 * (case.get("tol_exact") or case["tol_x"]) * np.abs(ref["X_exact"] if "X_exact" in ref else x).max()
                    else:
                        a = 3 * dict(wanted(ref, case))[k].reshape(-1)[i]
                    x.reshape(-1)[i] += max(a, 1e-30)
                elif kind == "nan":
                    x.reshape(-1)[rng.integers(x.size)] = np.nan
                elif kind == "shape":
                    x = np.append(x.reshape(-1), 0.0)
                out[k] = x
                if kind == "missing":
                    del out[k]
                tried += 1
                c = not judge(ref, case, out)[0]
                caught += c
                if not c:
                    print("   not detected:", f, kind, k)
        print(f"{d}: {own}/{total} cases pass with their recorded numbers, {caught}/{tried} damaged outputs detected")
        failures += (own != total) + (caught != tried)
        with tempfile.TemporaryDirectory() as tmp:  # one file is correct, one is wrong, others are missing
            two = [f for f in files if wanted(*load(os.path.join(d, f))) and not load(os.path.join(d, f))[1].get("informative")][:2]
            for i, f in enumerate(two):
                ref, case = load(os.path.join(d, f))
                k, _ = wanted(ref, case)[-1]
                if i:
                    ref[k] = ref[k] * 1.5 + 1.0
                store(os.path.join(tmp, f), {n: x for n, x in ref.items() if n.startswith(("param/", "eval/", "X", "loss", "residuals"))})
            g, b = compare(d, tmp, quiet=True)
            g2, b2 = compare(d, tmp, quiet=True, missing_ok=True)
            print(f"{d}: files: {g} passed, {b} failed; with --missing-ok: {g2} passed, {b2} failed; expected 1 passed")
            failures += self_test_noise(d, two, tmp)
            # b is not checked: without missing_ok, each missing file counts as a failure
            failures += (g != 1) + ((g2, b2) != (1, len(two) - 1))
    return failures


if __name__ == "__main__":
    a = [x for x in sys.argv[1:] if x != "--missing-ok"]
    folders = {"--against": [], "--noise": []}
    for option, values in folders.items():
        while option in a[:-1]:
            at = a.index(option)
            values.append(a[at + 1])
            del a[at:at + 2]
    if a[:1] == ["--self-test"]:
        n = self_test(a[1:])
        print("self-test", "FAILED" if n else "passed")
        sys.exit(1 if n else 0)
    if len(a) != 2 or len(folders["--against"]) > 1 or len(folders["--noise"]) > 0 and not folders["--against"]:
        sys.exit(__doc__)
    sys.exit(1 if compare(a[0], a[1], missing_ok="--missing-ok" in sys.argv,
                          against=(folders["--against"] or [None])[0], noise=folders["--noise"])[1] else 0)
