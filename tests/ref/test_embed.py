#!/usr/bin/env python3
"""The embedding head: golden file on several rank counts, `farfield embed` against the formulas written down in numpy
with neighbours by brute force, formats of points, equal bits on 1, 2, 3 and 7 ranks, bad input."""
import itertools
import json
import os
import unittest
from math import comb, factorial, pi, sqrt

import h5py
import numpy as np

import ff_ref as ref

LMAX, C, RADIAL, HIDDEN = 4, 3, 5, 7


def coupling(u, lmax):
    """Rows of degrees 1 .. lmax from complex spherical harmonics with the (-1)^m phase."""
    phase, rows = u[:, 0] + 1j * u[:, 1], []
    for l in range(1, lmax + 1):
        p = np.polynomial.legendre.Legendre.basis(l)
        for m in range(-l, l + 1):
            a = abs(m)
            y = (-1) ** a * sqrt((2 * l + 1) / (4 * pi) * factorial(l - a) / factorial(l + a))
            y = y * (p.deriv(a) if a else p)(u[:, 2]) * phase**a
            scale = 4 * pi / (2 * l + 1)
            rows.append(sqrt(scale) * y.real if m == 0 else
                        sqrt(2 * scale) * y.real if m > 0 else -sqrt(2 * scale) * y.imag)
    return np.stack(rows, 1)


def envelope(p, x):
    return np.where(x < 1, (1 - x) ** 4 * sum(comb(k + 3, 3) * x**k for k in range(p)), 0)


def edges(x, rc, cell=None, reach=2):
    """dst, src, image, vec in the order of the program: destination, source, image."""
    found = []
    images = itertools.product(range(-reach, reach + 1), repeat=3) if cell is not None else [(0, 0, 0)]
    images = [k for k in images if cell is None or all(k[a] == 0 or cell[a].any() for a in range(3))]
    for k in images:
        v = x[None] - x[:, None] + (np.array(k) @ cell if cell is not None else 0)
        near = np.sqrt((v * v).sum(2)) < rc
        if k == (0, 0, 0):
            near &= ~np.eye(len(x), dtype=bool)
        found += [(d, s, k, v[d, s]) for d, s in zip(*np.nonzero(near))]
    found.sort(key=lambda e: e[:3])
    return found


def features(x, rc, w1, w2, floor, found):
    n, d = len(x), (LMAX + 1) ** 2
    out, degree = np.zeros((n, d, C)), np.zeros(n)
    if found:
        dst = np.array([e[0] for e in found])
        v = np.array([e[3] for e in found])
        r = np.sqrt((v * v).sum(1))[:, None]
        b = np.sin(np.arange(1, RADIAL + 1) * pi * r / rc) / r * envelope(7, r / rc)
        h = b @ w1.T
        f = ((h / (1 + np.exp(-h))) @ w2.T).reshape(-1, LMAX, C)
        degree_of_row = np.repeat(np.arange(LMAX), 2 * np.arange(1, LMAX + 1) + 1)
        np.add.at(out[:, 1:], dst, coupling(v / r, LMAX)[:, :, None] * f[:, degree_of_row])
        np.add.at(degree, dst, envelope(5, r[:, 0] / rc) ** 2)
    return out / np.sqrt(degree + floor)[:, None, None]


