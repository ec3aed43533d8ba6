#!/usr/bin/env python3
"""Potential flow around any closed surface: C_p and surface velocity by a panel method over the treecode.

    tools/panel_flow MESH [--velocity 1 0 0] [-o RESULT.vtkhdf] [--sample DIR [--directions N]]

MESH: any surface that farfield reads; closed, faces wound alike. RESULT (.vtkhdf, .vtp, .h5): cell fields C_p, U_t (velocity
over the free stream's speed) and potential (over speed), in the order of the file. --sample writes training samples
for `farfield train` with target fields C_p and U_t, and DIR/samples.txt. docs/potential_flow.md derives and measures it.
"""
import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path[:0] = [os.path.join(ROOT, "tools"), os.path.join(ROOT, "python")]
from ff_sample import Sample, Skip  # noqa: E402

START = time.monotonic()


def say(text):
    print(f"{time.monotonic() - START:7.1f} s  {text}", flush=True)


def stop(text, code=2):
    print(f"panel_flow: {text}", file=sys.stderr)
    raise SystemExit(code)


# ---- files ----


def program(given):
    """farfield: as said, built in this repository, or on the PATH."""
    places = [given] if given else [os.path.join(ROOT, "build", d, "farfield") for d in ("", "quick", "check")]
    for p in [*places, None if given else shutil.which("farfield")]:
        if p and os.path.isfile(p):
            return os.path.abspath(p)
    stop(f"the program farfield is not there ({', '.join(places)}); build it (README.md) or name it with --farfield")


def convert(o, source, out, *options):
    done = subprocess.run([o.farfield, "convert", source, out, *options], capture_output=True, text=True)
    for line in done.stderr.splitlines():
        if "warning" in line:
            say(line)
    if done.returncode != 0:
        stop(done.stderr.strip() or f"{source}: farfield convert failed", done.returncode)


class Mesh:
    """The file's polygons, and triangles of them: triangle k is part of polygon parent[k]."""

    def __init__(self, path, o):
        with tempfile.TemporaryDirectory(prefix="panel-flow-") as d:
            plain = os.path.join(d, "m.h5")
            convert(o, path, plain, "--scale", str(o.scale))
            with h5py.File(plain) as f:
                if int(f.attrs["dim"]) != 3:
                    stop(f"{path}: not a surface, expected faces in three dimensions")
                self.points = f["points"][()].astype(np.float64)
                self.off, self.conn = f["cells/offsets"][()], f["cells/connectivity"][()]
        n = np.diff(self.off)
        self.parent = np.repeat(np.arange(len(n)), n - 2)
        step = np.arange(len(self.parent)) - np.repeat(np.cumsum(n - 2) - (n - 2), n - 2)
        first = self.off[self.parent]
        self.cells = np.stack([self.conn[first], self.conn[first + step + 1], self.conn[first + step + 2]], axis=1)
        self._refuse_concave(path, n)

    def _refuse_concave(self, path, n):
        t = self.points[self.cells]
        va = np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0])
        whole = np.stack([np.bincount(self.parent, va[:, k], minlength=len(n)) for k in range(3)], axis=1)
        back = (va * whole[self.parent]).sum(axis=1) < -1e-6 * (whole[self.parent] ** 2).sum(axis=1)
        if back.any():
            stop(f"{path}: {len(np.unique(self.parent[back]))} concave polygons; cut them into triangles first:\n"
                 f"  farfield convert {path} triangles.stl")

    def per_polygon(self, value, area):
        """Means over the triangles of a polygon by area."""
        total = np.bincount(self.parent, area, minlength=len(self.off) - 1)
        flat = value.reshape(len(value), -1)
        out = np.stack([np.bincount(self.parent, area * v, minlength=len(total)) for v in flat.T], axis=1)
        return (out / np.where(total > 0, total, 1)[:, None]).reshape(-1, *value.shape[1:])

    def write(self, path, fields, o):
        with tempfile.TemporaryDirectory(prefix="panel-flow-") as d:
            plain = os.path.join(d, "r.h5")
            with h5py.File(plain, "w") as f:
                f.attrs.update(dim=np.int64(3), format=np.bytes_("farfield surface 1"))
                f["points"], f["cells/offsets"], f["cells/connectivity"] = self.points, self.off, self.conn
                for name, value in fields.items():
                    f[f"cell_data/{name}"] = value.astype(np.float32)
                f.create_group("point_data")
            convert(o, plain, path, *(["--force"] if o.force else []))


