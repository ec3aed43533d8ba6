#!/usr/bin/env python3
"""Whole predictions on real surfaces with the demo model, on one and two ranks with equal results, within 2 GiB a rank.
Many minutes each. With names as arguments (motorBike drivaer_body DTC turbineblade) only those."""
import resource
import sys
import time
import unittest

import numpy as np

import ff_ref as ref

LIMIT = 2 * 2**30  # bytes a rank, for 331,653 faces
FILES = {"motorBike": ("motorBike.obj.gz", 331653), "drivaer_body": ("drivaer_body.obj.gz", 250962),
         "DTC": ("DTC-scaled.stl.gz", 116062), "turbineblade": ("turbineblade.ply", 199034)}
WANTED = [a for a in sys.argv[1:] if a in FILES] or list(FILES)


class RealRuns(ref.Case):
    def run_file(self, name):
        if name not in WANTED:
            self.skipTest("not asked for")
        file, n_faces = FILES[name]
        args = [ref.shared("meshes", file), "-m", ref.INPUTS + "/ellipsoid_flow.h5", "--set", "lengths.L=1", "--set",
                "global.U_dir=[1,0,0]", "--memory", "2GiB"]
        results = []
        for ranks, threads in ((1, 2), (2, 1)):
            start = time.monotonic()
            got = self.predict(args, ranks=ranks, threads=threads, timeout=30000)
            peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
            print(f"\n{name}: {n_faces} faces, {ranks} ranks: {time.monotonic() - start:.0f} s, largest process "
                  f"{peak / 2**30:.2f} GiB", end="", flush=True)
            for field, a in got.items():
                self.assertEqual(len(a), n_faces, field)
                self.assertTrue(np.isfinite(a).all(), field)
            self.assertLess(peak, LIMIT)
            results.append(got)
        ref.same_bits(self, results[0], results[1], name)

    def test_dtc(self):
        self.run_file("DTC")

    def test_turbineblade(self):
        self.run_file("turbineblade")

    def test_drivaer_body(self):
        self.run_file("drivaer_body")

    def test_motorbike(self):
        self.run_file("motorBike")


if __name__ == "__main__":
    unittest.main(argv=sys.argv[:1], verbosity=2)
