#!/usr/bin/env python3
"""Make the small meshes and the random-weight models of inputs/ (all but ellipsoid_flow.h5).

    tools/make_inputs.py [FOLDER]        default: inputs/

Everything follows from formulas and one fixed seed. Random-weight models have "random" in their names: they are
for trying the program out and for tests, their fields mean nothing.
"""
import argparse
import json
import os
import struct
import sys

import numpy as np

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import farfield_convert as fc  # noqa: E402

SEED = 7


# ---- shapes ------------------------------------------------------------------------------------------------------


def icosphere(splits):
    """Unit sphere of 20 * 4^splits triangles, outward winding: (points [n,3], triangles [m,3])."""
    g = (1 + 5**0.5) / 2
    p = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0), (0, -1, g), (0, 1, g), (0, -1, -g), (0, 1, -g),
         (g, 0, -1), (g, 0, 1), (-g, 0, -1), (-g, 0, 1)]
    t = [(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6),
         (7, 1, 8), (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10),
         (8, 6, 7), (9, 8, 1)]
    p = [np.array(v) / np.linalg.norm(v) for v in p]
    for _ in range(splits):
        middle = {}

        def mid(a, b):
            key = (min(a, b), max(a, b))
            if key not in middle:
                v = p[a] + p[b]
                middle[key] = len(p)
                p.append(v / np.linalg.norm(v))
            return middle[key]

        t = [f for a, b, c in t
             for ab, bc, ca in [(mid(a, b), mid(b, c), mid(c, a))]
             for f in ((a, ab, ca), (b, bc, ab), (c, ca, bc), (ab, bc, ca))]
    return np.array(p), np.array(t)


def rotation(angle_z, angle_y):
    cz, sz, cy, sy = np.cos(angle_z), np.sin(angle_z), np.cos(angle_y), np.sin(angle_y)
    return np.array([[cz, -sz, 0], [sz, cz, 0], [0, 0, 1]]) @ np.array([[cy, 0, sy], [0, 1, 0], [-sy, 0, cy]])


def ellipsoid_alpha(a, n=4001):
    """alpha_i = abc int_0^inf dl / ((a_i^2 + l) sqrt((a^2 + l)(b^2 + l)(c^2 + l))), by Simpson's rule after
    l = s^2 / (1 - s)^2, which makes the integrand smooth and zero at both ends."""
    s = np.linspace(0, 1, n)[:-1]
    lam = (s / (1 - s)) ** 2
    dl = 2 * s / (1 - s) ** 3
    root = np.sqrt(np.prod([ai * ai + lam for ai in a], axis=0))
    w = np.ones(n)
    w[1:-1:2], w[2:-1:2] = 4, 2
    return np.array([np.prod(a) * np.sum(w[:-1] * dl / ((ai * ai + lam) * root)) / (3 * (n - 1)) for ai in a])


def ellipsoid(a, rot, splits, u_dir):
    """An ellipsoid with the exact potential flow past it at the face centroids: points, cells, C_p, U_t."""
    q, cells = icosphere(splits)
    points = (q * a) @ rot.T
    alpha = ellipsoid_alpha(a)
    assert abs(alpha.sum() - 2) < 1e-6, alpha
    slip = rot @ np.diag(2 / (2 - alpha)) @ rot.T @ u_dir
    y = points[cells].mean(axis=1) @ rot / a
    n = (y / np.linalg.norm(y, axis=1, keepdims=True) / a) @ rot.T
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    v = slip - n * (n @ slip)[:, None]
    return points, cells, 1 - (v * v).sum(axis=1), v


def car_body(splits):
    """A closed car-like body: a rounded box whose roof line rises over the cabin. Length 4.4, wheels left out."""
    q, cells = icosphere(splits)
    box = np.sign(q) * np.abs(q) ** 0.6  # a rounded box: larger exponents are rounder
    x, y = 2.2 * box[:, 0], 0.85 * box[:, 1]
    cabin = 1 / (1 + np.exp(-(x + 0.75) / 0.16)) / (1 + np.exp((x - 1.35) / 0.22))
    top = 0.72 + 0.55 * cabin
    y = y * (1 - 0.12 * cabin * (box[:, 2] > 0) * np.clip(box[:, 2], 0, 1))
    z = np.where(box[:, 2] > 0, 0.55 + (top - 0.55) * box[:, 2], 0.55 + 0.35 * box[:, 2])
    return np.stack([x, y, z], axis=1), cells


def floor(x0, x1, n):
    """n x n points on z = 0, y from -11 to 11, as quads with upward normals (1-based ids go to OBJ)."""
    x, y = np.meshgrid(np.linspace(x0, x1, n), np.linspace(-11, 11, n), indexing="ij")
    points = np.stack([x.ravel(), y.ravel(), np.zeros(n * n)], axis=1)
    i, j = np.meshgrid(np.arange(n - 1), np.arange(n - 1), indexing="ij")
    a = (i * n + j).ravel()
    return points, np.stack([a, a + n, a + n + 1, a + 1], axis=1)


