#!/usr/bin/env python3
"""tools/make_samples.py on look-alike folders, defects included: what is made, noted, skipped and why."""
import csv
import json
import os
import subprocess
import sys
import unittest

import h5py
import numpy as np

import ff_ref as ref

try:
    import vtk
    from vtk.util.numpy_support import numpy_to_vtk, numpy_to_vtkIdTypeArray
except ImportError:
    vtk = None

TOOL = os.path.join(ref.ROOT, "tools", "make_samples.py")
U = 38.889


def polydata(points, polys=None, lines=None, cell=None, point=None, grid=False):
    data = vtk.vtkUnstructuredGrid() if grid else vtk.vtkPolyData()
    at = vtk.vtkPoints()
    at.SetData(numpy_to_vtk(np.asarray(points, float), deep=1))
    data.SetPoints(at)
    for cells, put in ((polys, "SetPolys"), (lines, "SetLines")):
        if cells is None:
            continue
        off = np.concatenate([[0], np.cumsum([len(c) for c in cells])])
        array = vtk.vtkCellArray()
        array.SetData(numpy_to_vtkIdTypeArray(off.astype(np.int64), deep=1),
                      numpy_to_vtkIdTypeArray(np.concatenate(cells).astype(np.int64), deep=1))
        if grid:
            data.SetCells(vtk.VTK_TRIANGLE, array)
        else:
            getattr(data, put)(array)
    for fields, to in ((cell, data.GetCellData()), (point, data.GetPointData())):
        for name, v in (fields or {}).items():
            a = numpy_to_vtk(np.asarray(v, float), deep=1)
            a.SetName(name)
            to.AddArray(a)
    return data


def write(path, data):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    w = vtk.vtkXMLUnstructuredGridWriter() if path.endswith("u") else vtk.vtkXMLPolyDataWriter()
    w.SetFileName(path)
    w.SetInputData(data)
    w.Write()


