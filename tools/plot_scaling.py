#!/usr/bin/env python3
"""Table and plot of a scaling study: tools/plot_scaling.py DIR [-o NAME]

DIR: STUDY.GPUS.json files of `farfield bench --json`, as bench/scaling.sh writes them. Writes DIR/scaling.csv and
DIR/scaling.md, and, where matplotlib is there, DIR/scaling.svg: time against GPUs with the ideal line, and efficiency.
Exit code 1 where fields of one case differ between numbers of GPUs.
"""
import argparse
import csv
import json
import os
import re
import sys

WEAK = ("weak", "sumweak")  # work grows with the GPUs: ideal is the same time
COLUMNS = ("study", "GPUs", "min ms", "median ms", "speed-up", "efficiency %", "imbalance %", "peers", "MB sent",
           "hidden %", "device MiB", "rank MiB", "fields")


def read(folder):
    """{study: {gpus: results}}"""
    runs = {}
    for name in os.listdir(folder):
        m = re.fullmatch(r"(\w+)\.(\d+)\.json", name)
        if m:
            with open(os.path.join(folder, name)) as f:
                runs.setdefault(m[1], {})[int(m[2])] = json.load(f)
    return runs


def find(node, key):
    """The first value of a key, at whatever depth: verbs nest their results."""
    if isinstance(node, dict):
        if key in node:
            return node[key]
        node = list(node.values())
    for child in node if isinstance(node, list) else ():
        found = find(child, key)
        if found is not None:
            return found
    return None


def rows_of(study, runs):
    """One row a number of GPUs; the least number is what the others are compared with."""
    first = min(runs)
    one, out = runs[first], []
    for n in sorted(runs):
        r, t = runs[n], find(runs[n], "t_min_s")
        ranks = find(r, "ranks") or []
        ratio = find(one, "t_min_s") / t
        speed_up = ratio * n / first if study in WEAK else ratio
        same = "" if study in WEAK or find(r, "fields_digest") is None else \
            "equal" if find(r, "fields_digest") == find(one, "fields_digest") else "DIFFERENT"
        out.append((study, n, 1e3 * t, 1e3 * find(r, "t_median_s"), speed_up, 100 * speed_up * first / n,
                    find(r, "imbalance_percent"), max((q["peers"] for q in ranks), default=0),
                    max((q["bytes_sent"] for q in ranks), default=0) * 1e-6, find(r, "hidden_percent") if n > 1 else None,
                    (find(r, "device_peak_bytes") or 0) / 2**20, (find(r, "peak_rank_bytes") or 0) / 2**20, same))
    return out


def text(v):
    return "-" if v is None else f"{v:.4g}" if isinstance(v, float) else str(v)


def plot(rows, path):
    try:
        import matplotlib
    except ImportError:
        print("no matplotlib: no plot")
        return
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    fig, (left, right) = plt.subplots(1, 2, figsize=(11, 4.2))
    for study in dict.fromkeys(r[0] for r in rows):
        mine = [r for r in rows if r[0] == study]
        n, t = [r[1] for r in mine], [r[2] for r in mine]
        line, = left.plot(n, t, "o-", label=study)
        ideal = [t[0]] * len(n) if study in WEAK else [t[0] * n[0] / k for k in n]
        left.plot(n, ideal, "--", lw=0.8, color=line.get_color())
        right.plot(n, [r[5] for r in mine], "o-", label=study)
    left.set(xlabel="GPUs", ylabel="time of a call, ms (dashed: ideal)", xscale="log", yscale="log")
    right.set(xlabel="GPUs", ylabel="parallel efficiency, %", xscale="log", ylim=(0, 110))
    for axes in (left, right):
        ticks = sorted({r[1] for r in rows})
        axes.set_xticks(ticks, [str(k) for k in ticks])
        axes.minorticks_off()
        axes.grid(True, lw=0.3)
        axes.legend(fontsize=8)
    fig.tight_layout()
    fig.savefig(path)
    print(f"wrote {path}")


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder")
    p.add_argument("-o", "--out", help="plot, default DIR/scaling.svg")
    a = p.parse_args()
    runs = read(a.folder)
    if not runs:
        sys.exit(f"{a.folder}: no STUDY.GPUS.json in it; bench/scaling.sh writes them")
    rows = [row for study in sorted(runs) for row in rows_of(study, runs[study])]
    with open(os.path.join(a.folder, "scaling.csv"), "w", newline="") as f:
        csv.writer(f).writerows([COLUMNS, *([text(v) for v in row] for row in rows)])
    lines = ["| " + " | ".join(COLUMNS) + " |", "|" + "---|" * len(COLUMNS)]
    lines += ["| " + " | ".join(text(v) for v in row) + " |" for row in rows]
    with open(os.path.join(a.folder, "scaling.md"), "w") as f:
        f.write("\n".join(lines) + "\n")
    print("\n".join(lines))
    plot(rows, a.out or os.path.join(a.folder, "scaling.svg"))
    sys.exit(any(row[-1] == "DIFFERENT" for row in rows))


if __name__ == "__main__":
    main()