class Embed(ref.Case):
    def setUp(self):
        super().setUp()
        rng = np.random.default_rng(11)
        self.x = rng.random((90, 3))
        self.w1 = rng.normal(size=(HIDDEN, RADIAL))
        self.w2 = rng.normal(size=(LMAX * C, HIDDEN))
        self.points, self.weights = self.path("points.h5"), self.path("weights.h5")
        with h5py.File(self.points, "w") as f:
            f["points"] = self.x
        with h5py.File(self.weights, "w") as f:
            f["W1"], f["W2"] = self.w1, self.w2
            f.attrs["lmax"] = LMAX

    def embed(self, *args, points=None, out="o.h5", **kw):
        self.ok("embed", points or self.points, "--weights", self.weights, "-o", self.path(out), "--force", *args, **kw)
        return h5py.File(self.path(out)) if out.endswith(".h5") else None

    def test_golden_file_on_every_rank_count(self):
        head = ref.shared("golden", "head.h5")
        alone = None
        for ranks in (1, 2, 3, 7):
            self.ok("verify", head, "--json", self.path("v.json"), "--force", ranks=ranks, threads=2 if ranks == 1 else 1)
            with open(self.path("v.json")) as f:
                rows = json.load(f)["rows"]
            self.assertTrue(all(r["ok"] for r in rows))
            self.assertGreaterEqual(len(rows), 61)
            alone = alone or rows
            self.assertEqual(alone, rows, f"{ranks} ranks")
        for precision in ("f64", "f32"):
            worst = max(r["error"] for r in alone if f"/{precision}/" in r["quantity"])
            print(f"\n{precision}: worst error {worst:.1e}", end="")

    def test_features_and_edges_equal_the_formulas(self):
        skew = np.array([[0.9, 0.1, 0], [-0.3, 1.1, 0.1], [0.2, 0.3, 0.8]])
        for name, rc, cell, arg in (("open", 0.3, None, "0"), ("cube", 0.45, np.eye(3), "1"),
                                    ("slab", 0.3, np.diag([1.0, 1.2, 0]), "[1,1.2,0]"),
                                    ("skew", 0.95, skew, "[" + ",".join(map(str, skew.ravel())) + "]")):
            found = edges(self.x, rc, cell)
            want = features(self.x, rc, self.w1, self.w2, 0.25, found)
            got = self.embed("--cutoff", rc, "--cell", arg, "--edges", "--precision", "f64")
            self.assertEqual([e[0] for e in found], list(got["edges/dst"]))
            self.assertEqual([e[1] for e in found], list(got["edges/src"]))
            self.assertEqual([list(e[2]) for e in found], got["edges/image"][:].tolist())
            # 15 digits of sums of up to some hundred terms
            err = np.abs(got["features"][:] - want).max() / np.abs(want).max()
            single = self.embed("--cutoff", rc, "--cell", arg, "--precision", "f32", out="s.h5")["features"][:]
            err32 = np.abs(single - want).max() / np.abs(want).max()
            print(f"\n{name}: {len(found)} edges, float64 {err:.1e} of 1e-12, float32 {err32:.1e} of 1e-5", end="")
            self.assertEqual(single.dtype, np.float32)
            self.assertLess(err, 1e-12)
            self.assertLess(err32, 1e-5)

    def test_ranks_give_equal_bits(self):
        alone = None
        for ranks in (1, 2, 3, 7):
            with self.embed("--cutoff", 0.5, "--cell", "[1,1,0]", "--edges", "--cotangent", "output", ranks=ranks) as f:
                got = {k: f[k][:] for k in ("points", "features", "edges/dst", "edges/src", "edges/vec", "edges/image",
                                            "gradient/points", "gradient/W1", "gradient/W2")}
            alone = alone or got
            ref.same_bits(self, alone, got, f"{ranks} ranks")

    def test_gradient_is_that_of_half_the_sum_of_squares(self):
        def half(x):
            with h5py.File(self.path("moved.h5"), "w") as f:
                f["points"] = x
            with self.embed("--cutoff", 0.4, "--precision", "f64", points=self.path("moved.h5")) as f:
                return (f["features"][:] ** 2).sum() / 2
        with self.embed("--cutoff", 0.4, "--precision", "f64", "--cotangent", "output", out="g.h5") as f:
            grad = f["gradient/points"][:]
        for i, d in ((0, 0), (41, 2)):
            moved, h = [self.x.copy(), self.x.copy()], 1e-5
            moved[0][i, d] -= h
            moved[1][i, d] += h
            quotient = (half(moved[1]) - half(moved[0])) / (2 * h)
            self.assertLess(abs(quotient - grad[i, d]), 1e-6 * np.abs(grad).max())  # h^2 of the third derivative

    def test_formats_of_points_and_results(self):
        want = self.embed("--cutoff", 0.4, "--cell", "1")["features"][:]
        with open(self.path("p.xyz"), "w") as f:
            f.write('90\nLattice="1 0 0 0 1 0 0 0 1" Properties=id:I:1:pos:R:3 pbc="T T T"\n')
            f.writelines(f"{i} {p[0]!r} {p[1]!r} {p[2]!r}\n" for i, p in enumerate(self.x.tolist()))
        np.savetxt(self.path("p.csv"), self.x, delimiter=",", fmt="%.17g")
        with h5py.File(self.path("boxed.h5"), "w") as f:
            g = f.create_group("a/b")
            g["points"] = self.x
            g.attrs["box"] = 1.0
        with h5py.File(self.weights, "a") as f:
            f.copy("W1", f.create_group("a/b"))
            f.copy("W2", f["a/b"])
            f["a/b"].attrs["lmax"], f["a/b"].attrs["cutoff"] = LMAX, 0.4
        for args, points in ((["--cutoff", 0.4], "p.xyz"), (["--cutoff", 0.4, "--cell", "1"], "p.csv"),
                             (["--group", "a/b"], "boxed.h5")):
            for ranks in (1, 3):
                got = self.embed(*args, points=self.path(points), ranks=ranks)["features"][:]
                self.assertEqual(np.count_nonzero(got != want), 0, f"{points} on {ranks} ranks")
        self.embed("--cutoff", 0.4, "--cell", "1", "--cotangent", "output", out="o.vtkhdf", ranks=2)
        with h5py.File(self.path("o.vtkhdf")) as f:
            self.assertEqual(np.count_nonzero(f["VTKHDF/PointData/features"][:] != want.reshape(90, -1)), 0)
            self.assertEqual(f["VTKHDF/PointData/gradient"].shape, (90, 3))
        got = self.embed("--cutoff", 0.4, "--cell", "1", points=self.path("o.vtkhdf"), out="again.h5")["features"][:]
        self.assertEqual(np.count_nonzero(got != want), 0)

    def test_few_points(self):
        for n in (0, 1, 2):
            with h5py.File(self.path("few.h5"), "w") as f:
                f["points"] = self.x[:n]
            for ranks in (1, 3):
                got = self.embed("--cutoff", 1e-3, "--edges", "--cotangent", "output", points=self.path("few.h5"), ranks=ranks)
                self.assertEqual(got["features"].shape, (n, (LMAX + 1) ** 2, C))
                self.assertEqual(np.count_nonzero(got["features"][:]), 0)
                self.assertEqual(got["edges/src"].shape, (0,))
                got.close()

    def test_coincident_points_are_told(self):
        with h5py.File(self.path("same.h5"), "w") as f:
            f["points"] = np.repeat(self.x[:3], 2, axis=0)
        out = self.ok("embed", self.path("same.h5"), "--weights", self.weights, "--cutoff", 0.9, "-o", self.path("o.h5"),
                      "--cotangent", "output")
        self.assertIn("3 pairs of points stand at one place", out.out + out.err)
        with h5py.File(self.path("o.h5")) as f:
            self.assertTrue(np.isfinite(f["features"][:]).all() and np.isfinite(f["gradient/points"][:]).all())

    def refused(self, *words, points=None, weights=True, args=("--cutoff", "0.4"), ranks=(1, 2)):
        for n in ranks:
            w = ["--weights", self.weights] if weights is True else weights
            r = ref.run("embed", points or self.points, *w, *args, "-o", self.path("bad.h5"), ranks=n, timeout=60)
            lines = r.error_lines()
            self.assertEqual((r.code, len(lines)), (2, 1), f"{words}\n{r.out}\n{r.err}")
            for w in words:
                self.assertIn(w, lines[0])
            self.assertFalse(os.path.exists(self.path("bad.h5")) or os.path.exists(self.path("bad.h5.tmp")))
        print(f"\n  {lines[0].replace(self.dir.name + '/', '')}", end="")

    def h5(self, name, **data):
        with h5py.File(self.path(name), "w") as f:
            for k, v in data.items():
                f[k] = v
        return self.path(name)

    def test_bad_input(self):
        bad = self.x.copy()
        bad[71, 1] = np.nan
        self.refused("nan.h5: /points: point 71: y = nan", points=self.h5("nan.h5", points=bad))
        self.refused("cutoff", "expected", args=("--cutoff", "0"))
        self.refused("cutoff", "expected", args=("--cutoff", "-1"), ranks=(1,))
        self.refused("embed.cutoff", args=())
        self.refused("embed.weights", weights=[])
        self.refused("nowhere.h5", weights=["--weights", self.path("nowhere.h5")])
        self.refused("W2 is missing", weights=["--weights", self.h5("w1.h5", W1=self.w1), "--lmax", "4"], ranks=(1,))
        self.refused("lmax", weights=["--weights", self.h5("w.h5", W1=self.w1, W2=self.w2)], ranks=(1,))
        self.refused("W1 is 7 x 5 and W2 11 x 7", ranks=(1,),
                     weights=["--weights", self.h5("w3.h5", W1=self.w1, W2=self.w2[:11]), "--lmax", "4"])
        self.refused("embed.channels = 9, expected 3", args=("--cutoff", "0.4", "--channels", "9"), ranks=(1,))
        self.refused("cell length -1", args=("--cutoff", "0.4", "--cell", "[1,-1,1]"))
        self.refused("embed.cell", "1, 3 or 9 numbers", args=("--cutoff", "0.4", "--cell", "[1,1]"), ranks=(1,))
        self.refused("lie in one plane", args=("--cutoff", "0.4", "--cell", "[1,0,0,0,1,0,1,1,0]"), ranks=(1,))
        self.refused("images of a cell", args=("--cutoff", "0.4", "--cell", "0.001"))
        self.refused("/points is missing", points=self.weights)
        self.refused("expected (N, 3)", points=self.h5("flat.h5", points=self.x[:, :2]), ranks=(1,))
        self.refused("90 rows of 75", args=("--cutoff", "0.4", "--cotangent", self.h5("c.h5", cotangent=self.x)))
        self.refused("has no neighbour within 1e-06", args=("--cutoff", "1e-6", "--degree-floor", "0"))
        self.refused("nothing.h5", points=self.path("nothing.h5"))


if __name__ == "__main__":
    unittest.main(verbosity=2)