def naca0012(n):
    """A closed foil of chord 1 with n edges, clockwise from the trailing edge, so that normals point outwards."""
    beta = np.linspace(0, 2 * np.pi, n + 1)[:-1]
    x = (1 + np.cos(beta)) / 2
    t = 0.6 * (0.2969 * np.sqrt(x) - 0.1260 * x - 0.3516 * x**2 + 0.2843 * x**3 - 0.1036 * x**4)
    return np.stack([x, np.where(beta <= np.pi, -t, t)], axis=1)


def circle(n, radius, center):
    """A closed circle of n edges, counter-clockwise: normals point to its middle, where the flow is."""
    b = np.linspace(0, 2 * np.pi, n + 1)[:-1]
    return np.stack([center[0] + radius * np.cos(b), center[1] + radius * np.sin(b)], axis=1)


# ---- files -------------------------------------------------------------------------------------------------------


def write_vtp(path, points, cells, cell_data):
    """Triangles as VTP, raw appended data, UInt64 sizes; floats are float32, ids Int32."""
    arrays = []

    def array(a, name, kind, n_comp=1):
        offset = sum(len(d) + 8 for d in arrays)
        arrays.append(np.ascontiguousarray(a, dtype={"Float32": "<f4", "Int32": "<i4"}[kind]).tobytes())
        return (f'<DataArray type="{kind}" Name="{name}" NumberOfComponents="{n_comp}" format="appended" '
                f'offset="{offset}"/>')

    data = "\n".join(array(a, name, "Float32", 3 if a.ndim == 2 else 1) for name, a in cell_data.items())
    text = f"""<?xml version="1.0"?>
<VTKFile type="PolyData" version="1.0" byte_order="LittleEndian" header_type="UInt64">
<PolyData>
<Piece NumberOfPoints="{len(points)}" NumberOfVerts="0" NumberOfLines="0" NumberOfStrips="0" NumberOfPolys="{len(cells)}">
<CellData>
{data}
</CellData>
<Points>
{array(points, "Points", "Float32", 3)}
</Points>
<Polys>
{array(cells, "connectivity", "Int32")}
{array(np.arange(1, len(cells) + 1) * 3, "offsets", "Int32")}
</Polys>
</Piece>
</PolyData>
<AppendedData encoding="raw">
_"""
    with open(path, "wb") as f:
        f.write(text.encode())
        for d in arrays:
            f.write(struct.pack("<Q", len(d)) + d)
        f.write(b"\n</AppendedData>\n</VTKFile>\n")


def write_stl(path, points, cells):
    """Binary STL; the normal of each facet follows its corners."""
    p = points[cells].astype("<f4")
    n = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    n /= np.linalg.norm(n, axis=1, keepdims=True)
    facets = np.zeros(len(cells), dtype=[("n", "<f4", 3), ("p", "<f4", (3, 3)), ("attribute", "<u2")])
    facets["n"], facets["p"] = n, p
    with open(path, "wb") as f:
        f.write(b"farfield car-like body, metres".ljust(80) + struct.pack("<I", len(cells)) + facets.tobytes())


def write_obj(path, title, points, cells, kind):
    """kind f: polygons, l: lines."""
    with open(path, "w") as f:
        f.write(f"# {title}\n")
        for p in points:
            f.write("v " + " ".join(f"{v:.7g}" for v in (*p, 0)[:3]) + "\n")
        for c in cells:
            f.write(kind + " " + " ".join(str(i + 1) for i in c) + "\n")


# ---- models with random weights ----------------------------------------------------------------------------------


def leaves(spec, prefix=""):
    """Nested name -> rank as dotted name -> rank."""
    out = {}
    for name, value in (spec or {}).items():
        out.update(leaves(value, f"{prefix}{name}.") if isinstance(value, dict) else {prefix + name: value})
    return out


