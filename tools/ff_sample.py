"""Training samples (docs/formats.md, "Training samples"): writing, reading back, checking. Used by tools/make_samples.py."""
import os

import h5py
import numpy as np

FORMAT, VERSION = "farfield-sample", 1


class Skip(Exception):
    """This sample cannot be made; the text says why."""


def flat_name(name):
    """HDF5 takes '/' for a path: stored as '_', the true name beside it."""
    return name.replace("/", "_")


def true_name(name, dataset):
    """The name a dataset was given before HDF5 got it; the program writes it as bytes, this module as text."""
    given = dataset.attrs.get("original_name", name)
    return given.decode() if isinstance(given, bytes) else str(given)


def _put(group, name, value):
    d = group.create_dataset(flat_name(name), data=value)
    if flat_name(name) != name:
        d.attrs["original_name"] = name


class Sample:
    """boundary: name -> (points [n,3], cells [m,D], {field: [m] or [m,D]}); lengths, globals: name -> number or vector;
    target: name of the boundary whose face centroids the fields belong to, or points [k,3]; fields: name -> [k] or [k,D],
    NaN where unknown; weights [k] or None: measure of the targets in the loss (areas of faces if None)."""

    def __init__(self, name, dim=3):
        self.name, self.dim = name, dim
        self.boundary, self.lengths, self.globals, self.fields = {}, {}, {}, {}
        self.target, self.weights, self.notes = None, None, []

    def check(self):
        for b, (points, cells, fields) in self.boundary.items():
            if len(cells) == 0:
                raise Skip(f"boundary {b} has no faces")
            if not np.isfinite(points).all():
                raise Skip(f"boundary {b}: {int((~np.isfinite(points)).any(axis=1).sum())} points are not finite")
            if cells.min() < 0 or cells.max() >= len(points):
                raise Skip(f"boundary {b}: cells name points that are not there")
            for f, v in fields.items():
                if len(v) != len(cells):
                    raise Skip(f"boundary {b}: field {f} has {len(v)} values for {len(cells)} faces")
                if not np.isfinite(v).all():
                    raise Skip(f"boundary {b}: source field {f} has values that are not finite")
        n = len(self.boundary[self.target][1]) if isinstance(self.target, str) else len(self.target)
        if not self.fields:
            raise Skip("no target fields")
        for f, v in self.fields.items():
            if len(v) != n:
                raise Skip(f"target field {f} has {len(v)} values for {n} targets")
            bad = int((~np.isfinite(v)).reshape(n, -1).any(axis=1).sum())
            if bad == n:
                raise Skip(f"target field {f} has no finite value")
            if bad and isinstance(self.target, str):
                self.notes.append(f"{bad} of {n} values of {f} are unknown (NaN)")
        for kind, values in (("length", self.lengths), ("global", self.globals)):
            for k, v in values.items():
                if not np.isfinite(v).all() or (kind == "length" and not v > 0):
                    raise Skip(f"{kind} {k} = {v}")

    def write(self, path):
        """The whole file or none: a run that is killed leaves no half sample."""
        self.check()
        part = path + ".tmp"
        with h5py.File(part, "w") as f:
            f.attrs.update(format=FORMAT, format_version=VERSION, name=self.name, dim=self.dim)
            for group, values in (("lengths", self.lengths), ("global", self.globals)):
                g = f.create_group(group)
                for k, v in values.items():
                    g.attrs[k] = np.asarray(v, np.float64)
            for b, (points, cells, fields) in self.boundary.items():
                g = f.create_group("boundary/" + flat_name(b))
                g["points"] = np.asarray(points, np.float64)
                g["cells"] = np.asarray(cells, np.int64)
                cell_data = g.create_group("cell_data")
                for k, v in fields.items():
                    _put(cell_data, k, np.asarray(v, np.float32))
            g = f.create_group("targets")
            if isinstance(self.target, str):
                g.attrs["boundary"] = self.target
            else:
                g["points"] = np.asarray(self.target, np.float64)
            if self.weights is not None:
                g["weights"] = np.asarray(self.weights, np.float64)
            fields = g.create_group("fields")
            for k, v in self.fields.items():
                _put(fields, k, np.asarray(v, np.float32))
        os.replace(part, path)


def is_sample(path):
    try:
        with h5py.File(path) as f:
            return f.attrs.get("format") == FORMAT and f.attrs["format_version"] == VERSION and "targets/fields" in f
    except (OSError, KeyError):
        return False


def face_geometry(points, cells):
    """Centroids [m,3], vector areas [m,3] of triangles, or of edges (dim 2; normal (-dy, dx))."""
    t = np.asarray(points, np.float64)[cells]
    if cells.shape[1] == 3:
        return t.mean(axis=1), np.cross(t[:, 1] - t[:, 0], t[:, 2] - t[:, 0]) / 2
    d = t[:, 1] - t[:, 0]
    return t.mean(axis=1), np.stack([-d[:, 1], d[:, 0], 0 * d[:, 0]], axis=1)


def turn_outwards(points, cells):
    """Cells wound so that the enclosed volume (area) is positive, and whether they were turned. Open surfaces too: by the
    volume between the faces and the middle of the box."""
    x, va = face_geometry(points, cells)
    used = np.asarray(points, np.float64)[np.unique(cells)]
    if np.sum((x - (used.min(axis=0) + used.max(axis=0)) / 2) * va) >= 0:
        return cells, False
    return cells[:, ::-1].copy(), True
