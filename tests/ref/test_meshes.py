#!/usr/bin/env python3
"""`info --json` and `check` on real surfaces against figures made with VTK and trimesh (../shared/meshes)."""
import csv
import json
import os
import unittest

import ff_ref as ref

SUFFIXES = (".stl", ".obj", ".ply", ".vtp", ".vtkhdf", ".msh", ".su2", ".bdf", ".cgns")
NAMED = ("tank3D", "cgnslib_vers-4400.cgns", "cylinder3D.cgns", "triangular-aerofoil.msh.gz", "fmm_grid2.msh",
         "bend_A1_105.bdf", "3D_chtPinArray_coarse.su2.gz")
# The polygon of this file is concave: a fan from its first corner, as in the table, gives a wrong area.
TRUE_AREA = {"wallhole.obj": 721.421356}


def rows(name):
    with open(ref.shared("meshes", name), newline="") as f:
        return list(csv.DictReader(f))


def readable(row):
    return row["file"] == "tank3D" or row["file"].lower().removesuffix(".gz").endswith(SUFFIXES)


class Meshes(ref.Case):
    def test_info(self):
        extra = {r["file"]: r for r in rows("expected_extra.csv")}
        patches = {}
        for r in rows("expected_patches.csv"):
            patches.setdefault(r["file"], {})[r["patch"]] = int(r["cells"])
        seen = 0
        for row in filter(readable, rows("expected.csv")):
            name = row["file"]
            with self.subTest(name):
                r = ref.run("info", "--json", ref.shared("meshes", name))
                if name == "fuze_ascii.ply" and r.code == 2:
                    self.assertRegex(r.err, r"line \d+")  # its header and rows disagree
                    seen += 1
                    continue
                self.assertEqual(r.code, 0, r.err)
                got = json.loads(r.out)
                for key, column in (("points", "points"), ("cells", "cells"), ("triangles", "triangles_after_fan"),
                                    ("zero_area_cells", "zero_area_cells"), ("duplicate_points", "duplicate_points")):
                    self.assertEqual(got[key], int(row[column]), key)
                area = TRUE_AREA.get(name, float(row["area"]))
                self.assertLess(abs(got["area"] / area - 1), 1e-6)  # as the table is rounded
                for k, axis in enumerate("xyz"):
                    for end in ("min", "max"):
                        want = float(row[axis + end])
                        # float32 coordinates printed with 9 digits
                        self.assertLess(abs(got["box"][end][k] - want), 1e-6 * max(1, abs(want)), axis + end)
                self.assertEqual(len(got["patches"]), int(row["patches"]), "patches")
                if name in patches and len(got["patches"]) > 1:
                    self.assertEqual(sorted(p["cells"] for p in got["patches"]), sorted(patches[name].values()))
                if name in NAMED:
                    self.assertEqual({p["name"]: p["cells"] for p in got["patches"]}, patches[name])
                seen += 1
        self.assertGreaterEqual(seen, 19)
        self.assertTrue(extra)

    def test_check_finds_the_defects(self):
        # What expected_extra.csv counts after joining equal points.
        for row in filter(readable, rows("expected_extra.csv")):
            name = row["file"]
            if name == "fuze_ascii.ply":
                continue
            with self.subTest(name):
                out = self.path("c.json")
                self.ok("check", ref.shared("meshes", name), "--json", out, "--force")
                with open(out) as f:
                    text = json.load(f)
                found = find(text, "open_edges")
                for key in ("open_edges", "nonmanifold_edges", "repeated_cells", "unused_points"):
                    self.assertEqual(found[key], int(row[key]), key)
                os.remove(out)


class Warnings(ref.Case):
    """What a reader cannot know for sure is said, not passed over."""

    def info(self, name, text):
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.ok("info", self.path(name)).err

    def test_files_that_may_be_cut(self):
        part = "GRID,1,,0.,0.,0.\nGRID,2,,1.,0.,0.\nGRID,3,,0.,1.,0.\nCTRIA3,1,1,1,2,3\n"
        self.assertIn("ends at line 4 without ENDDATA", self.info("a.bdf", part))
        self.assertNotIn("ENDDATA", self.info("b.bdf", part + "ENDDATA\n"))
        su2 = ("NDIME= 3\nNELEM= 0\nNPOIN= 3\n0 0 0\n1 0 0\n0 1 0\nNMARK= 1\nMARKER_TAG= a\nMARKER_ELEMS= 1\n"
               "5 0 1 2")
        self.assertIn("line 10 has no end", self.info("a.su2", su2))
        self.assertNotIn("has no end", self.info("b.su2", su2 + "\n"))

    def test_names_that_say_something_else(self):
        su2 = "NDIME= 3\nNELEM= 0\nNPOIN= 0\nNMARK= 0\n"
        self.assertIn("a file of format SU2, not Gmsh as its name says; read as SU2", self.info("a.msh", su2))
        self.assertNotIn("format", self.info("a.su2", su2))

    def test_a_boundary_that_was_made(self):
        msh = ("$MeshFormat\n2.2 0 8\n$EndMeshFormat\n$Nodes\n4\n1 0 0 0\n2 1 0 0\n3 0 1 0\n4 0 0 1\n$EndNodes\n"
               "$Elements\n1\n1 4 2 0 1 1 2 3 4\n$EndElements\n")
        self.assertIn("no surface elements; the boundary of 1 volume elements is the surface", self.info("v.msh", msh))


class RoundTrips(ref.Case):
    def test_elements_and_patches_come_back(self):
        for name in ("triangular-aerofoil.msh.gz", "bend_A1_105.bdf", "3D_chtPinArray_coarse.su2.gz", "multibody.stl"):
            for ext in (".msh", ".su2"):
                with self.subTest(name + ext):
                    source, back = ref.shared("meshes", name), self.path("back" + ext)
                    self.ok("convert", source, back, "--force")
                    want = json.loads(self.ok("info", "--json", source).out)
                    got = json.loads(self.ok("info", "--json", back).out)
                    for key in ("points", "cells", "triangles", "duplicate_points", "unused_points", "open_edges", "box"):
                        self.assertEqual(got[key], want[key], key)
                    self.assertEqual([(p["name"].replace(" ", "_"), p["cells"]) for p in got["patches"]],
                                     [(p["name"].replace(" ", "_"), p["cells"]) for p in want["patches"]])
                    # the order of cells may change, and with it the rounding of their sum
                    self.assertLess(abs(got["area"] / want["area"] - 1), 1e-14)


class Ranks(ref.Case):
    def test_figures_do_not_know_the_ranks(self):
        for name in ("fmm_grid2.msh", "bend_A1_105.bdf", "3D_chtPinArray_coarse.su2.gz"):
            with self.subTest(name):
                alone = self.ok("check", ref.shared("meshes", name)).out
                figures = [line for line in alone.splitlines() if ":" not in line and "/" not in line]
                for ranks in (2, 3):
                    got = self.ok("check", ref.shared("meshes", name), ranks=ranks).out
                    for line in figures:
                        self.assertIn(line, got)


def find(node, key):
    """The first object that has key, anywhere in a JSON value."""
    if isinstance(node, dict):
        if key in node:
            return node
        node = list(node.values())
    if isinstance(node, list):
        for item in node:
            found = find(item, key)
            if found is not None:
                return found
    return None


if __name__ == "__main__":
    unittest.main(verbosity=2)
