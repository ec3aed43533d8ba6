#!/usr/bin/env python3
"""Draw the curves of a training: tools/plot_training.py LOG.jsonl [LOG2.jsonl ...] [-o OUT.png]

LOG: the file of JSON lines that `farfield train --log` writes. Several are drawn over each other.
"""
import argparse
import json
import os
import sys


def read(path):
    """Steps and validations, the last line of a step counting (a run that was killed writes some twice)."""
    steps, checks = {}, {}
    with open(path) as f:
        for n, line in enumerate(f, 1):
            try:
                row = json.loads(line)
            except json.JSONDecodeError:
                continue  # the last line of a killed run may be cut
            if "step" not in row:
                sys.exit(f"{path}: line {n} names no step; is this a training's log?")
            (checks if "validation" in row else steps)[row["step"]] = row
    if not steps:
        sys.exit(f"{path}: no steps")
    return [steps[k] for k in sorted(steps)], [checks[k] for k in sorted(checks)]


def smooth(v, width):
    """Running means."""
    out, total = [], 0.0
    for i, x in enumerate(v):
        total += x - (v[i - width] if i >= width else 0)
        out.append(total / min(i + 1, width))
    return out


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("log", nargs="+")
    p.add_argument("-o", "--out", default="training.png")
    p.add_argument("--smooth", type=int, help="steps of the running mean (a hundredth of the run)")
    a = p.parse_args()
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    logs = [(path, *read(path)) for path in a.log]
    two = any(len(checks) > 1 for _, _, checks in logs)  # one validation makes no curve
    fig, axes = plt.subplots(1, 1 + two, figsize=(11 if two else 7, 4), squeeze=False)
    left, right = axes[0, 0], axes[0, 1] if two else None
    rate = left.twinx()
    for path, steps, checks in logs:
        name = os.path.splitext(os.path.basename(path))[0] + " " if len(a.log) > 1 else ""
        x = [r["step"] for r in steps]
        width = a.smooth or max(1, len(x) // 100)
        for part in steps[0]["parts"]:
            left.plot(x, smooth([r["parts"][part] or float("nan") for r in steps], width), label=name + part)
        rate.plot(x, [r["lr"] for r in steps], color="0.7", lw=0.8)
        for part in checks[0]["validation"] if two and checks else ():
            right.plot([r["step"] for r in checks], [100 * r["validation"][part] for r in checks], "o-", ms=3, label=name + part)
    left.set(xlabel="step", ylabel=f"loss (running mean of {width})", yscale="log")
    rate.set_ylabel("learning rate", color="0.5")
    if two:
        right.set(xlabel="step", ylabel="validation: relative L2 error, %", yscale="log")
        plain = plt.matplotlib.ticker.LogFormatter(minor_thresholds=(1.5, 0.5))  # 20, not 2 x 10^1
        right.yaxis.set_major_formatter(plain)
        right.yaxis.set_minor_formatter(plain)
    for ax in axes[0]:
        ax.grid(True, which="both", lw=0.3)
        if ax.lines:
            ax.legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(a.out, dpi=120)
    print(f"wrote {a.out}")


if __name__ == "__main__":
    main()
