#!/usr/bin/env python3
"""Draw a result: a PNG of the surface coloured by a field, without a display or a graphics driver.

    tools/render.py FILE [OUT.png] [--field C_p] [--view iso|front|back|left|right|top|bottom|AZ,EL] [--range LO HI]

FILE: .vtkhdf, .vtp or .h5 as farfield writes them (VTKHDF and VTP PolyData of others too); surfaces, curves, clouds.
"""
import argparse
import base64
import os
import re
import struct
import sys
import xml.etree.ElementTree as ET
import zlib

import numpy as np

VIEWS = {"iso": (-125, 22), "front": (180, 0), "back": (0, 0), "left": (90, 0), "right": (-90, 0), "top": (-90, 89.9),
         "bottom": (-90, -89.9)}
NO_CELLS = (np.zeros(1, np.int64), np.zeros(0, np.int64))


class Mesh:
    """points [n,3]; kind "polygons", "lines" or "vertices"; off, conn: CSR of the cells; cell and point fields."""

    def __init__(self, points, cells, cell_fields, point_fields):
        self.points = np.asarray(points, np.float64).reshape(-1, 3)
        self.kind = next((k for k in ("polygons", "lines", "vertices") if len(cells.get(k, NO_CELLS)[0]) > 1), "vertices")
        self.off, self.conn = (np.asarray(a, np.int64) for a in cells.get(self.kind, NO_CELLS))
        before = {"vertices": [], "lines": ["vertices"], "polygons": ["vertices", "lines"]}[self.kind]
        first = sum(len(cells.get(k, NO_CELLS)[0]) - 1 for k in before)
        n = len(self.off) - 1
        self.cell = {k: np.asarray(v, np.float64)[first:first + n] for k, v in cell_fields.items()}
        self.point = {k: np.asarray(v, np.float64) for k, v in point_fields.items()}


# ---- reading -----------------------------------------------------------------------------------------------------


def read_h5(path):
    import h5py

    with h5py.File(path) as f:
        def fields(group):
            out = {}
            for name, d in f.get(group, {}).items():
                if d.dtype.kind in "fiu":
                    given = d.attrs.get("original_name", name)
                    out[given.decode() if isinstance(given, bytes) else str(given)] = d[()]
            return out

        if "VTKHDF" not in f:
            kind = {3: "polygons", 2: "lines"}.get(int(f.attrs["dim"]), "vertices")
            return Mesh(f["points"][()], {kind: (f["cells/offsets"][()], f["cells/connectivity"][()])},
                        fields("cell_data"), fields("point_data"))
        g = f["VTKHDF"]
        if "Steps" in g or len(g["NumberOfPoints"]) != 1:
            sys.exit(f"{path}: several parts or time steps; convert it first: farfield convert {path} one.vtkhdf")
        cells = {k.lower(): (g[k]["Offsets"][()], g[k]["Connectivity"][()]) for k in ("Vertices", "Lines", "Polygons")}
        return Mesh(g["Points"][()], cells, fields("VTKHDF/CellData"), fields("VTKHDF/PointData"))


