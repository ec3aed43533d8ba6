#!/usr/bin/env python3
"""Files written by Gmsh and pyNastran against what those programs say about them. By hand, not by ctest: needs
`pip install gmsh pyNastran`; a part whose package is missing says so and is left out.

    FARFIELD=build/farfield tests/ref/check_volume_formats.py
"""
import itertools
import json
import os
import unittest

import numpy as np

import ff_ref as ref

try:
    import gmsh
except (ImportError, OSError):
    gmsh = None
try:
    from pyNastran.bdf.bdf import BDF
except ImportError:
    BDF = None

SEED = 5


def fan_area(corners):
    a, b = corners[:, 1:-1] - corners[:, :1], corners[:, 2:] - corners[:, :1]
    return float(np.linalg.norm(np.cross(a, b), axis=2).sum() / 2)


@unittest.skipIf(gmsh is None, "gmsh is not installed")
class Gmsh(ref.Case):
    def setUp(self):
        super().setUp()
        gmsh.initialize()
        self.addCleanup(gmsh.finalize)
        gmsh.option.setNumber("General.Terminal", 0)

    def body(self, dim, order, recombine):
        """A box with a spherical hole; its surface entities."""
        gmsh.clear()
        occ = gmsh.model.occ
        occ.cut([(3, occ.addBox(0, 0, 0, 1, 2, 1))], [(3, occ.addSphere(0.5, 0.5, 0.5, 0.3))])
        occ.synchronize()
        gmsh.option.setNumber("Mesh.MeshSizeMax", 0.25)
        gmsh.option.setNumber("Mesh.RecombineAll", recombine)
        gmsh.option.setNumber("Mesh.SecondOrderIncomplete", recombine)
        gmsh.model.mesh.generate(dim)
        gmsh.model.mesh.setOrder(order)
        return [tag for _, tag in gmsh.model.getEntities(2)]

    def figures(self):
        """Cells of each physical group, and the area of all cells by their corners."""
        tags, xyz, _ = gmsh.model.mesh.getNodes()
        place = np.zeros((int(max(tags)) + 1, 3))
        place[tags] = np.array(xyz).reshape(-1, 3)
        cells, area = {}, 0.0
        for dim, tag in gmsh.model.getEntities(2):
            groups = gmsh.model.getPhysicalGroupsForEntity(dim, tag)
            if len(groups) == 0:
                continue
            group = abs(int(groups[0]))
            name = gmsh.model.getPhysicalName(2, group) or f"physical {group}"
            for kind, _, nodes in zip(*gmsh.model.mesh.getElements(dim, tag)):
                _, _, _, n_nodes, _, n_corners = gmsh.model.mesh.getElementProperties(kind)
                corners = np.array(nodes, dtype=int).reshape(-1, n_nodes)[:, :n_corners]
                cells[name] = cells.get(name, 0) + len(corners)
                area += fan_area(place[corners])
        return cells, area

    def compare(self, path, cells, area, names=True, tolerance=1e-12):
        got = json.loads(self.ok("info", "--json", path).out)
        self.assertEqual(got["cells"], sum(cells.values()))
        self.assertLess(abs(got["area"] / area - 1), tolerance)
        if names:
            self.assertEqual({p["name"]: p["cells"] for p in got["patches"]}, cells)

    def test_orders_versions_and_groups(self):
        for dim, order, recombine in itertools.product((2, 3), (1, 2, 3), (0, 1)):
            surfaces = self.body(dim, order, recombine)
            gmsh.model.addPhysicalGroup(3, [tag for _, tag in gmsh.model.getEntities(3)], 1)
            gmsh.model.addPhysicalGroup(2, surfaces[:3], 50)
            gmsh.model.addPhysicalGroup(2, surfaces[3:], 7, name="the rest")
            cells, area = self.figures()
            for version, binary in itertools.product((2.2, 4.1), (0, 1)):
                with self.subTest(dim=dim, order=order, recombine=recombine, version=version, binary=binary):
                    gmsh.option.setNumber("Mesh.MshFileVersion", version)
                    gmsh.option.setNumber("Mesh.Binary", binary)
                    gmsh.option.setNumber("Mesh.SaveParametric", int(version > 4 and order == 1))
                    gmsh.write(self.path("m.msh"))
                    self.compare(self.path("m.msh"), cells, area)
            for field in (0, 1, 2) if order < 3 else ():
                with self.subTest(dim=dim, order=order, recombine=recombine, field=field):
                    gmsh.option.setNumber("Mesh.BdfFieldFormat", field)
                    gmsh.write(self.path("m.bdf"))  # eight columns hold five digits of a coordinate
                    self.compare(self.path("m.bdf"), cells, area, False, 1e-4)
            if order == 1 and dim == 3:  # without volumes Gmsh writes SU2 files without points
                gmsh.write(self.path("m.su2"))
                self.compare(self.path("m.su2"), cells, area, False)


