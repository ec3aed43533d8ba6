#!/usr/bin/env python3
"""Predictions are equal to the bit on 1, 2, 3, 4 and 7 ranks and 1 and 2 threads: 3D and 2D, three boundaries, more
ranks than faces, an empty boundary, a small memory budget, every output format."""
import unittest

import h5py
import numpy as np

import ff_ref as ref

RANKS = (2, 3, 4, 7)


class Ranks(ref.Case):
    def equal_everywhere(self, args, what, ranks=RANKS):
        alone = self.predict(args, threads=1)
        for name, a in alone.items():
            self.assertTrue(np.isfinite(a).all(), f"{what}: {name}")
            self.assertGreater(len(np.unique(a)), min(len(a), 2) - 1, f"{what}: {name} is constant")
        ref.same_bits(self, alone, self.predict(args, threads=2), f"{what}, 2 threads")
        for n in ranks:
            ref.same_bits(self, alone, self.predict(args, ranks=n, threads=1), f"{what}, {n} ranks")
        return alone

    def body_args(self, points, cells):
        return [ref.write_obj(self.path("b.obj"), points, cells), "-m", ref.INPUTS + "/ellipsoid_flow.h5", "--set",
                "lengths.L=1", "--set", "global.U_dir=[0.6,0,0.8]"]

    def test_ellipsoid(self):
        points, cells = ref.mi.icosphere(3)
        self.equal_everywhere(self.body_args(points * [1.4, 1, 0.7], cells), "ellipsoid, 1280 faces")

    def test_more_ranks_than_faces(self):
        points = np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]], float)
        cells = np.array([[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]])
        self.equal_everywhere(self.body_args(points, cells), "tetrahedron")
        self.equal_everywhere(self.body_args(points, cells[:1]), "one triangle", ranks=(2, 7))

    def test_three_boundaries(self):
        self.equal_everywhere("car.yaml", "car")

    def test_two_dimensions(self):
        self.equal_everywhere("foil.yaml", "foil")

    def test_an_empty_boundary(self):
        empty = ref.write_obj(self.path("empty.obj"), [[0, 0, 0], [1, 0, 0]])
        args = [f"vehicle={ref.INPUTS}/car_body.stl", f"no_slip_floor={ref.INPUTS}/car_floor_no_slip.obj", "-m",
                ref.INPUTS + "/car_random.h5", "--set", "lengths.L_ref=2.786", "--set", "lengths.delta_turb=0.0423"]
        absent = self.predict(args)  # a boundary that is left out
        got = self.equal_everywhere([*args, f"slip_floor={empty}"], "empty boundary", ranks=(2, 4))
        ref.same_bits(self, absent, got, "empty against absent boundary")

    def test_memory_budget_changes_nothing(self):
        points, cells = ref.mi.icosphere(3)
        args = self.body_args(points * [1.4, 1, 0.7], cells)
        ref.same_bits(self, self.predict(args), self.predict([*args, "--memory", "200MiB"], ranks=2), "budget")

    def test_h5_output_holds_the_same(self):
        points, cells = ref.mi.icosphere(2)
        args = self.body_args(points, cells)
        want = self.predict(args)
        for n in (1, 3):
            self.ok("predict", *args, "-o", self.path(f"o{n}.h5"), ranks=n)
            with h5py.File(self.path(f"o{n}.h5")) as f:
                for name, a in want.items():
                    self.assertTrue((f["cell_data/" + name][...] == a).all(), f"{name}, {n} ranks")


if __name__ == "__main__":
    unittest.main(verbosity=2)
