#!/usr/bin/env python3
"""Verb sum on bad and extreme input: a clear line and exit code 2, or the right answer, on one and on two ranks."""
import unittest

import h5py
import numpy as np

import ff_ref as ref


class SumBadInput(ref.Case):
    def csv(self, name, rows):
        path = self.path(name)
        with open(path, "w") as f:
            f.write("x,y,z\n")
            for r in rows:
                f.write(",".join(map(str, r)) + "\n")
        return path

    def refused(self, args, *words):
        for ranks in (1, 2):
            r = ref.run("sum", *args, ranks=ranks, timeout=60)
            what = f"{' '.join(map(str, args))} on {ranks} ranks\n{r.out}\n{r.err}"
            self.assertEqual(r.code, 2, what)
            self.assertEqual(len(r.error_lines()), 1, what)
            for w in words:
                self.assertIn(w, r.error_lines()[0], what)

    def values(self, points, *args, ranks=1):
        path = self.csv(f"points{ranks}.csv", points)
        out = self.path(f"out{ranks}.h5")
        r = ref.run("sum", path, *args, "--check", 0, "-o", out, "--force", ranks=ranks, timeout=60)
        self.assertEqual(r.code, 0, r.out + r.err)
        with h5py.File(out) as f:
            return find(f, "value")

    def test_refused(self):
        generated = ["--generate", "uniform", "--n", 100]
        self.refused([self.csv("nan.csv", [(0, 0, 0), (0, "nan", 1)])], "nan")
        self.refused([*generated, "--kernel", "1/r^k", "--exponent", 0], "exponent")
        self.refused([*generated, "--kernel", "1/r^k", "--exponent", -2], "exponent")
        self.refused([*generated, "--kernel", "yukawa", "--kappa", -1], "kappa")
        self.refused([*generated, "--kernel", "plummer", "--softening", 0], "softening")
        self.refused([*generated, "--rtol", 1e-15], "rtol", "out of reach")
        self.refused([*generated, "--rtol", 1e-7, "--precision", "f32"], "rtol", "float64")
        self.refused([*generated, "--theta", 2, "--order", 4], "theta")
        self.refused([*generated, "--kernel", "nothing"], "nothing")
        self.refused([self.path("absent.csv")], "absent.csv")

    def test_extreme_sets(self):
        for ranks in (1, 2):
            self.assertEqual(self.values([(1, 2, 3)], ranks=ranks).ravel().tolist(), [0.0])
            same = self.values([(1, 2, 3)] * 300, ranks=ranks)
            self.assertTrue((same == 0).all())
            grid = np.stack(np.meshgrid(*[np.arange(8)] * 3, indexing="ij"), -1).reshape(-1, 3) * 1e-3
            near, far = self.values(grid.tolist(), ranks=ranks), self.values((1e7 + grid).tolist(), ranks=ranks)
            # coordinates of 1e7 are multiples of 1.9e-9, spacings 1e-3
            self.assertLess(np.abs(near - far).max() / np.abs(near).max(), 1e-5)

    def test_once_more_where_rtol_was_missed(self):
        """Dipoles normal to a sphere, of random sign: the table's choice misses 1e-3, and what the check saw mends it."""
        rng = np.random.default_rng(3)
        x = rng.normal(size=(20000, 3))
        x /= np.linalg.norm(x, axis=1)[:, None]
        path, out = self.path("normals.h5"), self.path("normals_out.h5")
        with h5py.File(path, "w") as f:
            f["points"] = x
            f["density"] = x * rng.choice([-1.0, 1.0], size=len(x))[:, None]
        fields = []
        for ranks in (1, 3):
            r = ref.run("sum", path, "--kernel", "dipole", "--density", path, "--rtol", 1e-3, "--check", 200, "-o", out,
                        "--force", ranks=ranks, timeout=60)
            self.assertEqual(r.code, 0, r.out + r.err)
            self.assertIn("once more", r.out + r.err)
            self.assertIn("rtol = 0.001 is met", r.out + r.err)
            with h5py.File(out) as f:
                fields.append(find(f, "value"))
        self.assertTrue((fields[0] == fields[1]).all(), "not the same bits on one and three ranks")


def find(group, name):
    """The data set of this name, wherever the layout keeps it."""
    got = []
    group.visititems(lambda path, o: got.append(o[...]) if path.split("/")[-1] == name and hasattr(o, "shape") else None)
    return got[0]


if __name__ == "__main__":
    unittest.main()
