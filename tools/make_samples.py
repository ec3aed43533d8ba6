#!/usr/bin/env python3
"""Turn a folder of simulations into training samples.

    tools/make_samples.py drivaerml ROOT -o OUT    run_N/boundary_N.vtp with CpMeanTrim and wallShearStressMeanTrim,
                                                   geo_ref_N.csv, force_mom_N.csv: C_p and C_f on the vehicle, two floors
    tools/make_samples.py airfrans ROOT -o OUT     NAME/NAME_{internal.vtu,aerofoil.vtp,freestream.vtp}, two dimensions
    tools/make_samples.py folder ROOT -o OUT       meshes of any format farfield reads, and parameters.csv

Writes OUT/NAME.h5 a sample, OUT/samples.txt (the list `train` takes) and OUT/report.csv (what was made, noted, skipped and
why). Samples that are there are kept, so a stopped run goes on where it was (--again makes all anew). --jobs N works in N
processes; under mpirun or srun each rank takes its share and the last one to end writes list and report.
"""
import argparse
import contextlib
import csv
import glob
import json
import math
import multiprocessing
import os
import re
import subprocess
import sys
import tempfile

import h5py
import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from ff_sample import Sample, Skip, face_geometry, is_sample, true_name, turn_outwards  # noqa: E402


# ---- reading ------------------------------------------------------------------------------------------------------


def need(path):
    """path, or a reason to skip: missing, or only parts of it are there."""
    if os.path.exists(path):
        return path
    parts = sorted(glob.glob(glob.escape(path) + ".*part") + glob.glob(glob.escape(path) + ".part*"))
    if parts:
        raise Skip(f"{os.path.basename(path)} is in {len(parts)} parts; join them: cat {os.path.basename(path)}.*part > "
                   f"{os.path.basename(path)}")
    raise Skip(f"{os.path.basename(path)} is missing")


def read_csv_row(path):
    """First row of values by column name, blanks around names dropped."""
    with open(path, newline="") as f:
        rows = [r for r in csv.reader(f) if r and not r[0].lstrip().startswith("#")]
    if len(rows) < 2 or len(rows[1]) < len(rows[0]):
        raise Skip(f"{os.path.basename(path)}: expected a row of names and a row of values")
    return {k.strip().lower(): v.strip() for k, v in zip(rows[0], rows[1])}


def column(row, path, *names):
    for n in names:
        if n.lower() in row:
            try:
                return float(row[n.lower()])
            except ValueError:
                raise Skip(f"{os.path.basename(path)}: {n} = {row[n.lower()]!r}, expected a number") from None
    raise Skip(f"{os.path.basename(path)}: no column {' or '.join(names)}; it has {', '.join(row)}")


def vtk_read(path):
    """Any VTK XML file as a data set."""
    import vtk

    vtk.vtkObject.GlobalWarningDisplayOff()
    reader = {".vtp": vtk.vtkXMLPolyDataReader, ".vtu": vtk.vtkXMLUnstructuredGridReader}[os.path.splitext(path)[1]]()
    if not reader.CanReadFile(path):
        raise Skip(f"{os.path.basename(path)}: not a readable {os.path.splitext(path)[1]} file")
    reader.SetFileName(path)
    failed = []
    reader.AddObserver("ErrorEvent", lambda *_: failed.append(1))
    reader.Update()
    data = reader.GetOutput()
    if failed or data.GetNumberOfPoints() == 0:
        raise Skip(f"{os.path.basename(path)}: truncated or empty")
    return data


def vtk_arrays(data):
    from vtk.util.numpy_support import vtk_to_numpy

    return {data.GetArrayName(i): vtk_to_numpy(data.GetArray(i)).astype(np.float64)
            for i in range(data.GetNumberOfArrays()) if data.GetArray(i) is not None}


def vtk_points(data):
    from vtk.util.numpy_support import vtk_to_numpy

    return vtk_to_numpy(data.GetPoints().GetData()).astype(np.float64)


def vtk_triangles(data):
    """Polygons of a surface as triangles, fields following: points, cells [m,3], cell fields, point fields."""
    import vtk
    from vtk.util.numpy_support import vtk_to_numpy

    cut = vtk.vtkTriangleFilter()
    cut.SetInputData(data)
    cut.PassLinesOff()
    cut.PassVertsOff()
    cut.Update()
    out = cut.GetOutput()
    cells = vtk_to_numpy(out.GetPolys().GetConnectivityArray()).reshape(-1, 3).astype(np.int64)
    return vtk_points(out), cells, vtk_arrays(out.GetCellData()), vtk_arrays(out.GetPointData())


