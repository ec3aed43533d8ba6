#!/usr/bin/env python3
"""Forces from fields of a surface file, and per patch in predict, against sums in numpy; equal on any number of ranks."""
import csv
import json
import math
import os
import unittest

import numpy as np

import ff_ref as ref

MODEL = os.path.join(ref.INPUTS, "ellipsoid_flow.h5")
GIVEN = ["-m", MODEL, "--set", "lengths.L=1", "--set", "global.U_dir=[0.8,0.6,0]"]


def exact_cp(p, axes):
    """Exact C_p of potential flow along x past an ellipsoid at surface points p (Lamb, art. 114)."""
    n = p / axes**2
    n /= np.linalg.norm(n, axis=1)[:, None]
    u = np.zeros_like(p)
    u[:, 0] = 2 / (2 - ref.mi.ellipsoid_alpha(axes)[0])
    u -= np.sum(u * n, axis=1)[:, None] * n
    return 1 - np.sum(u * u, axis=1)


class Forces(ref.Case):
    def setUp(self):
        super().setUp()
        p, self.c = ref.mi.icosphere(3)
        self.axes = np.array([1.7, 1, 0.588])
        self.p = np.asarray(p) * self.axes
        t = self.p[self.c]
        self.va = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2
        self.mid = t.mean(axis=1)

    def refused(self, *args, says):
        r = ref.run(*args)
        self.assertEqual(r.code, 2, r.err)
        self.assertEqual(len(r.error_lines()), 1, r.err)
        self.assertIn(says, r.err)

    def forces(self, mesh, *options, ranks=1):
        out = self.path("f.json")
        self.ok("forces", mesh, *options, "--json", out, "--force", ranks=ranks)
        with open(out) as f:
            return json.load(f)

    def test_against_numpy(self):
        rng = np.random.default_rng(3)
        cp, cf = rng.normal(size=len(self.c)), rng.normal(size=(len(self.c), 3))
        area = np.linalg.norm(self.va, axis=1)
        mesh = ref.write_vtp(self.path("m.vtp"), self.p, self.c, {"p": cp, "wallShearStress": cf})
        options = ["--pressure", "p", "--shear", "wallShearStress", "--pressure-factor", "0.5", "--pressure-reference",
                   "0.25", "--shear-factor", "-2", "--set", "integrals.area=2.17", "--set", "integrals.length=1.3",
                   "--set", "integrals.center=[0.1,0.2,0.3]", "--drag", "[0.8,0.6,0]", "--lift", "[0,0,5]"]
        got = self.forces(mesh, *options)
        fp, ff = -0.5 * (cp - 0.25)[:, None] * self.va, -2 * cf * area[:, None]
        arm = self.mid - [0.1, 0.2, 0.3]
        want = {"force coefficient": (fp.sum(0) / 2.17, ff.sum(0) / 2.17),
                "moment coefficient": (np.cross(arm, fp).sum(0) / (2.17 * 1.3), np.cross(arm, ff).sum(0) / (2.17 * 1.3))}
        for key, (p, f) in want.items():  # sums of 1e3 terms of size 1e-2 in double
            np.testing.assert_allclose(got[key]["pressure"], p, rtol=0, atol=1e-13)
            np.testing.assert_allclose(got[key]["friction"], f, rtol=0, atol=1e-13)
        total = (fp + ff).sum(0) / 2.17
        self.assertAlmostEqual(got["drag coefficient"]["total"], total @ [0.8, 0.6, 0], delta=1e-13)
        self.assertAlmostEqual(got["lift coefficient"]["total"], total[2], delta=1e-13)
        for ranks in (2, 3, 7):
            again = self.forces(mesh, *options, ranks=ranks)
            for key in ("force coefficient", "moment coefficient", "drag coefficient", "patches", "area"):
                self.assertEqual(again[key], got[key])

    def exact_drag(self, level):
        """Force coefficient of the exact C_p on a mesh without the body's symmetry, and the part of its front half."""
        p, c = ref.mi.icosphere(level)
        p = np.asarray(p) + [0.2, 0.15, -0.1]  # finer on one side: inversion alone would make the drag vanish
        p = p / np.linalg.norm(p, axis=1)[:, None] * self.axes
        t = p[c]
        va, mid = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2, t.mean(axis=1)
        cp = exact_cp(mid, self.axes)
        mesh = ref.write_vtp(self.path(f"m{level}.vtp"), p, c, {"C_p": np.ones(len(c)), "exact": cp})
        still = self.forces(mesh)
        for key in ("force coefficient", "moment coefficient"):
            self.assertLess(np.abs(still[key]["pressure"]).max(), 1e-14)
        force = self.forces(mesh, "--pressure", "exact")["force coefficient"]["pressure"]
        return np.abs(force).max(), abs((cp[:, None] * va)[mid[:, 0] > 0].sum(0)[0])

    def test_constant_pressure_and_exact_drag(self):
        """A closed surface under constant pressure feels nothing; an ellipsoid in potential flow has no drag: what is
        left falls with the square of the mesh width."""
        coarse, half = self.exact_drag(2)
        fine, _ = self.exact_drag(4)
        self.assertGreater(half, 0.05)
        self.assertLess(fine, 1e-2 * half)
        self.assertLess(fine, coarse / 8)
        self.assertGreater(coarse, 1e-6)

    def test_patches_in_predict(self):
        """Rows of the table: patches add up to all; the same figures in JSON, in the result and for 1 and 3 ranks."""
        front = self.mid[:, 0] > 0.3
        mesh = self.path("body.obj")
        with open(mesh, "w") as f:
            for x in self.p:
                f.write("v %.17g %.17g %.17g\n" % tuple(x))
            for name, cells in (("front", self.c[front]), ('rear, "wet"', self.c[~front])):
                f.write(f"g {name}\n")
                for c in np.asarray(cells) + 1:
                    f.write("f %d %d %d\n" % tuple(c))
        tables = []
        for ranks in (1, 3):
            table = self.path(f"t{ranks}.csv")
            self.ok("predict", mesh, *GIVEN, "-o", self.path("o.h5"), "--force", "--csv", table, "--json",
                    self.path("j.json"), ranks=ranks)
            with open(table, newline="") as f:
                tables.append(list(csv.DictReader(f)))
        self.assertEqual(tables[0], tables[1])
        rows = tables[0]
        self.assertEqual(len(rows), 3)
        for key in rows[0]:
            if key == "patch":
                continue
            parts = [float(r[key]) for r in rows]
            self.assertTrue(math.isclose(parts[0], parts[1] + parts[2], rel_tol=1e-12, abs_tol=1e-14), key)
        with open(self.path("j.json")) as f:
            j = json.load(f)["integrals"]
        self.assertEqual(j["drag coefficient"]["pressure"], float(rows[0]["drag_pressure"]))
        self.assertEqual([p["name"] for p in j["patches"]], [r["patch"] for r in rows[1:]])

    def test_bad_input(self):
        mesh = ref.write_vtp(self.path("m.vtp"), self.p, self.c, {"p": np.ones(len(self.c))})
        self.refused("forces", mesh, says="--pressure with one of: p")
        self.refused("forces", mesh, "--pressure", "p", "--drag", "[0,0,0]", says="not the zero vector")
        self.refused("forces", mesh, "--pressure", "p", "--shear", "tau", says="no field tau")
        self.refused("forces", mesh, "--pressure", "p", "--shear", "p", says="components")


if __name__ == "__main__":
    unittest.main()