def car(root, n, *, flipped=False, points=False, nan=0, parts=False, force=True, scale=1.0):
    """A run: an ellipsoid of quads and triangles as the vehicle, smooth fields, drag file that agrees with them."""
    p, c = ref.mi.icosphere(2)
    p, c = np.asarray(p) * [2.3, 0.9, 0.7] + [0, 0, 0.9], np.asarray(c)
    cells = [t[::-1] if flipped else t for t in c]
    t = p[c]
    va, mid = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2, t.mean(axis=1)
    at = p if points else mid
    cp, tau = np.sin(at[:, 0]) - 0.2, -np.stack([3 + at[:, 1] ** 2, at[:, 1], at[:, 2]], axis=1) * scale
    area = 2.17
    face = (np.sin(p[:, 0]) - 0.2)[c].mean(axis=1) if points else cp
    shear = tau[c].mean(axis=1) if points else tau
    drag = (-face[:, None] * va - shear / (0.5 * U**2) * np.linalg.norm(va, axis=1)[:, None]).sum(0)[0] / area
    cp = cp.copy()
    cp[:nan] = np.nan
    fields = {"CpMeanTrim": cp, "wallShearStressMeanTrim": tau}
    d = os.path.join(root, f"run_{n}")
    path = os.path.join(d, f"boundary_{n}.vtp")
    write(path, polydata(p, cells, cell=None if points else fields, point=fields if points else None))
    if parts:
        with open(path, "rb") as f:
            whole = f.read()
        os.remove(path)
        for k in range(2):
            with open(f"{path}.0{k}.part", "wb") as f:
                f.write(whole[k * len(whole) // 2:(k + 1) * len(whole) // 2])
    with open(os.path.join(d, f"geo_ref_{n}.csv"), "w") as f:
        f.write("aRef, lRef\n2.17, 2.786\n")
    if force:
        with open(os.path.join(d, f"force_mom_{n}.csv"), "w") as f:
            f.write(f"Cd, Cl\n{drag / scale if scale != 1 else drag}, 0\n")
    return mid, va, face, shear


@unittest.skipIf(vtk is None, "skipped: the Python package vtk is not there (tools/setup)")
class Samples(ref.Case):
    def make(self, kind, root, *options, env=None):
        out = self.path("out")
        done = subprocess.run([sys.executable, TOOL, kind, root, "-o", out, *options], capture_output=True, text=True,
                              env=dict(os.environ, **(env or {})))
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return out

    def report(self, out):
        with open(os.path.join(out, "report.csv"), newline="") as f:
            return {r[0]: r[1:] for r in list(csv.reader(f))[1:]}

    def test_drivaerml_with_its_defects(self):
        root = self.path("drivaerml")
        mid, va, cp, tau = car(root, 1)
        car(root, 2, flipped=True)
        car(root, 4, points=True)
        car(root, 5, nan=7)
        car(root, 6, parts=True)
        car(root, 7, scale=-1.0)
        car(root, 8, force=False)
        car(root, 9)
        os.truncate(os.path.join(root, "run_9", "boundary_9.vtp"), 5000)
        car(root, 10)
        os.remove(os.path.join(root, "run_10", "geo_ref_10.csv"))
        out = self.make("drivaerml", root, "--jobs", "2")
        got = self.report(out)
        self.assertEqual(list(got), [f"run_{k}" for k in range(1, 11)])
        for run, status, words in (
                (1, "made", ""), (2, "made", "winding turned outwards"), (3, "skipped", "folder run_3 is missing"),
                (4, "made", "CpMeanTrim is point data: averaged to faces"), (5, "made", "7 of 320 values of C_p are unknown"),
                (6, "skipped", "in 2 parts; join them: cat boundary_6.vtp.*part"), (7, "made", "drag of the fields is"),
                (8, "made", "force_mom_8.csv is missing"), (9, "skipped", "boundary_9.vtp"), (10, "skipped", "geo_ref_10.csv is missing")):
            self.assertEqual(got[f"run_{run}"][0], status, got[f"run_{run}"])
            self.assertIn(words, got[f"run_{run}"][1])
        self.assertEqual(got["run_1"][1], "")
        with open(os.path.join(out, "samples.txt")) as f:
            self.assertEqual(f.read().split(), [f"run_{k}.h5" for k in (1, 2, 4, 5, 7, 8)])
        with h5py.File(os.path.join(out, "run_1.h5")) as one, h5py.File(os.path.join(out, "run_2.h5")) as two:
            for f in (one, two):
                g = f["boundary/vehicle"]
                t = g["points"][()][g["cells"][()]]
                np.testing.assert_allclose(t.mean(axis=1), mid, atol=1e-6)
                np.testing.assert_allclose(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2, va, atol=1e-6)
                np.testing.assert_allclose(f["targets/fields/C_p"][()], cp, atol=1e-6)
                np.testing.assert_allclose(f["targets/fields/C_f"][()], -tau / (0.5 * U**2), atol=1e-8)
                self.assertEqual(f["targets"].attrs["boundary"], "vehicle")
                self.assertEqual(dict(f["lengths"].attrs), {"L_ref": 2.786, "delta_turb": 0.0423})
                self.assertEqual([len(f[f"boundary/{b}/cells"]) for b in ("no_slip_floor", "slip_floor")], [722, 722])

    def test_goes_on_where_it_was_and_over_ranks(self):
        """Samples that are whole stay untouched, a half one is made again; two ranks share the work."""
        root = self.path("drivaerml")
        for n in (1, 2, 3):
            car(root, n)
        out = self.make("drivaerml", root)
        kept = os.path.join(out, "run_1.h5")
        stamp = os.stat(kept).st_mtime_ns
        os.truncate(os.path.join(out, "run_2.h5"), 2000)
        for rank in ("0", "1"):
            self.make("drivaerml", root, env={"OMPI_COMM_WORLD_RANK": rank, "OMPI_COMM_WORLD_SIZE": "2"})
        got = self.report(out)
        self.assertEqual({k: v[0] for k, v in got.items()}, {"run_1": "kept", "run_2": "made", "run_3": "kept"})
        self.assertEqual(os.stat(kept).st_mtime_ns, stamp)

    def airfoil(self, root, name, flipped=False, fields=True):
        s = np.linspace(0, 2 * np.pi, 81)[:-1]
        foil = np.stack([0.5 + 0.5 * np.cos(s), -0.06 * np.sin(s), 0 * s + 0.5], axis=1)  # clockwise: outward normals
        ring = np.stack([2 * np.cos(s), 2 * np.sin(s), 0 * s + 0.5], axis=1)
        edge = np.stack([np.arange(80), (np.arange(80) + 1) % 80], axis=1)
        d = os.path.join(root, name)
        write(f"{d}/{name}_aerofoil.vtp", polydata(foil, lines=list(edge[:, ::-1] if flipped else edge), point={"p": 10 * foil[:, 0]}))
        write(f"{d}/{name}_freestream.vtp", polydata(ring, lines=list(edge)))
        both = np.concatenate([foil, ring])
        tri = np.concatenate([np.stack([edge[:, 0], edge[:, 1], 80 + edge[:, 0]], 1), np.stack([edge[:, 1], 80 + edge[:, 1], 80 + edge[:, 0]], 1)])
        u = np.stack([30 + both[:, 1], both[:, 0], 0 * both[:, 0]], axis=1)
        inside = {"U": u, "p": both[:, 0] - 3, "nut": np.abs(both[:, 1]) * 1e-5}
        write(f"{d}/{name}_internal.vtu", polydata(both, list(tri), point=inside if fields else {"U": u}, grid=True))
        return both, u, inside

    def test_airfrans(self):
        root, name = self.path("airfrans"), "airFoil2D_SST_31.5_4.25_0_12_8"
        both, u, inside = self.airfoil(root, name)
        self.airfoil(root, "airFoil2D_SST_40_-2_0_12_8", flipped=True)
        self.airfoil(root, "airFoil2D_SST_41_-2_0_12_8", fields=False)
        os.makedirs(os.path.join(root, "notes"))
        with open(os.path.join(root, "manifest.json"), "w") as f:
            json.dump({"full_train": [name, "airFoil2D_SST_99_0_0_12_8"]}, f)
        out = self.make("airfrans", root)
        got = self.report(out)
        self.assertEqual({k: v[0] for k, v in got.items()},
                         {name: "made", "airFoil2D_SST_40_-2_0_12_8": "made", "airFoil2D_SST_41_-2_0_12_8": "skipped",
                          "airFoil2D_SST_99_0_0_12_8": "skipped", "notes": "skipped"})
        self.assertIn("no point field p", got["airFoil2D_SST_41_-2_0_12_8"][1])
        self.assertIn("winding turned outwards", got["airFoil2D_SST_40_-2_0_12_8"][1])
        with h5py.File(os.path.join(out, name + ".h5")) as f:
            u_inf = 31.5 * np.array([np.cos(np.radians(4.25)), np.sin(np.radians(4.25))])
            fields = f["targets/fields"]
            np.testing.assert_allclose(fields["dU"][:160], (u[:, :2] - u_inf) / 31.5, atol=1e-6)
            np.testing.assert_allclose(fields["C_p"][:160], inside["p"] / (0.5 * 31.5**2), atol=1e-6)
            np.testing.assert_allclose(fields["ln(1+nut_nu)"][:160], np.log1p(inside["nut"] / 1.56e-5), atol=1e-6)
            self.assertEqual(fields["ln(1+nut_nu)"].attrs["original_name"], "ln(1+nut/nu)")
            self.assertTrue(np.isnan(fields["dU"][160:]).all() and np.isfinite(fields["C_p"][160:]).all())
            self.assertEqual(f.attrs["dim"], 2)
            self.assertAlmostEqual(float(f["targets/weights"][()].sum()), 2, delta=1e-12)

    def test_meshes_and_a_table(self):
        root = self.path("meshes")
        os.makedirs(root)
        p, c = ref.mi.icosphere(1)
        ref.write_obj(os.path.join(root, "a.obj"), np.asarray(p), c)
        with h5py.File(os.path.join(root, "plain.h5"), "w") as f:
            f["x"] = [1]
        out = self.path("with_field.vtp")
        ref.write_vtp(out, np.asarray(p), np.asarray(c)[:, ::-1], {"C_p": np.arange(len(c)) / 80, "ln(1+nut/nu)": np.ones(len(c))})
        os.replace(out, os.path.join(root, "b.vtp"))
        with open(os.path.join(root, "parameters.csv"), "w") as f:
            f.write("file, lengths.L, global.U_dir.x, global.U_dir.y, global.U_dir.z, global.mach\n"
                    "a.obj, 1, 1, 0, 0, 0.3\nb.vtp, 2.5, 0, 1, 0, 0.4\nplain.h5, 1, 0, 0, 1, 0.5\nc.stl, 1, 0, 0, 1, 0.5\n"
                    "b.vtp, -1, 0, 1, 0, 0.4\n")
        made = self.make("folder", root, "--farfield", ref.FARFIELD)
        with open(os.path.join(made, "report.csv"), newline="") as f:
            rows = list(csv.reader(f))[1:]
        self.assertEqual([(r[0], r[1]) for r in rows], [("a", "skipped"), ("b", "made"), ("b_2", "skipped"), ("c", "skipped"), ("plain", "skipped")])
        self.assertIn("no target fields", rows[0][2])
        self.assertIn("winding turned outwards", rows[1][2])
        self.assertIn("length L = -1.0", rows[2][2])
        self.assertIn("c.stl is missing", rows[3][2])
        with h5py.File(os.path.join(made, "b.h5")) as f:
            self.assertEqual(f["lengths"].attrs["L"], 2.5)
            self.assertEqual(f["global"].attrs["U_dir"].tolist(), [0, 1, 0])
            np.testing.assert_allclose(f["targets/fields/C_p"][()], np.arange(len(c)) / 80, atol=1e-7)
            self.assertEqual(f["targets/fields/ln(1+nut_nu)"].attrs["original_name"], "ln(1+nut/nu)")


if __name__ == "__main__":
    unittest.main()
