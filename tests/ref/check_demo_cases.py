#!/usr/bin/env python3
"""Runs `farfield predict` on the cases of an ellipsoid_cases.h5 and compares with the reference predictions stored
there (relative L2 over faces, at most --tol) and with the exact solution (area-weighted relative L2, printed).

usage: check_demo_cases.py CASES.h5 --farfield PATH --model MODEL.h5 [--ranks N] [--cases 0,3]
Needs numpy and h5py. Exit code 1 if a case exceeds the tolerance.
"""
import argparse
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np


def write_obj(path, points, cells):
    with open(path, "w", encoding="ascii") as f:
        for p in points:
            f.write("v %.9g %.9g %.9g\n" % tuple(p))
        for c in cells:
            f.write("f %d %d %d\n" % tuple(c + 1))


def run_case(args, case, work):
    mesh, out = os.path.join(work, "case.obj"), os.path.join(work, "case.h5")
    write_obj(mesh, case["points"][:], case["cells"][:])
    u = case["U_dir"][:]
    command = [args.farfield, "predict", mesh, "-m", args.model, "-o", out, "--force", "--areas",
               "--set", "lengths.L=1", "--set", "global.U_dir=[%.9g,%.9g,%.9g]" % tuple(u)]
    if args.ranks > 1:
        root = ["--allow-run-as-root"] if os.getuid() == 0 else []
        command = ["mpirun", "--oversubscribe", *root, "-n", str(args.ranks), *command]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit("predict failed:\n" + done.stdout + done.stderr)
    arrays = {}
    with h5py.File(out) as f:
        f.visititems(lambda name, d: arrays.update({name.split("/")[-1]: d[:]})
                     if isinstance(d, h5py.Dataset) and d.shape and d.shape[0] == len(case["cells"]) else None)
    return arrays


def rel_l2(a, b, w=None):
    w = np.ones(len(a)) if w is None else w
    a, b = a.reshape(len(a), -1).astype(float), b.reshape(len(b), -1).astype(float)
    return np.sqrt((w[:, None] * (a - b) ** 2).sum() / (w[:, None] * b**2).sum())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("cases")
    p.add_argument("--farfield", required=True)
    p.add_argument("--model", required=True)
    p.add_argument("--ranks", type=int, default=1)
    p.add_argument("--cases", dest="which", default="")
    p.add_argument("--tol", type=float, default=1e-5)
    args = p.parse_args()
    which = {int(k) for k in args.which.split(",")} if args.which else None
    bad = 0
    print("case   faces   against the reference's prediction    against the exact solution")
    with h5py.File(args.cases) as f, tempfile.TemporaryDirectory() as work:
        for name in sorted(k for k in f if k.startswith("case_")):
            if which is not None and int(name[5:]) not in which:
                continue
            case = f[name]
            got = run_case(args, case, work)
            row = "%s %6d" % (name[5:], len(case["cells"]))
            for field in ("C_p", "U_t"):
                err = rel_l2(got[field], case["predicted"][field][:])
                bad += not err <= args.tol
                row += "   %s %.2e <= %.0e" % (field, err, args.tol)
            for field in ("C_p", "U_t"):
                err = rel_l2(got[field], case["exact"][field][:], got["area"])
                row += "   %s %.2f %%" % (field, 100 * err)
            print(row, flush=True)
    print("%d values above the tolerance" % bad)
    sys.exit(1 if bad else 0)


if __name__ == "__main__":
    main()
