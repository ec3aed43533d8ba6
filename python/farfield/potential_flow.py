"""Potential flow around closed surfaces of triangles: a panel method over the treecode (docs/potential_flow.md).

    flow = PanelFlow(points, cells)                  # checks the surface; raises BadMesh with what to do
    phi = flow.solve([1, 0, 0])                      # total potential at the faces' centroids, free stream of speed 1
    u_t = flow.surface_velocity(phi)                 # [m, 3]
    c_p = 1 - (u_t ** 2).sum(axis=1)

The potential on the surface solves  phi / 2 - D phi = U . x,  D the double layer with constant strength on each face: far
faces as dipoles at their centroids through the treecode, near ones by their exact solid angles, in a sparse matrix.
GMRES is SciPy's. Needs NumPy and SciPy."""
import numpy as np
import scipy.sparse as sp
import scipy.sparse.csgraph as csgraph
import scipy.sparse.linalg as spla
import scipy.spatial

from ._lib import Error
from .sum import Sum

__all__ = ["BadMesh", "PanelFlow", "solid_angle", "weld"]


class BadMesh(Error):
    """The surface does not enclose a body; the text says what is wrong and what to do."""


def _cross(a, b):
    return np.stack([a[..., 1] * b[..., 2] - a[..., 2] * b[..., 1], a[..., 2] * b[..., 0] - a[..., 0] * b[..., 2],
                     a[..., 0] * b[..., 1] - a[..., 1] * b[..., 0]], axis=-1)


def _dot(a, b):
    return np.einsum("...i,...i->...", a, b)


def solid_angle(x, tri):
    """Integral of n . (x - y) / |x - y|^3 over flat triangles tri [k, 3, 3] seen from x [k, 3]: the solid angle, positive
    where the normal points to x. In the triangle's plane 0 outside it, 2 pi of either sign inside. Van Oosterom and
    Strackee, 1983."""
    a, b, c = (tri[:, k] - x for k in range(3))
    la, lb, lc = (np.sqrt(_dot(v, v)) for v in (a, b, c))
    volume = _dot(a, _cross(b, c))
    return -2 * np.arctan2(volume, la * lb * lc + _dot(a, b) * lc + _dot(a, c) * lb + _dot(b, c) * la)


# ---- the surface ----


def weld(points, cells):
    """Points that are equal become one: (points, cells)."""
    points, inverse = np.unique(np.asarray(points, np.float64) + 0.0, axis=0, return_inverse=True)
    return points, inverse.reshape(-1)[np.asarray(cells, np.int64)]


def _edges(cells):
    """Edges by unordered pair of corners: face of each use, number of the edge, +1 or -1 by direction, count of edges."""
    a, b = cells.ravel(), np.roll(cells, -1, axis=1).ravel()
    low, high = np.minimum(a, b), np.maximum(a, b)
    _, number = np.unique(low * (int(cells.max()) + 1) + high, return_inverse=True)
    return np.repeat(np.arange(len(cells)), 3), number.reshape(-1), np.where(a < b, 1, -1), int(number.max()) + 1


def check_closed(cells):
    """Raises BadMesh unless each edge is used as often in one direction as in the other; returns the count of edges that
    more than two faces share, which is harmless then, and the parts: a number for each face."""
    face, number, way, n = _edges(cells)
    uses, net = np.bincount(number, minlength=n), np.bincount(number, way, minlength=n)
    n_open = int((uses % 2 == 1).sum())
    if n_open:
        raise BadMesh(f"{n_open} open edges: the flow would enter the body. Close the holes in your mesher; gaps between "
                      "corners that should be one are closed by\n  farfield check MESH --weld-tolerance 1e-6 --repair -o "
                      "fixed.vtkhdf        (--write-bad bad.vtkhdf shows where)")
    n_turned = int((net != 0).sum())
    if n_turned:
        raise BadMesh(f"{n_turned} edges whose faces are not wound alike (or non-manifold edges of faces that do not "
                      "enclose anything):\n  farfield check MESH --repair -o fixed.vtkhdf        turns faces; baffles must be "
                      "taken out in your mesher")
    same = np.unique(np.sort(cells, axis=1), axis=0, return_counts=True)[1]
    if (same > 1).any():
        raise BadMesh(f"{int((same > 1).sum())} cells stand there more than once (two-sided baffles?):\n  farfield check MESH "
                      "--repair -o fixed.vtkhdf        drops second copies")
    link = sp.csr_matrix((np.ones(len(face)), (face, number)), shape=(len(cells), n))
    return int((uses > 2).sum()), csgraph.connected_components(link @ link.T, directed=False)[1]


