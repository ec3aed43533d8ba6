#!/usr/bin/env python3
"""inputs/: meshes are closed and point outwards, the exact ellipsoid solution is one, models have the right shapes."""
import glob
import json
import os
import sys
import unittest

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import farfield_convert as fc  # noqa: E402
import make_inputs as mi  # noqa: E402


def volume_and_gap(points, cells):
    t = points[cells]
    n = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
    return np.einsum("ij,ij->", t[:, 0], n) / 6, np.abs(n.sum(axis=0)).max()


class Inputs(unittest.TestCase):
    def test_bodies_are_closed_and_point_outwards(self):
        # 5,120 flat faces lie inside the ellipsoid: their volume is 4 pi / 3 less 0.5 per cent.
        points, cells, _, _ = mi.ellipsoid(np.array([1.7, 1, 1 / 1.7]), mi.rotation(0.5, 0.3), 4, np.array([1.0, 0, 0]))
        volume, gap = volume_and_gap(points, cells)
        self.assertLess(abs(volume / (4 * np.pi / 3) - 1), 5e-3)
        self.assertLess(gap, 1e-12)  # sums of 5,120 doubles of size 1e-3
        volume, gap = volume_and_gap(*mi.car_body(3))
        self.assertGreater(volume, 3)
        self.assertLess(gap, 1e-12)

    def test_curves_close_and_point_the_right_way(self):
        for curve, sign in ((mi.naca0012(160), -1), (mi.circle(60, 5, (0.5, 0)), 1)):
            nxt = np.roll(curve, -1, axis=0)
            area = 0.5 * np.sum(curve[:, 0] * nxt[:, 1] - nxt[:, 0] * curve[:, 1])
            self.assertGreater(sign * area, 0.08)  # the foil's area is 0.082, clockwise is negative
            self.assertGreater(np.linalg.norm(nxt - curve, axis=1).min(), 1e-5)

    def test_exact_flow_past_a_sphere(self):
        # A sphere has alpha_i = 2/3 and |v| = 1.5 sin(angle). Simpson with 4000 pieces: 1e-12.
        alpha = mi.ellipsoid_alpha(np.ones(3))
        self.assertLess(np.abs(alpha - 2 / 3).max(), 1e-10)
        points, cells, c_p, u_t = mi.ellipsoid(np.ones(3), np.eye(3), 2, np.array([1.0, 0, 0]))
        x = points[cells].mean(axis=1)
        cos = x[:, 0] / np.linalg.norm(x, axis=1)
        self.assertLess(np.abs(c_p - (1 - 2.25 * (1 - cos**2))).max(), 1e-9)

    def test_an_export_has_all_keys_that_physicsnemo_asks_for(self):
        # The demo model came from PhysicsNeMo's own save and has the same networks.
        config, own, _, _ = fc.read_model(os.path.join(ROOT, "inputs", "ellipsoid_own.h5"))
        demo = fc.read_model(os.path.join(ROOT, "inputs", "ellipsoid_flow.h5"))[1]
        fc.add_buffers(own, config)
        self.assertEqual({k: (a.shape, a.dtype) for k, a in own.items()}, {k: (a.shape, a.dtype) for k, a in demo.items()})
        for key in own:
            if key.endswith(("._one", "reference_area")):
                self.assertEqual(own[key], demo[key], key)

    def test_model_shapes(self):
        files = [os.path.join(ROOT, "inputs", n) for n in ("ellipsoid_flow.h5", "car_random.h5", "foil_random.h5")]
        for path in files:
            config, tensors, _, _ = fc.read_model(path)
            self.assertEqual({k: a.shape for k, a in tensors.items()}, mi.model_shapes(config), path)
        golden = glob.glob(os.path.join(os.path.dirname(ROOT), "shared", "golden", "*.h5"))
        if not golden:
            print("skipped: ../shared/golden is not there")
        for path in golden:
            with h5py.File(path) as f:
                if "config_json" in f.attrs:
                    found = {k.replace("|", "/"): d.shape for k, d in f["weights"].items()}
                    self.assertEqual(found, mi.model_shapes(json.loads(f.attrs["config_json"])), path)


if __name__ == "__main__":
    unittest.main(verbosity=2)