# ---- the flow ----


def directions(o):
    """Unit vectors: that of --velocity, or N drawn evenly on the sphere."""
    if not o.directions:
        u = np.array(o.velocity)
        return [u / np.linalg.norm(u)]
    u = np.random.default_rng(o.seed).normal(size=(o.directions, 3))
    return list(u / np.linalg.norm(u, axis=1, keepdims=True))


def potentials(flow, todo, o):
    """One a direction. The flow is linear in the free stream: more than three directions cost three solutions."""
    def solve(u):
        return flow.solve(u, o.tolerance, o.iterations)

    if len(todo) <= 3:
        return [solve(u) for u in todo]
    return list(np.array(todo) @ np.array([solve(e) for e in np.eye(3)]))


def check_sum(flow, phi, k):
    density = (phi[flow.solid] * flow.area)[:, None] * flow.n
    e = flow.sum.check(density, flow.sum.apply(density), n=k)
    say(f"treecode against direct sums at {k} faces: relative error median {e.median:.1e}, p99 {e.p99:.1e}")


def write_samples(o, flow, points, cells, results):
    name = o.name or os.path.basename(o.mesh).split(".")[0]
    os.makedirs(o.sample, exist_ok=True)
    made = []
    for k, (u, c_p, u_t) in enumerate(results):
        s = Sample(name if len(results) == 1 else f"{name}_{k:03d}")
        s.boundary[o.boundary] = (points, cells, {})
        s.target, s.fields, s.globals = o.boundary, {"C_p": c_p, "U_t": u_t}, {"U_dir": u}
        s.lengths = {"L": o.length or (3 * flow.volume / (4 * np.pi)) ** (1 / 3)}
        path = os.path.join(o.sample, s.name + ".h5")
        if os.path.exists(path) and not o.force:
            stop(f"{path} is there already; --force replaces it, --name gives another name")
        s.write(path)
        made.append(s.name + ".h5")
    listed = os.path.join(o.sample, "samples.txt")
    before = open(listed).read().split("\n") if os.path.exists(listed) else []
    with open(listed + ".tmp", "w") as f:
        f.writelines(line + "\n" for line in dict.fromkeys([*filter(None, before), *made]))
    os.replace(listed + ".tmp", listed)
    say(f"{len(made)} samples of {len(cells)} faces in {o.sample}, listed in {listed}")


def run(o):
    import farfield
    from farfield.potential_flow import PanelFlow, weld

    if o.library:
        farfield.load(o.library)
    mesh = Mesh(o.mesh, o)
    points, cells = weld(mesh.points, mesh.cells)
    say(f"{o.mesh}: {len(mesh.off) - 1} cells, {len(cells)} triangles, {len(points)} distinct points")
    flow = PanelFlow(points, cells, near=o.near, rtol=o.rtol, say=say)
    report(flow)
    todo = directions(o)
    results = []
    phis = potentials(flow, todo, o)
    for u, phi in zip(todo, phis):
        u_t = flow.surface_velocity(phi)
        results.append((u, 1 - (u_t * u_t).sum(axis=1), u_t))
    if o.check:
        check_sum(flow, phis[0], o.check)
    _, c_p, u_t = results[0]
    force = flow.force(c_p)
    say(f"C_p {c_p.min():.3f} to {c_p.max():.3f}; force / integral of |C_p| = {np.linalg.norm(force):.1e} (exact: 0)")
    if o.out:
        fields = {"C_p": c_p, "U_t": u_t, "potential": phis[0]}
        mesh.write(o.out, {k: mesh.per_polygon(v, flow.all_areas) for k, v in fields.items()}, o)
        say(f"written to {o.out}; tools/render {o.out} picture.png --field C_p draws it")
    if o.sample:
        write_samples(o, flow, points, flow.cells, results)


