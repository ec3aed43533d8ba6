#!/usr/bin/env python3
"""python/farfield/sum.py: every kernel against NumPy's direct sums, adjoints against central differences, DLPack,
several densities, bad input.

    FARFIELD_LIB=build/libfarfield.so tests/ref/test_sum_python.py"""
import os
import sys
import unittest

import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))
import farfield  # noqa: E402
from farfield.sum import Sum  # noqa: E402

SEED = 5
CASES = [("1/r", {}, 3), ("1/r", {"dipole": True}, 3), ("dipole", {}, 3), ("1/r^k", {"exponent": 2.5}, 3),
         ("1/r^k", {"exponent": 1.5}, 2), ("log", {}, 2), ("yukawa", {"kappa": 2.0}, 3), ("plummer", {"softening": 0.1}, 3),
         ("stokeslet", {}, 3)]


def potential(kernel, kw, r2):
    """Radial kernels of R^2; pairs with R = 0 are left out but with softening."""
    with np.errstate(divide="ignore"):
        r = np.sqrt(r2)
        k = {"1/r": lambda: 1 / r, "1/r^k": lambda: r ** -kw.get("exponent", 1), "log": lambda: np.log(r),
             "yukawa": lambda: np.exp(-kw.get("kappa", 0) * r) / r,
             "plummer": lambda: 1 / np.sqrt(r2 + kw.get("softening", 0) ** 2)}[kernel]()
    return k if kernel == "plummer" else np.where(r2 == 0, 0, k)


def direct(kernel, kw, x, y, q):
    d = x[:, None] - y
    r2 = (d * d).sum(-1)
    inv = np.where(r2 == 0, 0, 1 / np.sqrt(np.where(r2 == 0, 1, r2)))
    if kernel == "stokeslet":
        fd = (d * q).sum(-1)
        return (inv[..., None] * q).sum(1) + ((fd * inv**3)[..., None] * d).sum(1)
    if kernel == "dipole" or kw.get("dipole"):
        return ((d * q).sum(-1) * inv**3).sum(1)
    return potential(kernel, kw, r2) @ q


def draw(kernel, kw, dim, n, rng):
    carries = 3 if kernel == "stokeslet" else dim if kernel == "dipole" or kw.get("dipole") else 0
    return rng.normal(size=(n, carries) if carries else n)