def vtk_edges(data):
    """Lines of a curve as edges in the x-y plane: points, cells [m,2], point fields."""
    from vtk.util.numpy_support import vtk_to_numpy

    lines = data.GetLines()
    conn = vtk_to_numpy(lines.GetConnectivityArray()).astype(np.int64)
    off = vtk_to_numpy(lines.GetOffsetsArray()).astype(np.int64)
    cells = np.array([conn[k:k + 2] for a, b in zip(off[:-1], off[1:]) for k in range(a, b - 1)], np.int64).reshape(-1, 2)
    points = vtk_points(data)
    points[:, 2] = 0
    return points, cells, vtk_arrays(data.GetPointData())


def at_faces(name, cells, cell_fields, point_fields, notes):
    """A field at faces: cell data, else the mean of point data at the corners."""
    if name in cell_fields:
        return cell_fields[name]
    if name in point_fields:
        notes.append(f"{name} is point data: averaged to faces")
        return point_fields[name][cells].mean(axis=1)
    raise Skip(f"no field {name}; cell data: {', '.join(cell_fields) or 'none'}; point data: {', '.join(point_fields) or 'none'}")


def outward(points, cells, notes):
    cells, turned = turn_outwards(points, cells)
    if turned:
        notes.append("winding turned outwards")
    return cells


# ---- DrivAerML ----------------------------------------------------------------------------------------------------


def floor_grid(x, y, z, n=20):
    """n x n points of a plane, triangles with normals up."""
    gx, gy = np.meshgrid(np.linspace(*x, n), np.linspace(*y, n), indexing="ij")
    points = np.stack([gx.ravel(), gy.ravel(), np.full(n * n, z)], axis=1)
    i = np.arange(n * n).reshape(n, n)
    a, b, c, d = i[:-1, :-1].ravel(), i[1:, :-1].ravel(), i[1:, 1:].ravel(), i[:-1, 1:].ravel()
    return points, np.concatenate([np.stack([a, b, c], 1), np.stack([a, c, d], 1)]), {}


def check_drag(s, points, cells, area, path):
    """Drag of the fields against the force file: a wrong sign or scale shows at once."""
    if not os.path.exists(path):
        s.notes.append(f"{os.path.basename(path)} is missing: drag not compared")
        return
    want = column(read_csv_row(path), path, "Cd", "drag")
    _, va = face_geometry(points, cells)
    good = np.isfinite(s.fields["C_p"]) & np.isfinite(s.fields["C_f"]).all(axis=1)
    got = (-s.fields["C_p"][:, None] * va + s.fields["C_f"] * np.linalg.norm(va, axis=1)[:, None])[good].sum(0)[0] / area
    if abs(got - want) > 0.02 * abs(want):
        s.notes.append(f"drag of the fields is {got:.4f}, the force file says {want:.4f}")


def drivaerml(folder, number, o):
    s = Sample(f"run_{number}")
    points, cells, cell_fields, point_fields = vtk_triangles(vtk_read(need(f"{folder}/boundary_{number}.vtp")))
    geo_path = need(f"{folder}/geo_ref_{number}.csv")
    geo = read_csv_row(geo_path)
    area, length = column(geo, geo_path, "aRef", "area"), column(geo, geo_path, "lRef", "length", "wheelbase")
    cp = at_faces(o.pressure, cells, cell_fields, point_fields, s.notes)
    tau = at_faces(o.shear, cells, cell_fields, point_fields, s.notes)
    cells = outward(points, cells, s.notes)
    s.fields = {"C_p": cp, "C_f": tau * o.shear_factor / (0.5 * o.velocity**2)}
    s.boundary["vehicle"] = (points, cells, {})
    z = points[np.unique(cells), 2].min() if o.floor_z is None else o.floor_z
    s.boundary["no_slip_floor"] = floor_grid((o.floor_split, o.floor_x[1]), o.floor_y, z)
    s.boundary["slip_floor"] = floor_grid((o.floor_x[0], o.floor_split), o.floor_y, z)
    s.lengths = {"L_ref": length, "delta_turb": o.delta_turb}
    s.target = "vehicle"
    check_drag(s, points, cells, area, f"{folder}/force_mom_{number}.csv")
    return s


