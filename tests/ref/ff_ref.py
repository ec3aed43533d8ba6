"""Shared by the tests in this folder: starting the program, small meshes, reading results."""
import os
import subprocess
import sys
import tempfile
import unittest

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
SHARED = os.path.join(os.path.dirname(ROOT), "shared")
INPUTS = os.path.join(ROOT, "inputs")
sys.path.insert(0, os.path.join(ROOT, "tools"))
import make_inputs as mi  # noqa: E402

FARFIELD = os.environ.get("FARFIELD", os.path.join(ROOT, "build", "check", "farfield"))
MPIEXEC = os.environ.get("MPIEXEC", "mpirun")


def shared(*parts):
    """A path in ../shared; the test is skipped where it is not there."""
    path = os.path.join(SHARED, *parts)
    if not os.path.exists(path):
        raise unittest.SkipTest(f"skipped: ../shared/{'/'.join(parts)} is not there")
    return path


class Result:
    def __init__(self, done):
        self.code = done.returncode
        self.out = done.stdout
        # What the program said; mpirun's own lines (a banner between rows of dashes, aborts) are left out.
        self.err = done.stderr

    def error_lines(self):
        return [line for line in self.err.splitlines() if line.startswith("farfield: error")]


def run(*args, ranks=1, threads=None, cwd=None, timeout=600, env=None):
    """Run farfield. ranks 1: without mpirun. env: added to the environment."""
    cmd = [FARFIELD, *map(str, args)]
    if threads:
        cmd += ["--threads", str(threads)]
    if ranks > 1:
        if not MPIEXEC:
            raise unittest.SkipTest("skipped: built without MPI")
        cmd = [MPIEXEC, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *cmd]
    done = subprocess.run(cmd, cwd=cwd, timeout=timeout, capture_output=True, text=True, errors="replace",
                          stdin=subprocess.DEVNULL, env={**os.environ, **(env or {})})
    return Result(done)


class Case(unittest.TestCase):
    """A test with a folder of its own, and the checks most tests need."""

    def setUp(self):
        self.dir = tempfile.TemporaryDirectory(prefix="farfield-test-")
        self.addCleanup(self.dir.cleanup)

    def path(self, *parts):
        return os.path.join(self.dir.name, *parts)

    def ok(self, *args, **kw):
        r = run(*args, **kw)
        self.assertEqual(r.code, 0, f"{args}\n{r.out[-3000:]}\n{r.err[-3000:]}")
        return r

    def predict(self, deck_or_args, out="out.vtkhdf", **kw):
        """Fields of a prediction as name -> array. deck_or_args: a deck's name in inputs/, or arguments."""
        args = ["-c", os.path.join(INPUTS, deck_or_args)] if isinstance(deck_or_args, str) else deck_or_args
        self.ok("predict", *args, "-o", self.path(out), "--force", **kw)
        return cell_data(self.path(out))


def cell_data(path):
    """Cell fields of a VTKHDF result, true names."""
    fields = {}
    with h5py.File(path) as f:
        for name, d in f["VTKHDF/CellData"].items():
            true = d.attrs.get("original_name", name)
            fields[true.decode() if isinstance(true, bytes) else str(true)] = d[...]
    return fields


def same_bits(test, a, b, what):
    test.assertEqual(sorted(a), sorted(b), what)
    for name in a:
        test.assertEqual(a[name].shape, b[name].shape, f"{what}: {name}")
        differ = np.count_nonzero(a[name] != b[name])
        test.assertEqual(differ, 0, f"{what}: {differ} values of {name} differ")


def rel_l2(a, b, weight=1.0):
    """Weighted relative L2 distance of a from b."""
    a, b = np.asarray(a, float).reshape(len(a), -1), np.asarray(b, float).reshape(len(b), -1)
    w = np.broadcast_to(weight, (len(a),))[:, None]
    return float(np.sqrt((w * (a - b) ** 2).sum() / (w * b**2).sum()))


def areas(points, cells):
    t = np.asarray(points, float)[cells]
    return np.linalg.norm(np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]), axis=1) / 2


def write_obj(path, points, cells=(), kind="f", extra=""):
    with open(path, "w") as f:
        for p in points:
            f.write("v " + " ".join(repr(float(v)) for v in p) + "\n")
        for c in cells:
            f.write(kind + " " + " ".join(str(int(i) + 1) for i in c) + "\n")
        f.write(extra)
    return path


def write_vtp(path, points, cells, cell_data):
    """VTP as text: triangles and cell fields, every digit kept."""
    with open(path, "w") as f:
        f.write('<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian"><PolyData>\n')
        f.write(f'<Piece NumberOfPoints="{len(points)}" NumberOfPolys="{len(cells)}">\n<Points>')
        f.write('<DataArray type="Float64" NumberOfComponents="3" format="ascii">\n')
        np.savetxt(f, points, fmt="%.17g")
        f.write('</DataArray></Points>\n<Polys><DataArray type="Int64" Name="connectivity" format="ascii">\n')
        np.savetxt(f, cells, fmt="%d")
        f.write('</DataArray><DataArray type="Int64" Name="offsets" format="ascii">\n')
        np.savetxt(f, 3 * (1 + np.arange(len(cells))), fmt="%d")
        f.write("</DataArray></Polys>\n<CellData>\n")
        for name, v in cell_data.items():
            v = np.asarray(v, float).reshape(len(cells), -1)
            f.write(f'<DataArray type="Float64" Name="{name}" NumberOfComponents="{v.shape[1]}" format="ascii">\n')
            np.savetxt(f, v, fmt="%.17g")
            f.write("</DataArray>\n")
        f.write("</CellData>\n</Piece></PolyData></VTKFile>\n")
    return path
