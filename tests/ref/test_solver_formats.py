#!/usr/bin/env python3
"""Grids of solvers: files that VTK writes, against what VTK says of their surface; predict and convert on OpenFOAM, CGNS
and VTK files, alike on 1 and 3 ranks."""
import json
import os
import unittest

import numpy as np

import ff_ref as ref

try:
    import vtk
    from vtk.util.numpy_support import numpy_to_vtk
except ImportError:
    vtk = None

MODEL = os.path.join(ref.INPUTS, "ellipsoid_flow.h5")
GIVEN = ["-m", MODEL, "--set", "lengths.L=1", "--set", "global.U_dir=[0.8,0.6,0]", "--scale", "0.5"]
HERE = os.path.join(ref.ROOT, "tests")
# Cell types of VTK; those of higher order are subdivided by VTK's surface filter, so their numbers of cells differ.
PLAIN = {"triangle": 5, "polygon": 7, "pixel": 8, "quad": 9, "tetra": 10, "voxel": 11, "hexahedron": 12, "wedge": 13,
         "pyramid": 14, "prism 5": 15, "prism 6": 16, "polyhedron": 42}
HIGHER = {"quadratic tetra": 24, "quadratic hexahedron": 25, "quadratic wedge": 26, "lagrange hexahedron": 72}


@unittest.skipIf(vtk is None, "skipped: Python has no VTK (tools/setup installs it)")
class Written(ref.Case):
    def grid(self, kind):
        source = vtk.vtkCellTypeSource()
        source.SetBlocksDimensions(2, 2, 1)
        source.SetCellType(kind)
        source.Update()
        g = source.GetOutput()
        a = numpy_to_vtk(np.arange(g.GetNumberOfCells(), dtype=np.float32), deep=1)
        a.SetName("a b")
        g.GetCellData().AddArray(a)
        return g

    def surface(self, g):
        f, t, m = vtk.vtkGeometryFilter(), vtk.vtkTriangleFilter(), vtk.vtkMassProperties()
        f.SetInputData(g)
        t.SetInputConnection(f.GetOutputPort())
        m.SetInputConnection(t.GetOutputPort())
        m.Update()
        return f.GetOutput(), m.GetSurfaceArea()

    def files(self, g, polydata):
        for mode in range(3):
            w = vtk.vtkXMLUnstructuredGridWriter()
            w.SetDataMode(mode)
            w.SetCompressorTypeToZLib() if mode > 0 else w.SetCompressorTypeToNone()
            yield w, g, self.path(f"{mode}.vtu")
        for version in (42, 51):
            for binary in (0, 1):
                for make, data in ((vtk.vtkUnstructuredGridWriter, g), (vtk.vtkPolyDataWriter, polydata)):
                    w = make()
                    w.SetFileType(1 + binary)
                    w.SetFileVersion(version)
                    yield w, data, self.path(f"{version}-{binary}-{data is g}.vtk")

    def test_as_vtk_sees_them(self):
        n = 0
        for name, kind in {**PLAIN, **HIGHER}.items():
            g = self.grid(kind)
            polydata, area = self.surface(g)
            for w, data, path in self.files(g, polydata):
                w.SetInputData(data)
                w.SetFileName(path)
                w.Write()
                with self.subTest(f"{name}: {os.path.basename(path)}"):
                    got = json.loads(self.ok("info", "--json", path).out)
                    self.assertEqual(got["points"], data.GetNumberOfPoints())
                    if kind < 20 or kind == 42 or data is polydata:
                        self.assertEqual(got["cells"], polydata.GetNumberOfPolys())
                    self.assertAlmostEqual(got["area"] / area, 1, delta=1e-6)  # float32 coordinates
                n += 1
        print(f"\n{n} files of VTK {vtk.vtkVersion().GetVTKVersion()}", end="")


class Used(ref.Case):
    FILES = ["data/polyMesh", "fuzz/corpus/cgns/sections_hdf5", "fuzz/corpus/cgns/structured_hdf5",
             "fuzz/corpus/vtk/hexa_421", "fuzz/corpus/vtp/hexa_00.vtu"]

    def test_predict_and_convert(self):
        for name in self.FILES:
            with self.subTest(name):
                mesh = os.path.join(HERE, name)
                one = self.predict([mesh, *GIVEN], "one.vtkhdf")
                ref.same_bits(self, one, self.predict([mesh, *GIVEN], "three.vtkhdf", ranks=3), name)
                self.ok("convert", mesh, self.path("same.vtp"), "--force")
                ref.same_bits(self, one, self.predict([self.path("same.vtp"), *GIVEN], "same.vtkhdf"), name)
                self.ok("check", mesh)


if __name__ == "__main__":
    unittest.main(verbosity=2)
