#!/usr/bin/env python3
"""python/farfield/sum.py with PyTorch tensors on a GPU: sums and adjoints beside direct float64 sums, and how far the
adjoint is from the exact transpose; arrays of other layouts. Without PyTorch, a GPU or a library with CUDA the same is
done with NumPy arrays on the CPU.

    FARFIELD_LIB=build/libfarfield.so tests/ref/test_sum_python_gpu.py"""
import os
import pathlib
import sys

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "python"))
import farfield  # noqa: E402
from farfield.sum import KERNELS, Sum  # noqa: E402

SEED = 31
PARAMETER = {"exponent": 2.5, "kappa": 1.0, "softening": 0.05}

# |<cot, A q> - <A^T cot, q>| over |cot| |A q|: rounding of pairs; float32: of densities and cotangents, too (as gpu.sum).
TRANSPOSE = {False: 1e-9, True: 1e-5}
# Of sums and derivatives against direct float64 sums, in the 2-norm, with theta 0.5 and order 6: the far field's error; a
# Stokeslet is a derivative of its expansions.
FAR = {False: 3e-3, True: 3e-2}


class Place:
    """Arrays here or on a GPU, and back."""

    def __init__(self):
        self.host, self.n, self.m = True, 2000, 800
        try:
            import torch
            if not torch.cuda.is_available():
                raise ImportError("no GPU")
            Sum(torch.zeros((3, 3), device="cuda"))
            self.torch, self.host, self.n, self.m = torch, False, 20000, 5000
        except (ImportError, farfield.Error) as e:
            print(f"NumPy arrays on the CPU: {e}")

    def put(self, x):
        return x if self.host or x is None else self.torch.as_tensor(x, device="cuda")

    def get(self, x):
        if self.host:
            assert isinstance(x, np.ndarray)
            return x
        assert x.is_cuda and x.dtype == self.torch.float64, "results are float64 tensors on the GPU"
        return x.cpu().numpy()


def make(place, kernel, targets, **how):
    rng = np.random.default_rng(SEED)
    dim = 2 if kernel == "log" else 3
    x, t = rng.random((place.n, dim)), rng.random((place.m, dim)) if targets else None
    option = KERNELS[kernel][1]
    return Sum(place.put(x), place.put(t), kernel=kernel, order=6, gradient=True, adjoint=True,
               **({option: PARAMETER[option]} if option else {}), **how)


def relative(a, b):
    """Of lists of arrays, in the 2-norm."""
    return sum(((x - y) ** 2).sum() for x, y in zip(a, b)) ** 0.5 / sum((y ** 2).sum() for y in b) ** 0.5


def results(place, s, q, cot, cot_g):
    """Values and gradients; derivatives by densities; by positions, none of dipoles."""
    put, get = place.put, place.get
    out = [[get(a) for a in s.apply(put(q))], [get(s.adjoint(put(cot), put(cot_g)))]]
    try:
        d = s.adjoint_points(put(q), put(cot))
    except farfield.Error:
        return out
    return [*out, [get(a) for a in (d if isinstance(d, tuple) else (d,))]]


def one(place, kernel, single, targets):
    """Distance from the transpose; errors of sums, of derivatives by densities and positions against direct sums."""
    s = make(place, kernel, targets, theta=0.5, single=single)
    direct = make(place, kernel, targets, theta=0)
    rng = np.random.default_rng(SEED + 1)
    q, cot = rng.standard_normal(s.density_shape), rng.standard_normal(s.value_shape)
    cot_g = None if kernel == "stokeslet" else rng.standard_normal(s.gradient_shape)
    got, exact = results(place, s, q, cot, cot_g), results(place, direct, q, cot, cot_g)
    assert len(got) == (2 if kernel == "dipole" else 3)
    (v, g), (back,) = got[:2]
    gap, scale = (cot * v).sum() - (back * q).sum(), np.linalg.norm(cot) * np.linalg.norm(v)
    if cot_g is not None:
        gap, scale = gap + (cot_g * g).sum(), scale + np.linalg.norm(cot_g) * np.linalg.norm(g)
    return [abs(gap) / scale, *(relative(a, b) for a, b in zip(got, exact))]


