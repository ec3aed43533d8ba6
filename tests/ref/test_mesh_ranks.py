#!/usr/bin/env python3
"""check, info, convert and forces say and write the same on 1, 2, 3 and 7 ranks, for a surface with defects in every parallel
and serial route of reading."""
import json
import unittest

import h5py
import numpy as np

import ff_ref as ref


class MeshRanks(ref.Case):
    def test_equal_on_any_number_of_ranks(self):
        p, c = ref.mi.icosphere(2)
        p, c = np.asarray(p) * [2, 1, 0.5], np.asarray(c)
        c = np.concatenate([c[:100, ::-1], c[100:], c[7:9], [[3, 3, 8]]])  # turned, repeated, of zero area
        rng = np.random.default_rng(2)
        ref.write_vtp(self.path("m.vtp"), p, c, {"C_p": rng.normal(size=len(c)), "C_f": rng.normal(size=(len(c), 3))})
        for name in ("m.vtkhdf", "m.stl", "m.obj"):
            self.ok("convert", self.path("m.vtp"), self.path(name))
        for name in ("m.vtp", "m.vtkhdf", "m.stl", "m.obj"):
            said = {}
            for ranks in (1, 2, 3, 7):
                out = self.path(f"c{ranks}.vtkhdf")
                said[ranks] = [self.ok("check", self.path(name), "--repair", "-o", self.path("r.obj"), "--force", ranks=ranks).out,
                               json.loads(self.ok("info", "--json", self.path(name), ranks=ranks).out)]
                said[ranks][1].pop("farfield")  # the run itself: ranks, threads
                self.ok("convert", self.path(name), out, "--force", ranks=ranks)
                with h5py.File(out) as f:
                    arrays = []
                    f.visititems(lambda k, d: arrays.append((k, d[()].tobytes())) if isinstance(d, h5py.Dataset) else None)
                with open(self.path("r.obj"), "rb") as f:
                    arrays.append(f.read())
                said[ranks].append(arrays)
                if name in ("m.vtp", "m.vtkhdf"):
                    self.ok("forces", self.path(name), "--csv", self.path("f.csv"), "--force", ranks=ranks)
                    with open(self.path("f.csv")) as f:
                        said[ranks].append(f.read())
            for ranks in (2, 3, 7):
                self.assertEqual(said[ranks], said[1], f"{name} on {ranks} ranks")
            self.assertIn("repeated cells", said[1][0])


if __name__ == "__main__":
    unittest.main()
