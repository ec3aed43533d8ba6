#!/usr/bin/env python3
"""Surfaces by formula for docs/from_mesh_to_cp.md: examples/make_shapes.py OUT

car.stl (millimetres, as CAD exports it), hull.obj (a Wigley hull with its mirror image, so that the water plane is a symmetry
plane; two patches), blade.ply (a twisted blade of symmetric sections, closed at both ends; quads).
"""
import os
import sys

import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "tools"))
import make_inputs as mi  # noqa: E402


def grid_cells(n, m, closed):
    """Quads of an n x m grid of points, the second direction closed or not."""
    i, j = np.meshgrid(np.arange(n - 1), np.arange(m if closed else m - 1), indexing="ij")
    a, b = i * m + j, i * m + (j + 1) % m
    return np.stack([a, b, b + m, a + m], axis=-1).reshape(-1, 4)


def hull(n=121, m=48):
    """y = B/2 (1 - (2x/L)^2)(1 - (z/T)^2), L = 4, B = 0.4, T = 0.25: rings of sections from stern to bow."""
    x = -2 * np.cos(np.linspace(0, np.pi, n))
    s = np.linspace(0, 2 * np.pi, m + 1)[:-1]
    z = 0.25 * np.sin(s)
    y = 0.2 * np.sign(np.cos(s)) * (1 - (z / 0.25) ** 2)
    width = (1 - (x / 2) ** 2)[1:-1]
    rings = np.stack([np.repeat(x[1:-1], m).reshape(-1, m), width[:, None] * y, 0 * width[:, None] + z + 0 * y], axis=-1)
    # bow and stern are vertical lines: close them by the first and last ring shrunk to the line
    ends = [np.stack([np.full(m, e), 0 * s, z], axis=1)[None] for e in (-2.0, 2.0)]
    p = np.concatenate([ends[0], rings, ends[1]]).reshape(-1, 3)
    return p, grid_cells(n, m, True)


def blade(n=81, m=60):
    """Span 3, chord 1 to 0.5, twist 40 degrees, sections of NACA 0012; the ends are capped by points."""
    section = mi.naca0012(m)
    span = np.linspace(0, 3, n)
    chord, twist = 1 - span / 6, np.radians(40 * span / 3)
    x, y = (section[:, 0] - 0.3)[None] * chord[:, None], section[:, 1][None] * chord[:, None]
    p = np.stack([np.cos(twist)[:, None] * x - np.sin(twist)[:, None] * y, np.sin(twist)[:, None] * x + np.cos(twist)[:, None] * y,
                  np.repeat(span, m).reshape(-1, m)], axis=-1).reshape(-1, 3)
    cells = [c[::-1] for c in grid_cells(n, m, True)]
    caps = []
    for ring, up in ((0, False), (n - 1, True)):
        ids = ring * m + np.arange(m)
        half = m // 2
        for k in range(half):  # strips between upper and lower side, from the trailing edge on
            quad = [ids[k], ids[k + 1], ids[(m - k - 1) % m], ids[(m - k) % m]]
            quad = quad if not up else quad[::-1]
            caps.append([q for i, q in enumerate(quad) if q not in quad[:i]])
    return p, cells + caps


def write_obj(path, p, parts):
    with open(path, "w") as f:
        f.writelines("v %.9g %.9g %.9g\n" % tuple(v) for v in p)
        for name, cells in parts:
            f.write(f"g {name}\n")
            f.writelines("f " + " ".join(str(i + 1) for i in c) + "\n" for c in cells)


def write_ply(path, p, cells):
    with open(path, "w") as f:
        f.write(f"ply\nformat ascii 1.0\nelement vertex {len(p)}\nproperty double x\nproperty double y\nproperty double z\n"
                f"element face {len(cells)}\nproperty list uchar int vertex_indices\nend_header\n")
        f.writelines("%.9g %.9g %.9g\n" % tuple(v) for v in p)
        f.writelines(f"{len(c)} " + " ".join(map(str, c)) + "\n" for c in cells)


def main():
    out = sys.argv[1]
    os.makedirs(out, exist_ok=True)
    p, c = mi.car_body(5)
    mi.write_stl(os.path.join(out, "car.stl"), 1000 * p, c)
    p, c = hull()
    below = p[c].mean(axis=1)[:, 2] < 0
    write_obj(os.path.join(out, "hull.obj"), p, (("wetted", c[below]), ("mirror", c[~below])))
    write_ply(os.path.join(out, "blade.ply"), *blade())


if __name__ == "__main__":
    main()
