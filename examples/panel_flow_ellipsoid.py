#!/usr/bin/env python3
"""Errors of the panel method on ellipsoids, whose flow is known: table and figure of docs/potential_flow.md.

    .venv/bin/python examples/panel_flow_ellipsoid.py [OUT.png] [--splits 2 3 4 5] [--cases ellipsoid_cases.h5]

Errors are relative L2 over the area, in per cent, at the faces' centroids. --cases: bodies of a file with groups of points,
cells, U_dir, exact/C_p and exact/U_t in place of those made here.
"""
import argparse
import os
import sys
import time

import h5py
import matplotlib
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "python")]
import farfield  # noqa: E402
import make_inputs as mi  # noqa: E402
from farfield.potential_flow import PanelFlow  # noqa: E402

BODIES = {"sphere": (1, 1, 1), "1.5 : 1 : 0.67": (1.5, 1, 2 / 3), "2 : 1 : 0.5": (2, 1, 0.5), "3 : 1 : 0.33": (3, 1, 1 / 3)}
U = np.array([0.6, 0, 0.8])


def percent(got, want, area):
    d, w = ((x.reshape(len(area), -1) ** 2).sum(axis=1) for x in (got - want, want))
    return 100 * np.sqrt((area @ d) / (area @ w))


def one(points, cells, u, c_p, u_t):
    """Errors of C_p and U_t in per cent, iterations, seconds."""
    start = time.perf_counter()
    flow = PanelFlow(points, cells)
    v = flow.surface_velocity(flow.solve(u))
    seconds = time.perf_counter() - start
    got = 1 - (v * v).sum(axis=1)
    return percent(got, c_p, flow.area), percent(v, u_t, flow.area), len(flow.residuals), seconds


def made(splits):
    for name, axes in BODIES.items():
        for k in splits:
            yield name, mi.ellipsoid(np.array(axes, float), mi.rotation(0.4, 0.7), k, U), U


def read(path):
    with h5py.File(path) as f:
        for name, g in f.items():
            u = g["U_dir"][()].astype(float)
            body = (g["points"][()].astype(float), g["cells"][()], g["exact/C_p"][()], g["exact/U_t"][()])
            yield name, body, u / np.linalg.norm(u)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out", nargs="?")
    p.add_argument("--splits", type=int, nargs="+", default=[2, 3, 4, 5])
    p.add_argument("--cases")
    o = p.parse_args()
    if os.environ.get("FARFIELD_LIB"):
        farfield.load(os.environ["FARFIELD_LIB"])
    rows = {}
    print("| body | faces | C_p, % | U_t, % | iterations | s |\n|---|---|---|---|---|---|")
    for name, (points, cells, c_p, u_t), u in read(o.cases) if o.cases else made(o.splits):
        e = one(points, cells, u, c_p, u_t)
        rows.setdefault(name, []).append((len(cells), *e))
        print(f"| {name} | {len(cells)} | {e[0]:.3g} | {e[1]:.3g} | {e[2]} | {e[3]:.2f} |", flush=True)
    if o.out:
        draw(rows, o.out)


def draw(rows, path):
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, ax = plt.subplots(1, 2, figsize=(9, 3.8), sharex=True, sharey=True)
    for name, r in rows.items():
        r = np.array(r)
        for k in (0, 1):
            ax[k].loglog(r[:, 0], r[:, 1 + k], "o-", label=name)
    n = r[:, 0]
    for k, field in ((0, "C_p"), (1, "U_t")):
        ax[k].loglog(n, 5 * n[0] / n, "k--", lw=0.8, label="1 / faces")
        ax[k].set(xlabel="faces", title=f"error of {field}, %")
        ax[k].grid(lw=0.3)
    ax[0].legend()
    fig.tight_layout()
    fig.savefig(path, dpi=100)
    print(path)


if __name__ == "__main__":
    main()