def drivaerml_runs(root):
    """Folders run_N in order, and the numbers missing in between."""
    found = {int(m.group(1)): p for p in glob.glob(os.path.join(root, "run_*")) if (m := re.fullmatch(r"run_(\d+)", os.path.basename(p)))}
    if not found:
        sys.exit(f"{root}: no folder run_N, expected a DrivAerML-like folder")
    for n in range(min(found), max(found) + 1):
        yield f"run_{n}", (found.get(n), n)


def make_drivaerml(job, o):
    folder, number = job
    if folder is None:
        raise Skip(f"folder run_{number} is missing")
    return drivaerml(folder, number, o)


# ---- AirFRANS -----------------------------------------------------------------------------------------------------

NU = 1.56e-5  # m2/s, air at 298 K


def airfrans_fields(u, p, nut, speed, u_inf):
    q = 0.5 * speed**2
    return {"dU": (u[:, :2] - u_inf) / speed, "C_p": p / q, "C_pt": (p + 0.5 * (u[:, :2]**2).sum(axis=1)) / q,
            "ln(1+nut/nu)": np.log1p(nut / NU)}


def point_field(fields, name, path):
    if name not in fields:
        raise Skip(f"{os.path.basename(path)}: no point field {name}; it has {', '.join(fields) or 'none'}")
    return fields[name]


def make_airfrans(folder, o):
    name = os.path.basename(folder)
    parts = name.split("_")
    try:
        speed, angle = float(parts[2]), math.radians(float(parts[3]))
    except (IndexError, ValueError):
        raise Skip("the folder's name does not say speed and angle of attack (airFoil2D_SST_SPEED_ANGLE_...)") from None
    s = Sample(name, dim=2)
    inside_path, foil_path = need(f"{folder}/{name}_internal.vtu"), need(f"{folder}/{name}_aerofoil.vtp")
    points, cells, foil = vtk_edges(vtk_read(foil_path))
    if len(cells) == 0:
        raise Skip(f"{os.path.basename(foil_path)}: no lines")
    # normals of edges are (-dy, dx): outwards on a closed curve that runs clockwise
    x, va = face_geometry(points, cells)
    if np.sum((x - points[np.unique(cells)].mean(axis=0)) * va) < 0:
        cells = cells[:, ::-1].copy()
        s.notes.append("winding turned outwards")
    s.boundary["no_slip"] = (points, cells, {})
    outer = vtk_edges(vtk_read(need(f"{folder}/{name}_freestream.vtp")))
    s.boundary["freestream"] = (outer[0], outer[1], {})
    data = vtk_read(inside_path)
    inside, at = vtk_arrays(data.GetPointData()), vtk_points(data)
    u_inf = speed * np.array([math.cos(angle), math.sin(angle)])
    pick = np.arange(len(at))
    if o.points and len(at) > o.points:
        pick = np.sort(np.random.default_rng(o.seed).choice(len(at), o.points, replace=False))
    fields = airfrans_fields(*(point_field(inside, k, inside_path) for k in ("U", "p", "nut")), speed, u_inf)
    s.target = np.concatenate([at[pick] * [1, 1, 0], x])
    for k, v in fields.items():
        s.fields[k] = np.concatenate([v[pick], np.full((len(x),) + v.shape[1:], np.nan)])
    if "p" in foil:
        s.fields["C_p"][len(pick):] = foil["p"][cells].mean(axis=1) / (0.5 * speed**2)
    if "wallShearStress" in foil:
        shear = foil["wallShearStress"][cells].mean(axis=1)[:, :2] * o.shear_factor / (0.5 * speed**2)
        s.fields["C_F,shear"] = np.concatenate([np.full((len(pick), 2), np.nan), shear])
    area = np.concatenate([np.full(len(pick), 1 / len(pick)), np.linalg.norm(va, axis=1) / np.linalg.norm(va, axis=1).sum()])
    s.weights = area
    s.lengths = {"chord": float(np.ptp(points[np.unique(cells), 0])), "delta_FS": NU / speed}
    s.globals = {"U_inf / U_inf_magnitude": u_inf / speed, "ln_Re": math.log(speed / NU)}
    return s


def airfrans_runs(root):
    found = sorted(p for p in glob.glob(os.path.join(root, "*")) if os.path.isdir(p))
    if not found:
        sys.exit(f"{root}: no folders, expected an AirFRANS-like folder")
    listed = os.path.join(root, "manifest.json")
    names = {os.path.basename(p) for p in found}
    if os.path.exists(listed):
        with open(listed) as f:
            names |= {n for v in json.load(f).values() for n in v}
    for n in sorted(names):
        yield n, os.path.join(root, n)