def model_shapes(config):
    """State-dict names and shapes of a GLOBE with these constructor arguments (docs/formats.md)."""
    shapes = {"reference_area": ()}
    lengths = config["reference_length_names"]
    fields = leaves(config["output_field_ranks"])
    glob = list(leaves(config.get("global_data_ranks")).values())
    n_scalars, n_vectors = config.get("n_latent_scalars", 12), config.get("n_latent_vectors", 6)
    n_comm = config.get("n_communication_hyperlayers", 2)
    pade = config.get("network_type", "pade") == "pade"
    net = "network.combined_mlp.layers" if pade else "network.0.layers"
    for layer in range(n_comm + 1):
        for bc, spec in config["boundary_source_data_ranks"].items():
            source = list(leaves(spec).values()) + [1]  # and the normal
            if layer > 0:
                source += [0] * n_scalars + [1] * n_vectors
            vectors = sum(source) + sum(glob)  # without r
            pairs = vectors * (vectors + 1) // 2
            scalars = len(source) - sum(source) + len(glob) - sum(glob) + len(lengths) * (len(lengths) - 1) // 2
            n_in = scalars + vectors + 1 + pairs * config.get("n_spherical_harmonics", 4)
            out = [0] * (len(lengths) + n_scalars) + [1] * n_vectors if layer < n_comm else list(fields.values())
            n_out = sum(1 + rank * 2 * vectors for rank in out) * (2 if pade else 1)
            sizes = [n_in, *config.get("hidden_layer_sizes", [64, 64, 64]), n_out]
            for ref in lengths:
                base = f"kernel_layers.{layer}.{bc}"
                shapes[f"{base}.log_scalefactors.{ref}"] = (1,)
                if pade:
                    shapes[f"{base}.kernels.{ref}.network._one"] = ()
                for i in range(len(sizes) - 1):
                    shapes[f"{base}.kernels.{ref}.{net}.{2 * i}.weight"] = (sizes[i + 1], sizes[i])
                    shapes[f"{base}.kernels.{ref}.{net}.{2 * i}.bias"] = (sizes[i + 1],)
    for i, name in enumerate(sorted(fields, key=str.encode)):
        shapes[f"final_field_transforms.{i}.weight"] = (1, 1)
        if fields[name] == 0:
            shapes[f"final_field_transforms.{i}.bias"] = (1,)
    return shapes


def random_model(path, config, seed):
    rng = np.random.default_rng(seed)
    tensors = {}
    for key, shape in model_shapes(config).items():
        if key == "reference_area":
            value = config["reference_area"]
        elif key.endswith("_one") or key.startswith("final_field") and key.endswith("weight"):
            value = np.ones(shape)
        elif "layers" in key and key.endswith("weight"):
            value = rng.standard_normal(shape) / np.sqrt(shape[1])
        else:
            value = 0.2 * rng.standard_normal(shape)
        tensors[key] = np.asarray(value, dtype=np.float32).reshape(shape)
    fc.write_model(path, config, tensors, f"random weights, seed {seed}")


CAR = {"n_spatial_dims": 3, "output_field_ranks": {"C_p": 0, "C_f": 1},
       "boundary_source_data_ranks": {"vehicle": {}, "no_slip_floor": {}, "slip_floor": {}},
       "reference_length_names": ["L_ref", "delta_turb"], "reference_area": 8.0, "global_data_ranks": None,
       "n_communication_hyperlayers": 2, "n_latent_scalars": 4, "n_latent_vectors": 2, "smoothing_radius": 1e-8,
       "hidden_layer_sizes": [24, 24], "n_spherical_harmonics": 4, "theta": 1.0, "leaf_size": 1,
       "network_type": "pade", "self_regularization_beta": 0.01, "latent_compression_scale": 100.0,
       "expand_far_targets": True}
FOIL = {"n_spatial_dims": 2, "output_field_ranks": {"C_p": 0, "U/U_inf": 1},
        "boundary_source_data_ranks": {"no_slip": {}, "freestream": {}},
        "reference_length_names": ["chord", "delta_FS"], "reference_area": 3.0,
        "global_data_ranks": {"U_inf_dir": 1, "ln_Re": 0}, "n_communication_hyperlayers": 2, "n_latent_scalars": 3,
        "n_latent_vectors": 2, "smoothing_radius": 1e-8, "hidden_layer_sizes": [20, 20],
        "n_spherical_harmonics": 3, "theta": 1.0, "leaf_size": 2, "network_type": "pade",
        "self_regularization_beta": None, "latent_compression_scale": None, "expand_far_targets": False}


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("folder", nargs="?", default=os.path.join(os.path.dirname(__file__), "..", "inputs"))
    folder = p.parse_args().folder
    os.makedirs(folder, exist_ok=True)

    def at(name):
        return os.path.join(folder, name)

    axes = np.array([1.7, 1.0, 1 / 1.7])
    points, cells, c_p, u_t = ellipsoid(axes, rotation(0.5, 0.3), 4, np.array([1.0, 0, 0]))
    write_vtp(at("ellipsoid.vtp"), points, cells, {"C_p_exact": c_p, "U_t_exact": u_t})

    write_stl(at("car_body.stl"), *car_body(3))
    write_obj(at("car_floor_no_slip.obj"), "floor, no slip", *floor(-2.339, 10, 14), "f")
    write_obj(at("car_floor_slip.obj"), "floor, slip", *floor(-10, -2.339, 14), "f")
    random_model(at("car_random.h5"), CAR, SEED)

    for name, title, curve in (("foil.obj", "NACA 0012, chord 1", naca0012(160)),
                               ("foil_freestream.obj", "circle of radius 5", circle(60, 5, (0.5, 0)))):
        n = len(curve)
        write_obj(at(name), title, curve, [(i, (i + 1) % n) for i in range(n)], "l")
    random_model(at("foil_random.h5"), FOIL, SEED)
    print(json.dumps({n: os.path.getsize(at(n)) for n in sorted(os.listdir(folder))}, indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main())
