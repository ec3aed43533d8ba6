#!/usr/bin/env python3
"""Results open in VTK and say there what they say in the file: check_vtk.py on predictions of every input, in both
formats of VTK, from one and three ranks. Any VTK from 9.3; the one of .venv is used in CI."""
import os
import subprocess
import sys
import unittest

import ff_ref as ref

try:
    import vtk
except ImportError:
    vtk = None


@unittest.skipIf(vtk is None, "skipped: Python has no VTK (tools/setup installs it)")
class Vtk(ref.Case):
    def opens(self, *args):
        files = []
        for out in ("a.vtkhdf", "a.vtp", "b.vtkhdf", "b.vtp"):
            ranks = 3 if out.startswith("b") else 1
            self.ok("predict", *args, "-o", self.path(out), ranks=ranks, threads=1)
            files.append(self.path(out))
        check = os.path.join(ref.ROOT, "tests", "ref", "check_vtk.py")
        done = subprocess.run([sys.executable, check, *files], capture_output=True, text=True, timeout=300)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        print(f"\nVTK {vtk.vtkVersion().GetVTKVersion()}: {done.stdout.strip().splitlines()[-1]}", end="")

    def test_surface(self):
        self.opens("-c", os.path.join(ref.INPUTS, "car.yaml"), "--areas", "--normals")

    def test_curve(self):
        self.opens("-c", os.path.join(ref.INPUTS, "foil.yaml"))

    def test_polygons(self):
        p, c = ref.mi.floor(-1, 1, 6)
        ref.write_obj(self.path("quads.obj"), p, c)
        self.opens(f"body={self.path('quads.obj')}", "-m", ref.INPUTS + "/ellipsoid_flow.h5", "--set", "lengths.L=1",
                   "--set", "global.U_dir=[1,0,0]")


if __name__ == "__main__":
    unittest.main(verbosity=2)