class SumPython(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}")
        if os.environ.get("FARFIELD_LIB"):
            farfield.load(os.environ["FARFIELD_LIB"])

    def setUp(self):
        self.rng = np.random.default_rng(SEED)

    def close(self, a, b, tol, what=""):
        self.assertEqual(np.shape(a), np.shape(b), what)
        self.assertLessEqual(np.abs(a - b).max(), tol * np.abs(b).max(), what)

    def test_every_kernel_against_numpy(self):
        for kernel, kw, dim in CASES:
            y, x = self.rng.normal(size=(1500, dim)), self.rng.normal(size=(700, dim))
            q = draw(kernel, kw, dim, len(y), self.rng)
            for targets in (None, x):
                exact = direct(kernel, kw, y if targets is None else targets, y, q)
                # float64 sums in another order, 1e-12; else rtol is relative to the rms: its largest share is ten times that
                for options, tol in (({"theta": 0}, 1e-12), ({"rtol": 1e-5}, 1e-4)):
                    s = Sum(y, targets, kernel=kernel, gradient=True, **kw, **options)
                    value, grad = s.apply(q)
                    self.close(value, exact, tol, f"{kernel} {kw} {options}")
                    self.assertEqual(grad.shape, exact.shape + (dim,))

    def test_gradient_is_the_derivative(self):
        h = 1e-5
        for kernel, kw, dim in CASES:
            y, x = self.rng.normal(size=(300, dim)), 3 + self.rng.random(size=(20, dim))
            q = draw(kernel, kw, dim, len(y), self.rng)
            grad = Sum(y, x, kernel=kernel, gradient=True, theta=0, **kw).apply(q)[1]
            for k in range(dim):
                step = h * np.eye(dim)[k]
                diff = (direct(kernel, kw, x + step, y, q) - direct(kernel, kw, x - step, y, q)) / (2 * h)
                # central differences of this step are off by h^2 times the third derivative, and by 1e-16 / h
                self.close(grad[..., k], diff, 1e-7, f"{kernel} {kw}")

    def test_adjoint_is_the_transpose(self):
        for kernel, kw, dim in CASES:
            y, x = self.rng.normal(size=(900, dim)), self.rng.normal(size=(500, dim))
            for targets in (None, x):
                s = Sum(y, targets, kernel=kernel, gradient=True, adjoint=True, rtol=1e-3, **kw)
                q = draw(kernel, kw, dim, len(y), self.rng)
                value, grad = s.apply(q)
                cot, cot_g = self.rng.normal(size=value.shape), self.rng.normal(size=grad.shape)
                if kernel == "stokeslet":
                    cot_g = None
                left = (cot * value).sum() + (0 if cot_g is None else (cot_g * grad).sum())
                right = (s.adjoint(cot, cot_g) * q).sum()
                scale = np.linalg.norm(cot) * np.linalg.norm(value)
                scale += 0 if cot_g is None else np.linalg.norm(cot_g) * np.linalg.norm(grad)
                self.assertLessEqual(abs(left - right), 1e-12 * scale, f"{kernel} {kw}")  # rounding alone

    def test_adjoint_of_positions(self):
        h = 1e-6
        for targets in (None, self.rng.normal(size=(40, 3))):
            y = self.rng.normal(size=(60, 3))
            q = self.rng.normal(size=60)
            m = 60 if targets is None else 40
            cot = self.rng.normal(size=m)
            got = Sum(y, targets, adjoint=True, theta=0).adjoint_points(q, cot)
            d_targets, d_sources = (None, got) if targets is None else got
            for which, given in (("y", d_sources), ("x", d_targets)):
                if given is None:
                    continue
                e = self.rng.normal(size=given.shape)
                moved = [(y + s * h * e, targets) if which == "y" else (y, targets + s * h * e) for s in (1, -1)]
                f = [cot @ direct("1/r", {}, a if t is None else t, a, q) for a, t in moved]
                want = (f[0] - f[1]) / (2 * h)
                self.assertLessEqual(abs((given * e).sum() - want), 1e-6 * np.linalg.norm(given) * np.linalg.norm(e))

    def test_several_densities_are_one_by_one(self):
        y = self.rng.normal(size=(500, 3))
        for kernel, shape in (("1/r", (500, 4)), ("stokeslet", (500, 4, 3))):
            q = self.rng.normal(size=shape)
            together = Sum(y, kernel=kernel, densities=4).apply(q)
            alone = Sum(y, kernel=kernel)
            for k in range(4):
                np.testing.assert_array_equal(together[:, k], alone.apply(q[:, k]))

    def test_check_and_info(self):
        y, q = self.rng.normal(size=(5000, 3)), self.rng.normal(size=5000)
        s = Sum(y, rtol=1e-5, gradient=True)
        value, grad = s.apply(q)
        of_value, of_grad = s.check(q, value, grad, n=200)
        self.assertLess(of_value.p99, 1e-5)
        self.assertLess(of_grad.p99, 1e-5)
        self.assertGreater(s.check(q, value + 1, n=200).p99, 1e-3)
        self.assertEqual((s.info.n_targets, s.info.n_sources), (5000, 5000))
        self.assertGreater(s.info.order, 0)
        exact = Sum(y, theta=0).info
        self.assertEqual((exact.direct_pairs, exact.far_pairs), (5000 * 5000, 0))

    def test_any_layout_and_dlpack(self):
        y, q = self.rng.normal(size=(400, 3)), self.rng.normal(size=400)
        want = Sum(y).apply(q)
        np.testing.assert_array_equal(Sum(np.asfortranarray(y)).apply(q[::-1][::-1]), want)
        np.testing.assert_array_equal(Sum(y.tolist()).apply(q.tolist()), want)
        single = y.astype(np.float32)
        np.testing.assert_array_equal(Sum(single).apply(q), Sum(single.astype(float)).apply(q))

        class Dlpack:
            """An array of another package: the protocol and nothing else."""

            def __init__(self, x, device=(1, 0)):
                self.x, self.device = x, device

            def __dlpack__(self, **kw):
                return self.x.__dlpack__(**kw)

            def __dlpack_device__(self):
                return self.device

        np.testing.assert_array_equal(Sum(Dlpack(y)).apply(Dlpack(q)), want)
        with self.assertRaisesRegex(farfield.Error, "density lies on a device.*host memory"):
            Sum(y).apply(Dlpack(q, (2, 0)))

    def test_empty(self):
        self.assertEqual(Sum(np.empty((0, 3))).apply(np.empty(0)).shape, (0,))
        np.testing.assert_array_equal(Sum(np.empty((0, 3)), np.ones((2, 3))).apply(np.empty(0)), [0, 0])

    def test_bad_input(self):
        y = self.rng.normal(size=(10, 3))
        nan = y.copy()
        nan[4, 1] = np.nan
        bad = [(lambda: Sum(nan), "4"), (lambda: Sum(y[:, :1]), "1 coordinates, expected 2 or 3"),
               (lambda: Sum(y.ravel()), "shape"), (lambda: Sum(y, kernel="1/x"), "expected one of 1/r"),
               (lambda: Sum(y, kernel="yukawa"), "needs kappa="), (lambda: Sum(y, kappa=1), "has no kappa"),
               (lambda: Sum(y, kernel="log"), "expected 2"), (lambda: Sum(y, rtol=-1), "rtol"),
               (lambda: Sum(y, theta=1.0), "belong together"), (lambda: Sum(y, y[:, :2]), "targets has shape"),
               (lambda: Sum(y, kernel="1/r^k", exponent=0), "k"), (lambda: Sum(y.astype(complex)), "complex128"),
               (lambda: Sum(y, densities=0), "n_densities = 0"), (lambda: Sum(y, theta=1, order=2**33), "32 bits"),
               (lambda: Sum(np.ma.masked_greater(y, 0)), "masked"), (lambda: Sum(y * 1e-30), "rescale"),
               (lambda: Sum(y * 1e17, single=True, rtol=1e-3, gradient=True), "float32; rescale"),
               (lambda: Sum(y, kernel="plummer", softening=1e200), "softening"),
               (lambda: Sum(y).apply(np.ones(9)), r"\(9,\), expected \(10,\)"),
               (lambda: Sum(y).apply(np.full(10, np.inf)), "density"), (lambda: Sum(y).adjoint(np.ones(10)), "adjoint")]
        for call, text in bad:
            with self.assertRaisesRegex(farfield.Error, text):
                call()
        s = Sum(y)
        s.close()
        with self.assertRaisesRegex(farfield.Error, "after close"):
            s.apply(np.ones(10))


if __name__ == "__main__":
    unittest.main(verbosity=2)
