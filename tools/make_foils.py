#!/usr/bin/env python3
"""Training samples of exact flow past Joukowski foils: tools/make_foils.py OUT [--foils N] [--edges N] [--seed N]

Potential flow with the Kutta condition, by conformal mapping: the circle |zeta - mu| = R through zeta = 1 goes to a foil by
z = zeta + 1 / zeta, whose cusp is the trailing edge. With the free stream at angle a and beta = asin(Im mu / R),
    w = exp(-i a) - R^2 exp(i a) / (zeta - mu)^2 + 2 i R sin(a + beta) / (zeta - mu),    v = |w / (1 - 1 / zeta^2)|
and C_p = 1 - v^2. Thickness, camber and angle are drawn at random; the chord is 1, from x = 0 to x = 1. Writes OUT/foil_N.h5,
OUT/train.txt and OUT/valid.txt (one in eight), and OUT/foil_*.obj for the last three, to look at and to predict.
"""
import argparse
import os
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ff_sample import Sample  # noqa: E402


def joukowski(mu, angle, n):
    """Corners [n,2] clockwise from the trailing edge, C_p at the middle of each edge."""
    radius = abs(1 - mu)
    start = np.angle(1 - mu)

    def at(k):  # clockwise: normals (-dy, dx) point outwards
        return mu + radius * np.exp(1j * (start - 2 * np.pi * k / n))

    corner, middle = at(np.arange(n)), at(np.arange(n) + 0.5)
    z = corner + 1 / corner
    beta = np.arcsin(mu.imag / radius)
    s = middle - mu
    w = np.exp(-1j * angle) - radius**2 * np.exp(1j * angle) / s**2 + 2j * radius * np.sin(angle + beta) / s
    speed = np.abs(w / (1 - 1 / middle**2))
    left, chord = z.real.min(), np.ptp(z.real)
    return np.stack([(z.real - left) / chord, z.imag / chord], axis=1), 1 - speed**2


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("out")
    p.add_argument("--foils", type=int, default=512)
    p.add_argument("--edges", type=int, default=128)
    p.add_argument("--seed", type=int, default=1)
    a = p.parse_args()
    os.makedirs(a.out, exist_ok=True)
    rng = np.random.default_rng(a.seed)
    names = []
    for k in range(a.foils):
        mu, angle = complex(-rng.uniform(0.06, 0.18), rng.uniform(0, 0.15)), np.radians(rng.uniform(-4, 10))
        x, cp = joukowski(mu, angle, a.edges)
        s = Sample(f"foil_{k}", dim=2)
        cells = np.stack([np.arange(a.edges), (np.arange(a.edges) + 1) % a.edges], axis=1)
        s.boundary["foil"] = (np.pad(x, ((0, 0), (0, 1))), cells, {})
        s.lengths, s.globals = {"chord": 1.0}, {"U_dir": np.array([np.cos(angle), np.sin(angle)])}
        s.target, s.fields = "foil", {"C_p": cp}
        s.write(os.path.join(a.out, f"foil_{k}.h5"))
        names.append(f"foil_{k}.h5")
        if k >= a.foils - 3:
            with open(os.path.join(a.out, f"foil_{k}.obj"), "w") as f:
                f.write(f"# U_dir [{np.cos(angle)}, {np.sin(angle)}]\n")
                f.writelines(f"v {u} {v} 0\n" for u, v in x)
                f.writelines(f"l {i + 1} {j + 1}\n" for i, j in cells)
    for name, pick in (("train.txt", [n for k, n in enumerate(names) if k % 8 != 7]), ("valid.txt", names[7::8])):
        with open(os.path.join(a.out, name), "w") as f:
            f.writelines(n + "\n" for n in pick)
    print(f"{a.foils} foils of {a.edges} edges in {a.out}")


if __name__ == "__main__":
    main()