def vtp_array(node, head, appended):
    """Values of a DataArray. head: (byte order, header word, compressed); appended: (bytes, is base64)."""
    order, word, packed = head
    dtype = np.dtype(order + {"Int": "i", "UIn": "u", "Flo": "f"}[node.get("type")[:3]]
                     + str(int("".join(c for c in node.get("type") if c.isdigit())) // 8))
    how = node.get("format", "ascii")
    if how == "ascii":
        return np.array((node.text or "").split(), np.float64 if dtype.kind == "f" else np.int64)
    raw, text = (appended[0][int(node.get("offset")):], appended[1]) if how == "appended" else (node.text.strip().encode(), True)
    size = struct.calcsize(word)

    def take(n):  # n bytes from the front; base64 in whole groups of four characters
        nonlocal raw
        if not text:
            out, raw = raw[:n], raw[n:]
            return out
        chars = (n + 2) // 3 * 4
        out, raw = base64.b64decode(raw[:chars])[:n], raw[chars:]
        return out

    if not packed:
        if not text:
            n = struct.unpack(order + word, take(size))[0]
            return np.frombuffer(take(n), dtype)
        n = struct.unpack(order + word, base64.b64decode(raw[:(size + 2) // 3 * 4])[:size])[0]
        return np.frombuffer(take(size + n)[size:], dtype)
    blocks = struct.unpack(order + word, (base64.b64decode(raw[:16])[:size] if text else raw[:size]))[0]
    sizes = struct.unpack(f"{order}{3 + blocks}{word}", take(size * (3 + blocks)))[3:]
    body = take(sum(sizes))
    ends = np.cumsum((0,) + sizes)
    return np.frombuffer(b"".join(zlib.decompress(body[a:b]) for a, b in zip(ends, ends[1:])), dtype)


def read_vtp(path):
    with open(path, "rb") as f:
        data = f.read()
    xml, _, rest = data.partition(b"<AppendedData")
    if rest:
        xml += b"</VTKFile>"
    root = ET.fromstring(xml)
    head = ("<" if root.get("byte_order", "LittleEndian")[0] == "L" else ">", "Q" if root.get("header_type") == "UInt64" else "I",
            bool(root.get("compressor")))
    appended = (rest[rest.find(b"_") + 1:], b"base64" in rest[:rest.find(b">")])
    pieces = root.findall("PolyData/Piece")
    if len(pieces) != 1:
        sys.exit(f"{path}: {len(pieces)} pieces; convert it first: farfield convert {path} one.vtkhdf")
    piece = pieces[0]

    def arrays(section):
        out = {}
        for a in piece.findall(section + "/DataArray"):
            n = int(a.get("NumberOfComponents", "1"))
            v = vtp_array(a, head, appended)
            out[a.get("original_name") or a.get("Name")] = v.reshape(-1, n) if n > 1 else v
        return out

    cells = {}
    for section, kind in (("Verts", "vertices"), ("Lines", "lines"), ("Polys", "polygons")):
        if int(piece.get("NumberOf" + section, "0")) > 0:
            a = arrays(section)
            cells[kind] = (np.concatenate(([0], a["offsets"])), a["connectivity"])
    return Mesh(list(arrays("Points").values())[0], cells, arrays("CellData"), arrays("PointData"))


def read(path):
    if not os.path.exists(path):
        sys.exit(f"{path}: no such file")
    try:
        return read_vtp(path) if path.lower().endswith(".vtp") else read_h5(path)
    except (OSError, KeyError, ValueError, IndexError, struct.error, zlib.error, ET.ParseError) as e:
        sys.exit(f"{path}: cannot be read: {e}")


# ---- geometry ----------------------------------------------------------------------------------------------------


def triangulate(off, conn):
    """Fans: corners [m,3] and the cell of each triangle."""
    n = np.diff(off)
    tris, cells = [], []
    for size in np.unique(n[n >= 3]):
        which = np.flatnonzero(n == size)
        ids = conn[off[which][:, None] + np.arange(size)]
        for i in range(1, size - 1):
            tris.append(ids[:, [0, i, i + 1]])
            cells.append(which)
    if not tris:
        return np.zeros((0, 3), np.int64), np.zeros(0, np.int64)
    return np.concatenate(tris), np.concatenate(cells)


def drop_repeated(points, tri, cell):
    """Without triangles that occur before, in either winding: two in one place fight for each pixel."""
    _, same = np.unique(points, axis=0, return_inverse=True)
    _, first = np.unique(np.sort(same.reshape(-1)[tri], axis=1), axis=0, return_index=True)
    keep = np.sort(first)
    return tri[keep], cell[keep]


def normalised(v):
    return v / np.maximum(np.linalg.norm(v, axis=-1, keepdims=True), 1e-300)


def corner_normals(points, tri, crease_deg=40):
    """Face normals [m,3], and normals at corners [m,3,3]: the mean round the point unless the surface has an edge."""
    p = points[tri]
    area = np.cross(p[:, 1] - p[:, 0], p[:, 2] - p[:, 0])
    face = normalised(area)
    _, same = np.unique(points, axis=0, return_inverse=True)
    at = same.reshape(-1)[tri]
    total = np.zeros((at.max() + 1 if len(at) else 0, 3))
    for k in range(3):
        for j in range(3):
            total[:, j] += np.bincount(at[:, k], area[:, j], len(total))
    smooth = normalised(total)[at]
    sharp = np.einsum("mkj,mj->mk", smooth, face) < np.cos(np.radians(crease_deg))
    return face, np.where(sharp[..., None], face[:, None], smooth)


class Camera:
    """Perspective from azimuth and elevation in degrees, z up. The points fill the picture left of the colour bar."""

    def __init__(self, points, azimuth, elevation, width, height, margin=0.05, right_edge=0.89):
        a, e = np.radians([azimuth, elevation])
        back = np.array([np.cos(e) * np.cos(a), np.cos(e) * np.sin(a), np.sin(e)])
        right = normalised(np.cross([0.0, 0.0, 1.0], back))
        self.axes = np.array([right, np.cross(back, right), back])
        self.centre = (points.min(0) + points.max(0)) / 2
        self.distance = 4 * max(np.linalg.norm(points.max(0) - points.min(0)), 1e-30)
        self.size = np.array([width * right_edge, height])
        self.scale, self.shift = 1.0, np.zeros(2)
        xy = self.project(points)[:, :2]
        lo, hi = xy.min(0), xy.max(0)
        self.scale = float(np.min(self.size * (1 - 2 * margin) / np.maximum(hi - lo, 1e-30)))
        self.shift = self.size / 2 - self.scale * (lo + hi) / 2

    def project(self, points):
        """Pixels x (to the right), y (upwards) and depth (larger is farther)."""
        q = (points - self.centre) @ self.axes.T
        depth = self.distance - q[:, 2]
        xy = q[:, :2] * (self.distance / depth)[:, None] * self.scale + self.shift
        return np.column_stack((xy, depth))


# ---- z-buffer ----------------------------------------------------------------------------------------------------


def rasterise(screen, tri, width, height):
    """Nearest triangle of each pixel, -1 where there is none, and depths. screen: pixels and depth of the points."""
    nearest = np.full(width * height, -1, np.int64)
    zbuf = np.full(width * height, np.inf)
    p = screen[tri]
    lo = np.clip(np.ceil(p[..., :2].min(1) - 0.5), 0, [width, height]).astype(np.int64)
    hi = np.clip(np.floor(p[..., :2].max(1) - 0.5), -1, [width - 1, height - 1]).astype(np.int64)
    span = (hi - lo + 1).max(1)
    seen = np.flatnonzero((hi >= lo).all(1))
    level = np.ceil(np.log2(span[seen])).astype(int)  # triangles of about one size share a window of 2^level pixels
    for k in np.unique(level):
        members = seen[level == k]
        w = 1 << k
        step = max(1, (1 << 21) // (w * w))
        for i in range(0, len(members), step):
            draw(p, lo, members[i:i + step], w, width, height, nearest, zbuf)
    return nearest.reshape(height, width), zbuf.reshape(height, width)


def draw(p, lo, t, w, width, height, nearest, zbuf):
    a, b, c = (p[t, k] for k in range(3))
    det = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (c[:, 0] - a[:, 0]) * (b[:, 1] - a[:, 1])
    ok = np.abs(det) > 1e-12
    t, a, b, c, det = t[ok], a[ok], b[ok], c[ok], det[ok]
    x = lo[t, 0, None, None] + np.arange(w)[None, None, :]
    y = lo[t, 1, None, None] + np.arange(w)[None, :, None]
    px, py = x + 0.5 - a[:, 0, None, None], y + 0.5 - a[:, 1, None, None]
    e, f = (b - a)[:, :, None, None], (c - a)[:, :, None, None]
    u = (px * f[:, 1] - py * f[:, 0]) / det[:, None, None]
    v = (py * e[:, 0] - px * e[:, 1]) / det[:, None, None]
    inside = (u >= -1e-9) & (v >= -1e-9) & (u + v <= 1 + 1e-9) & (x < width) & (y < height)
    z = (a[:, 2, None, None] + u * e[:, 2] + v * f[:, 2])[inside]
    pix = np.broadcast_to(y * width + x, inside.shape)[inside]
    owner = np.broadcast_to(t[:, None, None], inside.shape)[inside]
    near = z < zbuf[pix]
    z, pix, owner = z[near], pix[near], owner[near]
    order = np.argsort(-z, kind="stable")  # of writes to one pixel the last one stays: the nearest
    zbuf[pix[order]] = z[order]
    nearest[pix[order]] = owner[order]


def weights_of(screen, tri, nearest):
    """Barycentric weights [n,3] of the covered pixels."""
    y, x = np.nonzero(nearest >= 0)
    a, b, c = (screen[tri[nearest[y, x], k], :2] for k in range(3))
    q, e, f = np.column_stack((x + 0.5, y + 0.5)) - a, b - a, c - a
    det = e[:, 0] * f[:, 1] - f[:, 0] * e[:, 1]
    u = (q[:, 0] * f[:, 1] - q[:, 1] * f[:, 0]) / det
    v = (q[:, 1] * e[:, 0] - q[:, 0] * e[:, 1]) / det
    w = np.clip(np.column_stack((1 - u - v, u, v)), 0, 1)
    return w / w.sum(1, keepdims=True)


def outline(zbuf, size):
    """Pixels at a jump in depth, on the far side: thin dark lines round shapes."""
    finite = np.isfinite(zbuf)
    z = np.where(finite, zbuf, zbuf[finite].max(initial=0) + size)
    edge = np.zeros(z.shape, bool)
    for first, second in ((np.s_[:-1, :], np.s_[1:, :]), (np.s_[:, :-1], np.s_[:, 1:])):
        jump = z[second] - z[first]
        edge[first] |= jump < -0.03 * size
        edge[second] |= jump > 0.03 * size
    return edge


# ---- picture -----------------------------------------------------------------------------------------------------


def scalar(values, component):
    if values.ndim == 1:
        return values, ""
    if component == "magnitude":
        return np.linalg.norm(values, axis=1), " (magnitude)"
    k = int(component)
    if not 0 <= k < values.shape[1]:
        sys.exit(f"component {k}, expected 0 to {values.shape[1] - 1}")
    return values[:, k], f" ({'xyz'[k] if values.shape[1] <= 3 else k})"


def choose_field(mesh, wanted, component):
    """Values, whether they belong to cells, and the label."""
    have = [(n, v, True) for n, v in mesh.cell.items()] + [(n, v, False) for n, v in mesh.point.items()]
    have = [h for h in have if len(h[1]) > 0]
    if wanted is None:
        names = [h[0] for h in have]
        wanted = next((n for n in names if n.split(".")[-1].lower() in ("c_p", "cp")), None)
        wanted = wanted or next((n for n in names if n not in ("patch_id",)), names[0] if names else None)
        if wanted is None:
            return None, True, ""
    for name, values, of_cells in have:
        if wanted in (name, name.replace("/", "_").replace(".", "_")) or name.split(".")[-1] == wanted:
            v, suffix = scalar(values, component)
            return v, of_cells, name + suffix
    sys.exit(f'no field "{wanted}"; there are: ' + ", ".join(sorted(h[0] for h in have)))


def label_of(name):
    """C_p, U_t and their like as a formula, other names as they are."""
    m = re.fullmatch(r"([A-Za-z]{1,2})_([A-Za-z0-9]{1,3})( .*)?", name)
    if m is None:
        return name.replace("$", r"\$")
    symbol = f"{m[1]}_{{{m[2]}}}"
    return f"$|{symbol}|$" if m[3] == " (magnitude)" else f"${symbol}${m[3] or ''}"


def limits(mesh, values, of_cells, asked):
    """The range asked for, or all but 0.5 % of the surface at either end: a few extreme faces, often slivers, would
    hide everything else."""
    if asked is not None:
        return tuple(asked)
    weight = np.ones(len(values))
    if of_cells and mesh.kind == "polygons" and len(values) == len(mesh.off) - 1:
        tri, cell = triangulate(mesh.off, mesh.conn)
        a, b, c = (mesh.points[tri[:, k]] for k in range(3))
        weight = np.bincount(cell, np.linalg.norm(np.cross(b - a, c - a), axis=1), len(values))
    good = np.isfinite(values) & (weight > 0)
    v, weight = values[good], weight[good]
    if len(v) == 0:
        return 0.0, 1.0
    order = np.argsort(v)
    share = np.cumsum(weight[order]) / weight.sum()
    lo, hi = (v[order[min(np.searchsorted(share, q), len(v) - 1)]] for q in (0.005, 0.995))
    return (lo, hi) if hi > lo else (lo - 0.5, hi + 0.5)


def shade(normal, to_eye):
    """Brightness of the covered pixels: one light beside the eye, one from above, both sides lit. Much of it comes from
    everywhere, so that colours can be compared with those of the bar."""
    n = np.where(np.sum(normal * to_eye, axis=1, keepdims=True) < 0, -normal, normal)
    head = np.clip(n @ to_eye, 0, 1)
    key = np.clip(n @ normalised(to_eye + [0.25, 0.35, 1.1]), 0, 1)
    return np.clip(0.6 + 0.22 * head + 0.22 * key, 0, 1)[:, None]


def draw_surface(mesh, values, of_cells, args, cmap, norm):
    tri, cell = drop_repeated(mesh.points, *triangulate(mesh.off, mesh.conn))
    if len(tri) == 0:
        sys.exit("the surface has no faces")
    w, h = args.width * args.samples, args.height * args.samples
    used = np.unique(tri)
    camera = Camera(mesh.points[used], *args.view, w, h)
    screen = camera.project(mesh.points)
    nearest, zbuf = rasterise(screen, tri, w, h)
    covered = nearest >= 0
    t = nearest[covered]
    weight = weights_of(screen, tri, nearest)
    face, corner = corner_normals(mesh.points, tri)
    normal = normalised(np.einsum("nk,nkj->nj", weight, corner[t]))
    if values is None:
        colour = np.full((len(t), 3), 0.75)
    else:
        v = values[cell[t]] if of_cells else np.sum(weight * values[tri[t]], axis=1)
        colour = np.where(np.isfinite(v)[:, None], cmap(norm(np.where(np.isfinite(v), v, 0)))[:, :3], 0.6)
    image = np.ones((h, w, 3))
    image[covered] = np.clip(colour * shade(normal, camera.axes[2]), 0, 1)
    image[outline(zbuf, camera.distance / 4)] *= 0.45
    k = args.samples
    return image.reshape(args.height, k, args.width, k, 3).mean((1, 3)), camera


def figure(args):
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    plt.rcParams.update({"font.size": 17 * args.width / 1600, "axes.linewidth": args.width / 1600})
    fig = plt.figure(figsize=(args.width / 100, args.height / 100), dpi=100)
    if args.title:
        fig.text(0.5, 0.96, args.title, ha="center", va="center", fontsize="large")
    return plt, fig


def colour_bar(plt, fig, norm, cmap, label, values):
    if not label:
        return
    axis = fig.add_axes([0.905, 0.2, 0.015, 0.6])
    below, above = np.nanmin(values) < norm.vmin, np.nanmax(values) > norm.vmax
    bar = fig.colorbar(plt.cm.ScalarMappable(norm, cmap), cax=axis,
                       extend={(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[below, above])
    bar.ax.set_yscale("linear")  # also where the colours change faster on one side of zero
    bar.ax.set_title(label, pad=40 * fig.get_figwidth() / 16, fontsize="large", wrap=False)  # beside the bar it would be cut


def show_axes(fig, camera):
    """Directions of x, y and z in the lower left corner."""
    axis = fig.add_axes([0.01, 0.01, 0.1, 0.1 * fig.get_figwidth() / fig.get_figheight()])
    axis.set(xlim=(-1.4, 1.4), ylim=(-1.4, 1.4))
    axis.set_axis_off()
    for k, name in enumerate("xyz"):
        x, y = camera.axes[0][k], camera.axes[1][k]
        if np.hypot(x, y) < 0.05:
            continue
        axis.annotate("", (x, y), (0, 0), arrowprops={"arrowstyle": "-|>", "color": "0.25", "shrinkA": 0, "shrinkB": 0})
        n = 1 + 0.25 / np.hypot(x, y)
        axis.text(n * x, n * y, f"${name}$", ha="center", va="center", color="0.25")


def show_surface(plt, fig, mesh, values, of_cells, args, cmap, norm):
    axis = fig.add_axes([0, 0, 1, 1], zorder=-1)
    image, camera = draw_surface(mesh, values, of_cells, args, cmap, norm)
    axis.imshow(image, origin="lower", interpolation="none", aspect="auto")
    axis.set_axis_off()
    show_axes(fig, camera)


def show_curve(plt, fig, mesh, values, of_cells, args, cmap, norm):
    axis = fig.add_axes([0.1, 0.12, 0.77, 0.8])
    a, b = mesh.conn[mesh.off[:-1]], mesh.conn[mesh.off[1:] - 1]
    lines = plt.matplotlib.collections.LineCollection(np.stack((mesh.points[a, :2], mesh.points[b, :2]), 1), linewidths=4,
                                                      capstyle="round", cmap=cmap, norm=norm)
    if values is not None:
        lines.set_array(values if of_cells else (values[a] + values[b]) / 2)
    axis.add_collection(lines)
    axis.autoscale()
    axis.margins(0.05)
    axis.set_aspect("equal")
    axis.set_xlabel("x")
    axis.set_ylabel("y")


def show_cloud(plt, fig, mesh, values, of_cells, args, cmap, norm):
    if len(mesh.points) == 0:
        sys.exit("the file has no points")
    camera = Camera(mesh.points, *args.view, args.width, args.height)
    screen = camera.project(mesh.points)
    order = np.argsort(-screen[:, 2])  # nearer points over farther ones
    axis = fig.add_axes([0, 0, 1, 1], zorder=-1)
    axis.scatter(screen[order, 0], screen[order, 1], c=None if values is None else values[order],
                 s=float(np.clip(2e5 / len(order), 1, 40)), cmap=None if values is None else cmap,
                 norm=None if values is None else norm, linewidths=0)
    axis.set_xlim(0, args.width)
    axis.set_ylim(0, args.height)
    axis.set_axis_off()
    show_axes(fig, camera)


def main():
    args = arguments()
    mesh = read(args.file)
    values, of_cells, label = choose_field(mesh, args.field, args.component)
    plt, fig = figure(args)
    lo, hi = limits(mesh, values, of_cells, args.range) if values is not None else (0, 1)
    signed = min(-lo, hi) > 0.02 * (hi - lo) and args.cmap is None
    cmap = plt.get_cmap(args.cmap or ("coolwarm" if signed else "viridis"))
    norm = plt.matplotlib.colors.TwoSlopeNorm(0, lo, hi) if signed else plt.Normalize(lo, hi)  # grey is zero
    show = {"polygons": show_surface, "lines": show_curve, "vertices": show_cloud}[mesh.kind]
    show(plt, fig, mesh, values, of_cells, args, cmap, norm)
    colour_bar(plt, fig, norm, cmap, args.label or label_of(label), values)
    fig.savefig(args.out, facecolor="white")
    print(f"{args.out}: {args.width} x {args.height}, {len(mesh.off) - 1} {mesh.kind}, {label or 'no field'} {lo:g} to {hi:g}")


def view_of(text):
    if text in VIEWS:
        return VIEWS[text]
    try:
        azimuth, elevation = (float(x) for x in text.split(","))
        return azimuth, max(-89.9, min(89.9, elevation))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text}: expected {', '.join(VIEWS)} or AZIMUTH,ELEVATION in degrees")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("file")
    p.add_argument("out_name", nargs="?", metavar="OUT.png", help="default: FILE with .png")
    p.add_argument("-o", "--out")
    p.add_argument("--field", help="default: a pressure coefficient if there is one, else the first")
    p.add_argument("--component", default="magnitude", help="of a vector: 0, 1, 2 or magnitude")
    p.add_argument("--range", type=float, nargs=2, metavar=("LO", "HI"), help="default: all but 0.5 %% of the surface at either end")
    p.add_argument("--view", type=view_of, default=VIEWS["iso"], help=", ".join(VIEWS) + " or AZIMUTH,ELEVATION in degrees")
    p.add_argument("--cmap", help="a matplotlib colour map")
    p.add_argument("--title", default="")
    p.add_argument("--label", help="on the colour bar, as 'pressure, Pa'; default: the field's name")
    p.add_argument("--width", type=int, default=1600)
    p.add_argument("--height", type=int, default=1000)
    p.add_argument("--samples", type=int, default=2, help="subpixels along a pixel's side")
    args = p.parse_args()
    args.out = args.out or args.out_name or os.path.splitext(args.file)[0] + ".png"
    return args


if __name__ == "__main__":
    main()