class PanelFlow:
    """A closed surface and its discrete double layer. say(text) is called with what goes on.

        near  faces nearer than near * (radius of the face about its centroid) are integrated exactly
        rtol  relative error asked of the treecode
    Corners must be welded. Values belong to `cells`, in the order given; faces without area take those of the nearest
    face."""

    def __init__(self, points, cells, near=3.0, rtol=1e-3, say=lambda text: None):
        points, cells = np.asarray(points, np.float64), np.asarray(cells, np.int64)
        if cells.ndim != 2 or cells.shape[1] != 3 or len(cells) < 4:
            raise BadMesh(f"{len(cells)} triangles, expected at least 4 that enclose a body")
        self.say, self.near, self.turned = say, near, False
        self.points = points - (points[cells].min(axis=(0, 1)) + points[cells].max(axis=(0, 1))) / 2
        self.cells = self._closed(cells)
        self._geometry()
        self.sum = Sum(self.x, kernel="dipole", rtol=rtol)
        self._near_matrix()
        row = self._double_layer(np.ones(len(self.x)))
        # A closed surface seen from a point of its own has the row sum -1/2, -1/2 - k inside k other parts. What the
        # quadrature misses of it goes to the diagonal: a constant potential then has no error.
        self.inside = np.rint(-0.5 - row)
        self.row_error = float(np.abs(row + 0.5 + self.inside).max())
        self.diagonal = 1 + self.inside + row

    def _closed(self, cells):
        whole = (cells != np.roll(cells, 1, axis=1)).all(axis=1)
        n_shared, part = check_closed(cells[whole])
        if n_shared:
            self.say(f"warning: {n_shared} edges are shared by more than two faces; the surface is closed all the same")
        corner = self.points[cells[whole]]
        volumes = np.bincount(part, _dot(corner[:, 0], _cross(corner[:, 1], corner[:, 2])) / 6)
        size = np.ptp(corner.reshape(-1, 3), axis=0).max()
        if not np.abs(volumes).max() > 1e-9 * size**3:
            raise BadMesh(f"the surface encloses no volume ({volumes.sum():.3g}, box {size:.3g}): a sheet of no thickness "
                          "has no inside")
        # Crumbs of no volume may have either sign.
        negative = volumes < -1e-9 * size**3
        if negative.any() and (volumes > 1e-9 * size**3).any():
            raise BadMesh(f"{int(negative.sum())} of {len(volumes)} parts are wound inwards: parts turned by mistake are mended "
                          "by\n  farfield check MESH --repair --outward -o fixed.vtkhdf\ncavities inside a body see no flow: "
                          "delete them in your mesher")
        self.turned = bool(negative.any())
        self.volume, self.n_parts = abs(float(volumes.sum())), len(volumes)
        return cells[:, ::-1] if self.turned else cells

    def _geometry(self):
        """Centroids, areas, unit normals, radii of the faces with area (self.solid)."""
        tri = self.points[self.cells]
        vector = _cross(tri[:, 1] - tri[:, 0], tri[:, 2] - tri[:, 0]) / 2
        area = np.sqrt(_dot(vector, vector))
        longest = np.sqrt(_dot(tri - np.roll(tri, 1, axis=1), tri - np.roll(tri, 1, axis=1)).max(axis=1))
        self.solid = area > 1e-10 * longest**2
        self.all_areas, self.all_centroids = area, tri.mean(axis=1)
        self.tri, self.x, self.area = tri[self.solid], self.all_centroids[self.solid], area[self.solid]
        self.n = vector[self.solid] / self.area[:, None]
        spoke = self.tri - self.x[:, None]
        self.radius = np.sqrt(_dot(spoke, spoke).max(axis=1))

    def _near_matrix(self):
        """Exact integral less centroid rule, over 4 pi, where the centroid i is near the face j."""
        tree = scipy.spatial.cKDTree(self.x)
        m, step = len(self.x), 20000
        parts = []
        for first in range(0, m, step):
            j = np.arange(first, min(first + step, m))
            found = tree.query_ball_point(self.x[j], self.near * self.radius[j], return_sorted=False)
            count = np.fromiter((len(f) for f in found), np.int64, len(found))
            if count.max() > 20000:
                raise BadMesh(f"face {int(np.flatnonzero(self.solid)[j[count.argmax()]])} has {count.max()} centroids in its near field: "
                              "it is too large beside its neighbours. Refine the large faces in your mesher")
            i, j = np.concatenate(found).astype(np.int64), np.repeat(j, count)
            i, j = i[i != j], j[i != j]
            d = self.x[i] - self.x[j]
            centroid_rule = self.area[j] * _dot(self.n[j], d) / _dot(d, d) ** 1.5
            parts.append((i.astype(np.int32), j.astype(np.int32),
                          (solid_angle(self.x[i], self.tri[j]) - centroid_rule) / (4 * np.pi)))
        i, j, value = (np.concatenate(p) for p in zip(*parts))
        self.correction = sp.csr_matrix((value, (i, j)), shape=(m, m))

    def _double_layer(self, phi):
        return self.sum.apply((phi * self.area)[:, None] * self.n) / (4 * np.pi) + self.correction @ phi

    def solve(self, velocity, tolerance=1e-5, max_iterations=200):
        """Total potential over |U| at the faces: GMRES until the residual is below tolerance times the right-hand side."""
        u = np.asarray(velocity, np.float64)
        if u.shape != (3,) or not np.isfinite(u).all() or not u.any():
            raise Error(f"velocity {velocity}, expected three finite numbers, not all 0")
        b = self.x @ (u / np.linalg.norm(u))
        m = len(b)
        op = spla.LinearOperator((m, m), matvec=lambda p: self.diagonal * p.ravel() - self._double_layer(p.ravel()))
        residuals = []

        def progress(r):
            residuals.append(float(r))
            self.say(f"GMRES iteration {len(residuals):3}: residual {r:.2e}")

        # On smooth bodies diagonal and right-hand side are the answer but for a factor: a good first guess costs nothing.
        restart = min(50, max_iterations)
        phi, failed = spla.gmres(op, b, x0=1.5 * b, rtol=tolerance, restart=restart, maxiter=-(-max_iterations // restart),
                                 callback=progress, callback_type="pr_norm")
        self.residuals = residuals
        if failed:
            raise Error(f"GMRES: residual {residuals[-1]:.1e} after {len(residuals)} iterations, {tolerance:g} was asked for. Thin or "
                        "self-touching parts are hard: refine them, raise max_iterations, or accept a larger tolerance")
        return self._everywhere(phi)

    def surface_velocity(self, phi):
        """Surface gradient of the potential at the centroids [m, 3]: least squares of quadratics in the plane of the face
        through its value and those of all faces that share a corner, nearer ones and those of like normals counting more.
        The heights of their centroids over the plane, fitted likewise, tilt it to the tangent of the curved surface."""
        phi = phi[self.solid]
        cells, m = self.cells[self.solid], len(phi)
        e1 = self.tri[:, 1] - self.tri[:, 0]
        e1 /= np.sqrt(_dot(e1, e1))[:, None]
        e2 = _cross(self.n, e1)
        touch = sp.csr_matrix((np.ones(3 * m, np.float32), (np.repeat(np.arange(m), 3), cells.ravel())), shape=(m, len(self.points)))
        out, step = np.zeros((m, 3)), 50000
        for first in range(0, m, step):
            rows = np.arange(first, min(first + step, m))
            near = (touch[rows] @ touch.T).tocoo()
            i, j = near.row.astype(np.int64), near.col.astype(np.int64)
            keep = j != rows[i]
            i, j = i[keep], j[keep]
            k = rows[i]
            d = self.x[j] - self.x[k]
            count = np.maximum(np.bincount(i, minlength=len(rows)), 1)
            # a tiny face among large ones is measured by them
            unit = np.maximum(self.radius[rows], 0.5 * np.sqrt(np.bincount(i, _dot(d, d), minlength=len(rows)) / count))
            d /= unit[i][:, None]
            a, b = _dot(d, e1[k]), _dot(d, e2[k])
            # Across an edge sharper than 60 degrees the potential is another function of the plane's coordinates.
            weight = np.clip(2 * _dot(self.n[j], self.n[k]) - 1, 0, 1) / np.sqrt(np.maximum(_dot(d, d), 0.25))
            basis = np.stack([a, b, a * a, a * b, b * b], axis=1) * weight[:, None]
            value = np.stack([phi[j] - phi[k], _dot(d, self.n[k])], axis=1) * weight[:, None]
            g = _fit(i, basis, value, len(rows))
            g, z = g[:, :, 0] / unit[:, None], g[:, :, 1]
            # tangents e_a + z_a n, metric 1 + z z^T: the gradient's components along them by Sherman and Morrison
            g = g - z * (_dot(z, g) / (1 + _dot(z, z)))[:, None]
            out[rows] = g[:, :1] * e1[rows] + g[:, 1:] * e2[rows] + _dot(z, g)[:, None] * self.n[rows]
        return self._everywhere(out)

    def _everywhere(self, values):
        """Values of faces with area, for all faces."""
        if self.solid.all():
            return values
        nearest = scipy.spatial.cKDTree(self.x).query(self.all_centroids)[1]
        return values[nearest]

    def force(self, c_p):
        """Minus the integral of c_p n: zero for a body in potential flow (d'Alembert), over the integral of |c_p|."""
        c_p = c_p[self.solid]
        return -(c_p * self.area) @ self.n / (np.abs(c_p) @ self.area)


def _fit(group, basis, value, n):
    """Least squares of each group, one a column of value; the first two coefficients [n, 2, columns]. What neighbours
    do not determine (too few that count, all in a line, across a sliver) stays small: a ridge, as if differences of phi
    were known to 2 % of the unit of length, whose part of a velocity on good triangles is below 1e-4."""
    def total(x):
        return np.stack([np.bincount(group, x[:, k], minlength=n) for k in range(x.shape[1])], axis=1)

    pairs = [(r, c) for r in range(5) for c in range(r, 5)]
    sums = total(np.stack([basis[:, r] * basis[:, c] for r, c in pairs], axis=1))
    normal = np.zeros((n, 5, 5))
    for k, (r, c) in enumerate(pairs):
        normal[:, r, c] = normal[:, c, r] = sums[:, k]
    right = np.stack([total(basis * value[:, k:k + 1]) for k in range(value.shape[1])], axis=2)
    return np.linalg.solve(normal + 4e-4 * np.eye(5), right)[:, :2]
