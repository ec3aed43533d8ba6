#!/usr/bin/env python3
"""Opens results with VTK and prints what it finds; exit 1 if something is wrong.

    check_vtk.py FILE...            .vtkhdf, .vtp

Checked in each file: point numbers of cells, lengths of arrays, finite values. A .vtkhdf is also read with h5py and
must say the same. With several files, all must hold the same points, cells and arrays.
Needs: pip install vtk numpy h5py
"""
import sys

import numpy as np
import vtk
from vtk.util.numpy_support import vtk_to_numpy

TOPOLOGY = {"Vertices": "GetVerts", "Lines": "GetLines", "Polygons": "GetPolys", "Strips": "GetStrips"}


def array(a):
    return vtk_to_numpy(a) if a is not None and a.GetNumberOfTuples() > 0 else np.zeros(0)


def read(path):
    """Points, cells by kind (offsets, connectivity) and arrays of a file, as VTK sees them."""
    reader = vtk.vtkXMLPolyDataReader() if path.lower().endswith(".vtp") else vtk.vtkHDFReader()
    errors = []
    reader.AddObserver("ErrorEvent", lambda *_: errors.append(1))
    reader.SetFileName(path)
    reader.Update()
    data = reader.GetOutputDataObject(0)
    if errors or data is None or not data.IsA("vtkPolyData"):
        raise ValueError("VTK cannot read it as PolyData")
    out = {"points": array(data.GetPoints().GetData() if data.GetPoints() else None).reshape(-1, 3)}
    for kind, getter in TOPOLOGY.items():
        cells = getattr(data, getter)()
        out[kind + "/offsets"] = array(cells.GetOffsetsArray())
        out[kind + "/connectivity"] = array(cells.GetConnectivityArray())
    for where, fields, rows in (("point", data.GetPointData(), data.GetNumberOfPoints()),
                                ("cell", data.GetCellData(), data.GetNumberOfCells())):
        for i in range(fields.GetNumberOfArrays()):
            values = array(fields.GetArray(i))
            if len(values) != rows:
                raise ValueError(f"{where} array {fields.GetArrayName(i)} has {len(values)} rows, expected {rows}")
            out[f"{where}:{fields.GetArrayName(i)}"] = values
    texts = data.GetFieldData()
    for i in range(texts.GetNumberOfArrays()):
        a = texts.GetAbstractArray(i)
        if a.IsA("vtkStringArray"):
            out["text:" + a.GetName()] = "\n".join(a.GetValue(j) for j in range(a.GetNumberOfValues()))
    return out, data


def check(found):
    n = len(found["points"])
    for name, values in found.items():
        if isinstance(values, str):
            continue
        if name.endswith("/connectivity") and len(values) and (values.min() < 0 or values.max() >= n):
            raise ValueError(f"{name}: ids {values.min()} to {values.max()}, expected 0 to {n - 1}")
        if not name.endswith("/connectivity") and not np.all(np.isfinite(values)):
            raise ValueError(f"{name}: not finite")


def read_h5(path):
    import h5py

    out = {}
    with h5py.File(path) as f:
        root = f["VTKHDF"]
        if len(root["NumberOfPoints"]) != 1:
            return None
        out["points"] = root["Points"][()]
        for kind in TOPOLOGY:
            out[kind + "/offsets"] = root[kind]["Offsets"][()]
            out[kind + "/connectivity"] = root[kind]["Connectivity"][()]
        for where, group in (("point", "PointData"), ("cell", "CellData")):
            for name in root.get(group, {}):
                out[f"{where}:{name}"] = root[group][name][()]
    return out


def compare(a, b, what):
    for name in sorted(set(a) | set(b)):
        if name.startswith("text:"):
            continue
        if name not in a or name not in b:
            raise ValueError(f"{what}: {name} is in one of them only")
        x, y = np.asarray(a[name]), np.asarray(b[name])
        if name.endswith("/offsets") and min(x.size, y.size) <= 1 and max(x.size, y.size) <= 1:
            continue  # no cells: a 0, or nothing
        if x.shape != y.shape and x.size == y.size == 0:
            continue
        if x.shape != y.shape or not np.array_equal(x, y):
            raise ValueError(f"{what}: {name} differs: {x.shape}, {y.shape}")


def describe(path, found, data):
    print(f"{path}: VTK {vtk.vtkVersion.GetVTKVersion()}: {len(found['points'])} points, "
          f"{data.GetNumberOfCells()} cells ({data.GetNumberOfVerts()} vertices, {data.GetNumberOfLines()} lines, "
          f"{data.GetNumberOfPolys()} polygons, {data.GetNumberOfStrips()} strips)")
    for name, values in found.items():
        if name.startswith("text:"):
            print(f"  {name}: {len(values)} characters")
        elif ":" in name:
            span = f"{values.min():g} to {values.max():g}" if values.size else "empty"
            print(f"  {name}: {values.dtype} {list(values.shape)}, {span}")


def main(paths):
    first = None
    for path in paths:
        try:
            found, data = read(path)
            check(found)
            if path.lower().endswith(".vtkhdf"):
                raw = read_h5(path)
                if raw is not None:
                    compare(found, raw, "VTK and h5py")
            if first is not None:
                compare(first[1], found, f"{first[0]} and {path}")
        except (ValueError, OSError, KeyError) as e:
            print(f"{path}: {e}")
            return 1
        describe(path, found, data)
        first = first or (path, found)
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] in ("-h", "--help"):
        print(__doc__)
        sys.exit(0 if len(sys.argv) > 1 else 2)
    sys.exit(main(sys.argv[1:]))