# ---- plain meshes and a table -------------------------------------------------------------------------------------


def read_mesh(path, o):
    """Any mesh farfield reads, through `farfield convert`: points, triangles or edges, cell fields, point fields."""
    with tempfile.TemporaryDirectory(prefix="farfield-samples-") as d:
        out = os.path.join(d, "m.h5")
        done = subprocess.run([o.farfield, "convert", path, out, "--scale", str(o.scale)], capture_output=True, text=True)
        if done.returncode != 0:
            raise Skip(done.stderr.strip().splitlines()[0] if done.stderr.strip() else f"{path}: not read")
        with h5py.File(out) as f:
            dim, points = int(f.attrs["dim"]), f["points"][()]
            off, conn = f["cells/offsets"][()], f["cells/connectivity"][()]
            fields = [{true_name(k, d): d[()] for k, d in f.get(g, {}).items()} for g in ("cell_data", "point_data")]
    n = np.diff(off)
    if dim == 3 and (n != 3).any():  # fans; train splits nothing
        parent = np.repeat(np.arange(len(n)), n - 2)
        step = np.arange(len(parent)) - np.repeat(np.cumsum(n - 2) - (n - 2), n - 2)
        conn = np.stack([conn[off[parent]], conn[off[parent] + step + 1], conn[off[parent] + step + 2]], axis=1)
        fields[0] = {k: v[parent] for k, v in fields[0].items()}
    return dim, points, conn.reshape(-1, dim), fields[0], fields[1]


def table_runs(root):
    path = os.path.join(root, "parameters.csv")
    if not os.path.exists(path):
        sys.exit(f"{path} is missing, expected a table with a column file and columns lengths.NAME, global.NAME or global.NAME.x, .y, .z")
    with open(path, newline="") as f:
        rows = [{(k or "").strip(): (v or "").strip() for k, v in r.items()} for r in csv.DictReader(f)]
    if not rows or "file" not in rows[0]:
        sys.exit(f"{path}: no column file")
    seen = {}
    for r in rows:
        name = r.get("name") or os.path.splitext(os.path.basename(r["file"]))[0]
        seen[name] = seen.get(name, 0) + 1
        yield name if seen[name] == 1 else f"{name}_{seen[name]}", (root, r)


def number(row, key):
    try:
        return float(row[key])
    except ValueError:
        raise Skip(f"parameters.csv: {key} = {row[key]!r}, expected a number") from None


def make_folder(job, o):
    root, row = job
    dim, points, cells, cell_fields, point_fields = read_mesh(need(os.path.join(root, row["file"])), o)
    s = Sample(row.get("name") or row["file"], dim)
    if dim == 3:
        cells = outward(points, cells, s.notes)
    sources = {f: at_faces(f, cells, cell_fields, point_fields, s.notes) for f in o.source_field}
    s.boundary[o.boundary] = (points, cells, sources)
    for f in o.field or [k for k in cell_fields if k not in sources]:
        s.fields[f] = at_faces(f, cells, cell_fields, point_fields, s.notes)
        if dim == 2 and s.fields[f].ndim == 2:
            s.fields[f] = s.fields[f][:, :2]
    for key in row:
        if key.startswith("lengths."):
            s.lengths[key[8:]] = number(row, key)
        elif key.startswith("global.") and key[-2:] in (".x", ".y", ".z"):
            s.globals.setdefault(key[7:-2], np.zeros(dim))["xyz".index(key[-1])] = number(row, key)
        elif key.startswith("global."):
            s.globals[key[7:]] = number(row, key)
    s.target = o.boundary
    return s


# ---- all of it ----------------------------------------------------------------------------------------------------

KINDS = {"drivaerml": (drivaerml_runs, make_drivaerml), "airfrans": (airfrans_runs, make_airfrans),
         "folder": (table_runs, make_folder)}


def one(task):
    """A row of the report: name, status, reason or notes."""
    o, name, job = task
    path = os.path.join(o.out, name + ".h5")
    if is_sample(path) and not o.again:
        return name, "kept", ""
    try:
        s = KINDS[o.kind][1](job, o)
        s.write(path)
        return name, "made", "; ".join(s.notes)
    except Skip as why:
        return name, "skipped", str(why)
    except Exception as e:  # a defect nobody thought of: the other samples go on
        return name, "skipped", f"{type(e).__name__}: {e}"


