#!/usr/bin/env python3
"""Numbers of predict against sums and meshes made here: integrals, areas, targets of every kind, polygons, --scale, and
surfaces far from the origin."""
import json
import os
import unittest

import h5py
import numpy as np

import ff_ref as ref

MODEL = os.path.join(ref.INPUTS, "ellipsoid_flow.h5")
GIVEN = ["-m", MODEL, "--set", "lengths.L=1", "--set", "global.U_dir=[0.8,0.6,0]"]


def quad_sphere(n):
    """Ellipsoid of six n x n patches of quads (not plane), corners in order."""
    points, quads = [], []
    for axis in range(3):
        for side in (-1, 1):
            a, b = np.meshgrid(np.linspace(-1, 1, n + 1), np.linspace(-1, 1, n + 1), indexing="ij")
            x = np.zeros((n + 1, n + 1, 3))
            x[..., axis], x[..., (axis + 1) % 3], x[..., (axis + 2) % 3] = side, a, b * side
            x /= np.linalg.norm(x, axis=2)[..., None]
            at = sum(len(p) for p in points)
            points.append(x.reshape(-1, 3) * [1.7, 1, 0.588])
            i = at + np.arange((n + 1) ** 2).reshape(n + 1, n + 1)
            quads.append(np.stack([i[:-1, :-1], i[1:, :-1], i[1:, 1:], i[:-1, 1:]], axis=2).reshape(-1, 4))
    return np.concatenate(points), np.concatenate(quads)


