#!/usr/bin/env python3
"""C_p along a foil, from a result and beside it the exact values of a sample: examples/plot_foil.py RESULT.h5 SAMPLE.h5 OUT.png"""
import sys

import h5py
import matplotlib
import numpy as np

matplotlib.use("Agg")
import matplotlib.pyplot as plt

with h5py.File(sys.argv[1]) as f, h5py.File(sys.argv[2]) as g:
    got, x = f["cell_data/C_p"][()], f["points"][()]
    cells = f["cells/connectivity"][()].reshape(-1, 2)
    want = g["targets/fields/C_p"][()]
fig, (top, low) = plt.subplots(2, 1, figsize=(7, 5.4), sharex=True, height_ratios=(3, 1))
mid = x[cells].mean(axis=1)
top.plot(mid[:, 0], want, color="0.6", lw=3, label="exact")
top.plot(mid[:, 0], got, "C0.-", ms=3, lw=0.8, label=f"model, {100 * np.linalg.norm(got - want) / np.linalg.norm(want):.1f} % off")
top.invert_yaxis()
top.set_ylabel("C_p")
top.legend()
top.grid(lw=0.3)
low.fill(x[:, 0], x[:, 1], "0.8", ec="0.3")
low.set(aspect="equal", xlabel="x / chord")
fig.tight_layout()
fig.savefig(sys.argv[3], dpi=110)
