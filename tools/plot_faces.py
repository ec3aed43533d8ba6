#!/usr/bin/env python3
"""Time of an evaluation against faces: tools/plot_faces.py OUT.svg LABEL=A.json,B.json,... [LABEL=...]

The files are those of `farfield bench globe --json`, a line in the plot for each LABEL.
"""
import json
import sys


def point(path):
    with open(path) as f:
        node = json.load(f)
    stack, found = [node], {}
    while stack:  # verbs nest their results
        n = stack.pop()
        if isinstance(n, dict):
            found.update({k: v for k, v in n.items() if k in ("faces", "t_min_s")})
            stack.extend(n.values())
    return found["faces"], 1e3 * found["t_min_s"]


def main():
    if len(sys.argv) < 3 or any("=" not in a for a in sys.argv[2:]):
        sys.exit(__doc__)
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, axes = plt.subplots(figsize=(6, 4.2))
    for arg in sys.argv[2:]:
        label, files = arg.split("=", 1)
        rows = sorted(point(p) for p in files.split(","))
        axes.plot(*zip(*rows), "o-", label=label)
        n, t = rows[-1]
        axes.plot([rows[0][0], n], [t * rows[0][0] / n, t], "--", lw=0.8, color="0.6")
    axes.set(xlabel="faces", ylabel="time of a call, ms (dashed: in proportion to faces)", xscale="log", yscale="log")
    axes.grid(True, which="both", lw=0.3)
    axes.legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(sys.argv[1])
    print(f"wrote {sys.argv[1]}")


if __name__ == "__main__":
    main()