def layouts(place):
    """Arrays of every layout give the bits of contiguous float64 ones; what cannot be taken is refused. Returns mistakes."""
    rng = np.random.default_rng(SEED + 2)
    x, q = rng.random((3000, 3)), rng.standard_normal(3000)
    put, get, bad = place.put, place.get, []

    def same(what, a, b):
        if not np.array_equal(get(a), get(b)):
            bad.append(what)

    def refused(what, call):
        try:
            call()
            bad.append(what)
        except farfield.Error:
            pass

    how = {"theta": 0.6, "order": 6, "adjoint": True}
    s = Sum(put(x), **how)
    want = s.apply(put(q))
    wide, every = put(np.repeat(x, 2, axis=1)), put(np.repeat(q, 3))
    same("columns of a wider array", Sum(wide[:, ::2], **how).apply(put(q)), want)
    same("columns of a transposed array", Sum(put(np.ascontiguousarray(x.T)).T, **how).apply(put(q)), want)
    same("every third number", s.apply(every[::3]), want)
    few = x.astype(np.float32)
    same("float32", Sum(put(few), **how).apply(put(q)), Sum(put(few.astype(np.float64)), **how).apply(put(q)))
    same("integers", s.apply(put(np.arange(3000))), s.apply(put(np.arange(3000.0))))
    flat = Sum(put(x[:, :2]), kernel="log", theta=0.6, order=6, adjoint=True)
    same("two dimensions", flat.apply(put(q)), Sum(put(x[:, :2].copy()), kernel="log", **how).apply(put(q)))
    none = Sum(put(x), targets=put(np.zeros((0, 3))), **how)
    if tuple(none.apply(put(q)).shape) != (0,) or np.any(get(none.adjoint(put(np.zeros(0))))):
        bad.append("no targets")
    if np.any(get(Sum(put(np.zeros((0, 3))), targets=put(x), **how).apply(put(np.zeros(0))))):
        bad.append("no sources")
    refused("truth values", lambda: s.apply(put(q > 0)))
    refused("one density too few", lambda: s.apply(put(q[1:])))
    if not place.host:
        refused("densities on the host", lambda: s.apply(q))
        refused("targets on the host", lambda: Sum(put(x), targets=x))
        refused("sources on the host", lambda: Sum(x).apply(put(q)))
        other, many = place.torch.cuda.Stream(), put(np.repeat(q[:, None], 2, axis=1))
        for _ in range(20):  # made, converted, summed and freed on another stream than the sum's
            with place.torch.cuda.stream(other):
                got = s.apply((many * 1.0)[:, 1].float().double() * 0 + (many * 1.0)[:, 0])
                kept = got.clone()
                del got
                place.torch.full((9000,), 7.0, dtype=place.torch.float64, device="cuda")
            other.synchronize()
            same("another stream", kept, want)
    return bad


def main():
    if "FARFIELD_LIB" in os.environ:
        farfield.load(os.environ["FARFIELD_LIB"])
    place = Place()
    print(f"seed {SEED}; {place.n} sources\n{'kernel':10} {'':3} {'targets':8} transpose       sums   densities   positions")
    mistakes = layouts(place)
    for what in mistakes:
        print(f"layouts: FAILED: {what}")
    failed = len(mistakes)
    for kernel in KERNELS:
        for single in (False, True):
            for targets in (False, True):
                e = one(place, kernel, single, targets)
                bad = not (e[0] <= TRANSPOSE[single] and max(e[1:]) <= FAR[kernel == "stokeslet"])
                failed += bad
                print(f"{kernel:10} {'f32' if single else 'f64'} {'others' if targets else 'sources':8}",
                      *(f"{x:10.2e}" for x in e), "FAILED" if bad else "")
    return int(failed > 0)


if __name__ == "__main__":
    sys.exit(main())
