#!/usr/bin/env python3
"""`farfield verify` on the golden files of the public implementation, on 1, 2, 3, 4 and 7 ranks: trees and plans equal,
layers, outputs and gradients within their tolerance, and the same errors to the last digit on every rank count."""
import glob
import json
import os
import shutil
import unittest

import h5py

import ff_ref as ref


class Golden(ref.Case):
    def rows(self, files, ranks, threads, *options):
        out = self.path("v.json")
        self.ok("verify", *files, *options, "--json", out, "--force", ranks=ranks, threads=threads)
        with open(out) as f:
            return [r for r in json.load(f)["rows"] if " ranks (digest)" not in r["quantity"]]

    def golden_files(self):
        files = sorted(glob.glob(os.path.join(ref.shared("golden"), "*.h5")))
        return [f for f in files if "config_json" in h5py.File(f).attrs]

    def test_every_file_on_every_rank_count(self):
        files = self.golden_files()
        self.assertGreaterEqual(len(files), 7)
        alone = self.rows(files, 1, 2)
        names = {r["file"] for r in alone}
        self.assertEqual(len(names), len(files))
        print("\nfile                     quantities  worst layer  worst output  worst gradient  worst share of a tolerance")
        for name in sorted(names):
            mine = [r for r in alone if r["file"] == name]
            self.assertTrue(all(r["ok"] for r in mine), name)
            worst = {kind: max(r["error"] for r in mine if r["quantity"].startswith(kind))
                     for kind in ("layers/", "outputs/", "grads/")}
            exact = [r for r in mine if r["tolerance"] == 0]
            self.assertGreater(len(exact), 5, name)  # trees and plans
            share = max(r["error"] / r["tolerance"] for r in mine if r["tolerance"] > 0)
            print(f"{name:24s} {len(mine):10d} {worst['layers/']:12.2e} {worst['outputs/']:13.2e} "
                  f"{worst['grads/']:15.2e} {share:13.2f}")
        for ranks in (2, 3, 4, 7):
            self.assertEqual(alone, self.rows(files, ranks, 1), f"{ranks} ranks")

    def test_float64(self):
        # From the file's own float32 measures the same files agree to the rounding of double (1.5e-12, 2.0e-13 seen).
        rows = self.rows(self.golden_files(), 1, 2, "--precision", "f64")
        worst = max(r["error"] for r in rows if r["quantity"].startswith(("layers/", "outputs/")))
        gradient = max(r["error"] for r in rows if r["quantity"].startswith("grads/"))
        print(f"\nf64: worst layer or output {worst:.1e}, worst gradient {gradient:.1e}")
        self.assertLess(worst, 1e-11)
        self.assertLess(gradient, 1e-11)

    def test_names_and_degrees(self):
        # Made with the public implementation like the others: names with blanks, which that sorts by their printed form,
        # a boundary and a length with a slash, `_one` inside a boundary's name, 11 Legendre degrees (the tenth's number
        # sorts before the second's), a global vector that is zero, a boundary of one edge.
        file = os.path.join(ref.ROOT, "tests", "data", "golden_names.h5")
        alone = self.rows([file], 1, 1)
        self.assertGreater(len([r for r in alone if r["quantity"].startswith("grads/")]), 5)
        self.assertEqual([], [r for r in alone if not r["ok"]])
        self.assertEqual(alone, self.rows([file], 3, 1))
        exact = [self.rows([file], ranks, 1, "--precision", "f64") for ranks in (1, 3)]
        self.assertEqual(exact[0], exact[1])
        self.assertLess(max(r["error"] for r in exact[0] if r["quantity"].startswith(("layers/", "outputs/"))), 1e-11)

    def test_no_communication_layer(self):
        # Then no rank holds what plans from boundary to boundary need, and nothing compares them over ranks.
        file = os.path.join(ref.ROOT, "tests", "data", "golden_direct.h5")
        alone = self.rows([file], 1, 1)
        self.assertEqual([], [r for r in alone if not r["ok"]])
        self.assertEqual(alone, self.rows([file], 3, 1))

    def test_figures_of_a_failure(self):
        bad, out = self.path("bad.h5"), self.path("v.json")
        shutil.copy(os.path.join(ref.ROOT, "tests", "data", "golden_names.h5"), bad)
        with h5py.File(bad, "r+") as f:
            f["f64/outputs/p"][...] += 1
        self.assertEqual(ref.run("verify", bad, "--json", out).code, 1)
        with open(out) as f:
            missed = [r["quantity"] for r in json.load(f)["rows"] if not r["ok"]]
        self.assertEqual(missed, ["outputs/p"])

    def test_float64_is_stricter(self):
        bad = self.path("bad.h5")
        shutil.copy(os.path.join(ref.ROOT, "tests", "data", "golden_names.h5"), bad)
        with h5py.File(bad, "r+") as f:
            p = f["f64/outputs/p"]
            p[...] += 1e-8 * abs(p[...]).max()
        self.ok("verify", bad)
        self.assertEqual(ref.run("verify", bad, "--precision", "f64").code, 1)

    def test_ids_out_of_range(self):
        good = os.path.join(ref.ROOT, "tests", "data", "golden_names.h5")
        for k, (name, value) in enumerate((("inputs/boundary/zone_one|up/cells", 10**6), ("inputs/boundary/Ω/cells", -1))):
            bad = self.path(f"bad{k}.h5")
            shutil.copy(good, bad)
            with h5py.File(bad, "r+") as f:
                f[name][0, 0] = value
            r = ref.run("verify", bad)
            self.assertEqual(r.code, 2)
            self.assertIn(f"point {value}, expected", r.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
