#!/usr/bin/env python3
"""Error against time of `farfield bench sum`: every kernel, uniform points and a sphere, for some --rtol.

    bench/sum_curves.py [-n 100000] [--farfield build/farfield] [--csv docs/img/sum_curves.csv] [--png docs/img/sum_curves.png] [-- more options]

Writes a table (CSV), a figure, and the table in Markdown to standard output. Whole calls (sort, trees, plan, sums) of two, the faster;
errors: 99th percentile of 100 targets against direct float64 sums. Needs matplotlib for the figure alone."""
import argparse
import csv
import json
import subprocess
import sys

KERNELS = ("1/r", "dipole", "stokeslet", "yukawa", "plummer", "1/r^k", "log")
SETS = ("uniform", "sphere")
RTOL = (1e-3, 1e-5, 1e-7)
FIELDS = ("kernel", "points", "n", "rtol", "theta", "order", "leaf_size", "create_s", "apply_s", "p99")


def measure(program, kernel, points, n, rtol, more):
    run = subprocess.run([program, "bench", "sum", "--kernel", kernel, "--generate", points, "--n", str(n), "--rtol", str(rtol),
                          "--repeat", "2", "--json", "-", *more], capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{kernel}, {points}, {rtol}: {run.stderr.strip()}")
    got = json.loads(run.stdout)
    row = {"kernel": kernel, "points": points, "n": n, "rtol": rtol}
    return row | {k: got[k] for k in FIELDS if k in got}


def draw(rows, path):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    fig, axes = plt.subplots(1, len(SETS), figsize=(10, 4), sharey=True)
    for ax, points in zip(axes, SETS):
        for kernel in KERNELS:
            mine = [r for r in rows if r["kernel"] == kernel and r["points"] == points]
            ax.loglog([r["create_s"] + r["apply_s"] for r in mine], [r["p99"] for r in mine], "o-", label=kernel)
        ax.set(title=f"{points}, {rows[0]['n']:,} points", xlabel="time of a whole call, s")
        ax.grid(True, which="both", alpha=0.3)
    axes[0].set_ylabel("relative error, 99th percentile")
    axes[1].legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(path, dpi=110)


def markdown(rows):
    print("| kernel | points | " + " | ".join(f"{r:g}" for r in RTOL) + " |")
    print("|---|---|" + "---|" * len(RTOL))
    for points in SETS:
        for kernel in KERNELS:
            mine = [r for r in rows if r["kernel"] == kernel and r["points"] == points]
            cells = (f"{r['create_s'] + r['apply_s']:.2f} s, {r['p99']:.1e}" for r in mine)
            print(f"| {kernel} | {points} | " + " | ".join(cells) + " |")


def main():
    p = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    p.add_argument("-n", type=int, default=100000)
    p.add_argument("--farfield", default="build/farfield")
    p.add_argument("--csv", default="docs/img/sum_curves.csv")
    p.add_argument("--png", default="docs/img/sum_curves.png")
    p.add_argument("more", nargs="*")
    a = p.parse_args()
    rows = [measure(a.farfield, k, s, a.n, r, a.more) for s in SETS for k in KERNELS for r in RTOL]
    with open(a.csv, "w", newline="") as f:
        out = csv.DictWriter(f, FIELDS)
        out.writeheader()
        out.writerows(rows)
    markdown(rows)
    draw(rows, a.png)


if __name__ == "__main__":
    main()