def rank_and_size():
    for rank, size in (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("SLURM_PROCID", "SLURM_NTASKS"), ("PMI_RANK", "PMI_SIZE")):
        if rank in os.environ and size in os.environ:
            return int(os.environ[rank]), int(os.environ[size])
    return 0, 1


def write_rows(path, rows):
    part = f"{path}.{os.getpid()}.tmp"
    with open(part, "w", newline="") as f:
        csv.writer(f).writerows([("name", "status", "reason or notes"), *rows])
    os.replace(part, path)


def finish(o, size):
    """The list and the report, by each rank that finds all parts there; the last one to end has them all. Part files appear
    whole and stay: one of an earlier run is replaced before its rank comes here."""
    parts = [os.path.join(o.out, f".report-{r}-of-{size}.csv") for r in range(size)]
    if not all(os.path.exists(p) for p in parts):
        return
    rows = []
    for p in parts:
        with open(p, newline="") as f:
            rows += list(csv.reader(f))[1:]
    rows.sort(key=lambda r: [int(t) if t.isdigit() else t for t in re.split(r"(\d+)", r[0])])
    write_rows(os.path.join(o.out, "report.csv"), rows)
    part = os.path.join(o.out, f"samples.txt.{os.getpid()}.tmp")
    with open(part, "w") as f:
        f.writelines(f"{r[0]}.h5\n" for r in rows if r[1] != "skipped")
    os.replace(part, os.path.join(o.out, "samples.txt"))
    n = {k: sum(r[1] == k for r in rows) for k in ("made", "kept", "skipped")}
    print(f"{n['made']} samples made, {n['kept']} kept, {n['skipped']} skipped; see {os.path.join(o.out, 'report.csv')}")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("kind", choices=KINDS)
    p.add_argument("root")
    p.add_argument("-o", "--out", required=True, help="folder for the samples")
    p.add_argument("--jobs", type=int, default=1, help="processes of each rank")
    p.add_argument("--again", action="store_true", help="make samples anew that are there")
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--velocity", type=float, default=38.889, help="drivaerml: free stream, m/s")
    p.add_argument("--pressure", default="CpMeanTrim", help="drivaerml: field of C_p")
    p.add_argument("--shear", default="wallShearStressMeanTrim", help="drivaerml: field of wall shear stress / density")
    p.add_argument("--shear-factor", type=float, default=-1.0, help="-1: OpenFOAM's sign, against the flow")
    p.add_argument("--delta-turb", type=float, default=0.0423, help="drivaerml: reference length delta_turb, m")
    p.add_argument("--floor-z", type=float, help="drivaerml: height of the floor; the vehicle's lowest point")
    p.add_argument("--floor-x", type=float, nargs=2, default=(-10.0, 10.0))
    p.add_argument("--floor-y", type=float, nargs=2, default=(-11.0, 11.0))
    p.add_argument("--floor-split", type=float, default=-2.339, help="drivaerml: x where the no-slip floor begins")
    p.add_argument("--points", type=int, default=0, help="airfrans: volume points drawn at random; 0: all")
    p.add_argument("--boundary", default="body", help="folder: name of the boundary")
    p.add_argument("--field", action="append", default=[], help="folder: target field (again for more; default: all cell data)")
    p.add_argument("--source-field", action="append", default=[], help="folder: source field of the boundary")
    p.add_argument("--scale", type=float, default=1.0, help="folder: factor on coordinates")
    p.add_argument("--farfield", default="farfield", help="folder: the program")
    return p.parse_args()


def main():
    o = arguments()
    if not os.path.isdir(o.root):
        sys.exit(f"{o.root}: no such folder")
    os.makedirs(o.out, exist_ok=True)
    rank, size = rank_and_size()
    tasks = [(o, name, job) for name, job in KINDS[o.kind][0](o.root)][rank::size]
    rows = []
    with multiprocessing.get_context("spawn").Pool(o.jobs) if o.jobs > 1 else contextlib.nullcontext() as pool:
        done = map(one, tasks) if pool is None else pool.imap_unordered(one, tasks)
        for k, row in enumerate(done):
            rows.append(row)
            print(f"[{rank}] {k + 1}/{len(tasks)} {row[0]}: {row[1]}{': ' + row[2] if row[2] else ''}", flush=True)
    write_rows(os.path.join(o.out, f".report-{rank}-of-{size}.csv"), rows)
    finish(o, size)


if __name__ == "__main__":
    main()