@unittest.skipIf(BDF is None, "pyNastran is not installed")
class Nastran(ref.Case):
    """Random chains of coordinate systems, in all kinds of fields, entries in random order."""

    def number(self, x):
        mantissa, exponent = f"{x:.9e}".split("e")
        return (f"{mantissa}{int(exponent):+d}", f"{mantissa}D{int(exponent):+d}", repr(float(x)))[self.rng.integers(3)]

    def entry(self, name, *values):
        f = [str(v) if isinstance(v, (int, np.integer)) else self.number(v) for v in values]
        kind = self.rng.integers(3)
        if kind == 2:
            rows = ["".join(x[:16].rjust(16) for x in f[i:i + 4]) for i in range(0, len(f), 4)]
            return "\n".join((f"{name}*" if i == 0 else "*").ljust(8) + row for i, row in enumerate(rows))
        n, star = (8, "") if kind == 0 else (4, "*")
        rows = [",".join(f[i:i + n]) for i in range(0, len(f), n)]
        return "\n".join((name + star if i == 0 else star) + "," + row for i, row in enumerate(rows))

    def place(self, kind):
        u = self.rng.uniform
        if kind == "R":
            return u(-3, 3, 3)
        return [u(0.5, 3), u(-180, 180), u(-3, 3)] if kind == "C" else [u(0.5, 3), u(5, 175), u(-180, 180)]

    def deck(self):
        kinds, body, n_grids = ["R"], [], 0

        def grid():
            nonlocal n_grids
            n_grids += 1
            cp = int(self.rng.integers(len(kinds)))
            body.append(self.entry("GRID", n_grids, cp, *self.place(kinds[cp])))
            return n_grids

        for cid in range(1, 9):
            kind = "RCS"[self.rng.integers(3)]
            if self.rng.random() < 0.6:
                rid = int(self.rng.integers(len(kinds)))
                abc = np.concatenate([self.place(kinds[rid]) for _ in range(3)])
                body.append(self.entry("CORD2" + kind, cid, rid, *abc))
            else:
                body.append(self.entry("CORD1" + kind, cid, grid(), grid(), grid()))
            kinds.append(kind)
        for _ in range(20):
            grid()
        order = self.rng.permutation(len(body))
        return "\n".join(["SOL 101", "CEND", "BEGIN BULK", *(body[i] for i in order), "ENDDATA", ""])

    def test_chains_of_systems(self):
        self.rng = np.random.default_rng(SEED)
        print("seed", SEED)
        for case in range(10):
            files = [self.path("c.bdf")]
            with open(files[0], "w") as f:
                f.write(self.deck())
            model = BDF(debug=None, log=None)
            model.read_bdf(files[0])
            for how in ({"size": 8}, {"size": 16}, {"size": 16, "is_double": True}):
                files.append(self.path(f"c{len(files)}.bdf"))
                model.write_bdf(files[-1], **how)
            for path in files:
                with self.subTest(case=case, file=os.path.basename(path)):
                    same = BDF(debug=None, log=None)
                    same.read_bdf(path)
                    want = np.array([node.get_position() for node in same.nodes.values()])
                    self.ok("convert", path, self.path("c.obj"), "--force")
                    with open(self.path("c.obj")) as f:
                        got = np.array([line.split()[1:] for line in f if line.startswith("v ")], dtype=float)
                    self.assertEqual(got.shape, want.shape)
                    # files list points in other orders: compare them sorted
                    got, want = (a[np.lexsort(np.round(a, 7).T)] for a in (got, want))
                    self.assertLess(abs(got - want).max(), 1e-12 * abs(want).max())


if __name__ == "__main__":
    unittest.main(verbosity=2)