class Predict(ref.Case):
    def setUp(self):
        super().setUp()
        p, self.c = ref.mi.icosphere(2)
        self.p = np.asarray(p) * [1.7, 1, 0.588]
        self.mesh = ref.write_obj(self.path("body.obj"), self.p, self.c)

    def run_h5(self, mesh, *options, ranks=1):
        """All arrays of a plain .h5 result by their path."""
        out, data = self.path("out.h5"), {}
        self.ok("predict", mesh, *GIVEN, *options, "-o", out, "--force", ranks=ranks)
        with h5py.File(out) as f:
            f.visititems(lambda name, d: data.__setitem__(name, d[()]) if isinstance(d, h5py.Dataset) else None)
        return data

    def test_integrals_and_geometry(self):
        """Area-weighted means, areas and normals against sums in numpy."""
        got = self.run_h5(self.mesh, "--areas", "--normals", "--json", self.path("j.json"))
        area, t = ref.areas(self.p, self.c), self.p[self.c]
        normal = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / (2 * area[:, None])
        np.testing.assert_allclose(got["cell_data/area"], area, rtol=1e-12)
        np.testing.assert_allclose(got["cell_data/normal"], normal, atol=1e-6)
        with open(self.path("j.json")) as f:
            integrals = json.load(f)["integrals"]
        self.assertEqual(json.loads(got["farfield/integrals"]), integrals)
        # geometry and fields are float32 in the program: 6e-8 each
        self.assertAlmostEqual(integrals["area"] / area.sum(), 1, delta=1e-6)
        for name in ("C_p", "U_t"):
            field = got["cell_data/" + name].reshape(len(area), -1).astype(float)
            np.testing.assert_allclose(integrals["mean"][name], area @ field / area.sum(), atol=1e-6)

    def test_points_and_a_table_of_points_agree(self):
        """The mesh's points, a table and a mesh file of the same points: equal bits, in the order given."""
        at_points = self.run_h5(self.mesh, "--targets", "points")
        for ranks in (1, 3):
            order = np.random.default_rng(ranks).permutation(len(self.p))
            table = self.path("t.csv")
            np.savetxt(table, self.p[order], delimiter=",", fmt="%.17g")
            cloud = ref.write_obj(self.path("t.obj"), self.p[order])
            for file in (table, cloud):
                got = self.run_h5(self.mesh, "--targets", file, ranks=ranks)
                for name in ("C_p", "U_t"):
                    np.testing.assert_array_equal(got["point_data/" + name], at_points["point_data/" + name][order])

    def test_points_of_curves_stand_in_space(self):
        """A probe line is not put into the plane z = 0, and need not be plane."""
        x = np.array([[0, 0, 5], [1, 0, 5.5], [2, 1, 7], [3, 1, 6.5]])
        np.savetxt(self.path("t.csv"), x, delimiter=",", fmt="%.17g")
        want = self.run_h5(self.mesh, "--targets", self.path("t.csv"))
        line = ref.write_obj(self.path("line.obj"), x, [(0, 1), (1, 2), (2, 3)], kind="l")
        for ranks in (1, 2):
            got = self.run_h5(self.mesh, "--targets", line, ranks=ranks)
            np.testing.assert_array_equal(got["points"], x)
            np.testing.assert_array_equal(got["point_data/C_p"], want["point_data/C_p"])

    def test_polygons_hold_the_means_of_their_triangles(self):
        points, quads = quad_sphere(4)
        triangles = quads[:, [0, 1, 2, 0, 2, 3]].reshape(-1, 3)  # the fan from the first corner
        whole = self.run_h5(ref.write_obj(self.path("q.obj"), points, quads), "--areas")
        parts = self.run_h5(ref.write_obj(self.path("t.obj"), points, triangles))
        area = ref.areas(points, triangles).reshape(-1, 2)
        np.testing.assert_allclose(whole["cell_data/area"], area.sum(1), rtol=1e-12)
        for name in ("C_p", "U_t"):
            v = parts["cell_data/" + name].astype(float).reshape(len(quads), 2, -1)
            mean = (v * area[..., None]).sum(1) / area.sum(1)[:, None]
            np.testing.assert_allclose(whole["cell_data/" + name].reshape(mean.shape), mean, atol=2e-7)

    def test_scale(self):
        want = self.run_h5(self.mesh, "--areas")
        big = ref.write_obj(self.path("mm.obj"), self.p * 1024, self.c)
        got = self.run_h5(big, "--areas", "--scale", repr(1 / 1024))
        for name in ("cell_data/C_p", "cell_data/U_t", "cell_data/area", "points"):
            np.testing.assert_array_equal(got[name], want[name], name)

    def test_far_from_the_origin(self):
        """Moved by whole metres (small bodies: by less), a surface has the same fields to the bit: every point of it is
        exact in double. By any distance: to float32 digits, seen without far field, whose decisions hang on ties."""
        x = self.p.astype(np.float32).astype(float)
        for size, offset in ((1, (50, 0, 0)), (1, (200, -100, 0)), (1, (691000, 5330000, 413)), (2**-10, (0.5, 0.25, -0.125))):
            length = ["--set", f"lengths.L={size!r}"]
            here = self.run_h5(ref.write_obj(self.path("here.obj"), x * size, self.c), *length, "--areas")
            there = self.run_h5(ref.write_obj(self.path("there.obj"), x * size + offset, self.c), *length, "--areas")
            for name in ("C_p", "U_t"):
                self.assertLess(ref.rel_l2(there["cell_data/" + name], here["cell_data/" + name]), 1e-5, (name, offset))
            np.testing.assert_allclose(there["cell_data/area"], here["cell_data/area"], rtol=1e-5)
        here = self.run_h5(self.mesh, "--theta", "0")
        odd = ref.write_obj(self.path("odd.obj"), self.p + [4321.3, -77.7, 0.123], self.c)
        there = self.run_h5(odd, "--theta", "0")
        for name in ("C_p", "U_t"):
            self.assertLess(ref.rel_l2(there["cell_data/" + name], here["cell_data/" + name]), 1e-5, name)

    def test_a_boundary_without_area_is_named(self):
        flat = ref.write_obj(self.path("flat.obj"), np.array([[0, 0, 0], [1, 0, 0], [2, 0, 0.0]]), np.array([[0, 1, 2]]))
        for mesh, n in ((flat, 1), (self.mesh, 0)):
            for ranks in (1, 2):
                r = ref.run("predict", mesh, *GIVEN, "-o", self.path("o.vtp"), "--force", ranks=ranks)
                self.assertEqual(r.code, 0, r.err)
                self.assertEqual((r.out + r.err).count('boundary "body": no face has an area'), n)

    def test_outputs_that_are_not_finite_are_told(self):
        flags = ("-o", self.path("o.vtp"), "--force")
        for u, n in (("[1e300,0,0]", 1), ("[1,0,0]", 0)):
            r = ref.run("predict", self.mesh, *GIVEN, "--set", "global.U_dir=" + u, *flags, ranks=2)
            self.assertEqual(r.code, 0, r.err)
            self.assertEqual((r.out + r.err).count("outputs are not finite at 320 of 320 targets"), n)

    def test_a_file_s_whole_name_counts_first(self):
        """What looks like name=file is a file where there is one of that name."""
        with open(self.mesh) as f, open(self.path("a=body.obj"), "w") as g:
            g.write(f.read())
        want = self.run_h5(self.mesh)
        for ranks in (1, 2):
            out = self.path("here.h5")
            r = ref.run("predict", "a=body.obj", *GIVEN, "-o", out, "--force", ranks=ranks, cwd=self.dir.name)
            self.assertEqual(r.code, 0, r.err)
            with h5py.File(out) as f:
                np.testing.assert_array_equal(f["cell_data/C_p"][()], want["cell_data/C_p"])

    def test_a_stray_point_moves_nothing(self):
        """A point that no face uses does not count as the surface's size."""
        there = self.p + [3000, 0, 0]
        want = self.run_h5(ref.write_obj(self.path("a.obj"), there, self.c))
        got = self.run_h5(ref.write_obj(self.path("b.obj"), np.concatenate([there, [[-1e6, 0, 0]]]), self.c))
        np.testing.assert_array_equal(got["cell_data/C_p"], want["cell_data/C_p"])


if __name__ == "__main__":
    unittest.main(verbosity=2)