def report(flow):
    if flow.turned:
        say("warning: normals pointed into the body; all faces were turned round")
    lost = int((~flow.solid).sum())
    if lost:
        say(f"warning: {lost} triangles without area carry no unknown; they take the nearest face's values")
    covered = int((flow.inside != 0).sum())
    if covered:
        say(f"warning: {covered} faces lie inside another part; values there mean nothing. Join overlapping parts first")
    say(f"volume {flow.volume:.6g}, {flow.n_parts} part{'s' if flow.n_parts > 1 else ''}; {flow.correction.nnz} near pairs, treecode theta "
        f"{flow.sum.info.theta:g} order {flow.sum.info.order}; row sums off by at most {flow.row_error:.1e} before correction")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter, prog="panel_flow")
    p.add_argument("mesh", metavar="MESH")
    p.add_argument("-o", "--out", help="result: .vtkhdf, .vtp or .h5")
    p.add_argument("--velocity", type=float, nargs=3, default=(1.0, 0.0, 0.0), metavar=("X", "Y", "Z"), help="free stream")
    p.add_argument("--scale", type=float, default=1.0, help="factor on coordinates")
    p.add_argument("--sample", metavar="DIR", help="write training samples there")
    p.add_argument("--directions", type=int, default=0, metavar="N", help="samples of N random directions in place of --velocity")
    p.add_argument("--seed", type=int, default=1, help="of the directions")
    p.add_argument("--name", help="of the samples; default: the mesh's file name")
    p.add_argument("--boundary", default="body", help="the boundary's name in samples")
    p.add_argument("--length", type=float, help="reference length L in samples; default: radius of the sphere of equal volume")
    p.add_argument("--force", action="store_true", help="replace files that are there")
    p.add_argument("--rtol", type=float, default=1e-3, help="relative error asked of the treecode (default 1e-3)")
    p.add_argument("--near", type=float, default=3.0, help="exact integrals within NEAR times a face's radius (default 3)")
    p.add_argument("--tolerance", type=float, default=1e-5, help="residual at which GMRES stops (default 1e-5)")
    p.add_argument("--iterations", type=int, default=200, help="most iterations of GMRES (default 200)")
    p.add_argument("--check", type=int, default=0, metavar="K", help="compare the treecode with direct sums at K faces")
    p.add_argument("--farfield", default=os.environ.get("FARFIELD"), help="the program; default: built in this repository, or PATH")
    p.add_argument("--library", default=os.environ.get("FARFIELD_LIB"), help="libfarfield.so; default: beside the program, or where the "
                   "loader looks")
    o = p.parse_args()
    for name, good in (("near", o.near >= 0), ("tolerance", 0 < o.tolerance < 1), ("iterations", o.iterations > 0),
                       ("directions", o.directions >= 0), ("scale", np.isfinite(o.scale) and o.scale > 0),
                       ("length", o.length is None or o.length > 0)):
        if not good:
            stop(f"--{name} {getattr(o, name)}: out of range")
    if not np.isfinite(o.velocity).all() or not np.any(o.velocity):
        stop(f"--velocity {' '.join(map(str, o.velocity))}: expected three finite numbers, not all 0")
    if o.out and os.path.exists(o.out) and not o.force:
        stop(f"{o.out} is there already; --force replaces it")
    o.farfield = program(o.farfield)
    return o


def main():
    o = arguments()
    try:
        import scipy  # noqa: F401
    except ImportError:
        stop("SciPy is missing: tools/setup installs it")
    from farfield import Error

    try:
        run(o)
    except (Error, Skip) as e:
        stop(f"{o.mesh}: {e}")
    except OSError as e:
        stop(str(e), 1)


if __name__ == "__main__":
    main()
