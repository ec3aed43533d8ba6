#!/usr/bin/env python3
"""Sums of analytic kernels from Python, in four cells that build on each other; each draws one panel of a figure.

    .venv/bin/python examples/sum_tutorial.py [OUT.png]        default: sum_tutorial.png; about half a minute

Editors that know "# %%" run it cell by cell. What is used is explained in docs/sum.md.
"""
import os
import sys
import time

import matplotlib
import numpy as np

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))
import farfield  # noqa: E402
from farfield.sum import Sum  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

if os.environ.get("FARFIELD_LIB"):
    farfield.load(os.environ["FARFIELD_LIB"])
rng = np.random.default_rng(1)
fig, ax = plt.subplots(2, 2, figsize=(10, 8.4))

# %% A field: charges on a spiral, values on a grid of targets.
# Geometry goes in once; sources and targets are different points here.
n = 20000
turn = 4 * np.pi * rng.random(n) ** 0.5
sources = np.stack([turn * np.cos(turn), turn * np.sin(turn), 0 * turn], axis=1) / 12 + 0.02 * rng.normal(size=(n, 3))
charge = np.where(turn < 2 * np.pi, 1.0, -0.5) / n
u, v = np.meshgrid(np.linspace(-1.3, 1.3, 200), np.linspace(-1.3, 1.3, 200))
targets = np.stack([u, v, 0 * u + 0.05], axis=-1).reshape(-1, 3)
field = Sum(sources, targets, kernel="plummer", softening=0.02, rtol=1e-4, gradient=True)
phi, grad = field.apply(charge)
a = ax[0, 0]
image = a.pcolormesh(u, v, phi.reshape(u.shape), cmap="RdBu_r", vmin=-1.2, vmax=1.2, rasterized=True)
every = (slice(None, None, 12),) * 2
force = -grad.reshape(*u.shape, 3)[every]
size = np.linalg.norm(force[..., :2], axis=-1)
a.quiver(u[every], v[every], force[..., 0] / size, force[..., 1] / size, size, cmap="Greys", scale=30, clim=(-8, 8))
a.set(aspect="equal", title=f"Plummer kernel: {n:,} sources, {len(targets):,} targets")
fig.colorbar(image, ax=a, label="potential")

# %% Accuracy: what rtol asks for, and what it gets.
# check() compares a sample with direct sums. theta=0 is the direct sum itself.
points = rng.normal(size=(20000, 3))
points /= np.linalg.norm(points, axis=1, keepdims=True)
q = rng.normal(size=len(points))
a = ax[0, 1]
for kernel in ("1/r", "dipole"):
    density = q if kernel != "dipole" else q[:, None] * points
    asked, got = np.array([1e-2, 1e-3, 1e-4, 1e-5]), []
    for rtol in asked:
        s = Sum(points, kernel=kernel, rtol=rtol)
        start = time.perf_counter()
        value = s.apply(density)
        seconds = time.perf_counter() - start
        got.append(s.check(density, value, n=200).p99)
        print(f"{kernel:7} rtol {rtol:7.0e}  p99 error {got[-1]:8.1e}  {1e3 * seconds:7.1f} ms  "
              f"theta {s.info.theta:g} order {s.info.order}")
    a.loglog(asked, got, "o-", label=kernel)
a.loglog(asked, asked, "k--", lw=0.8, label="as asked")
a.set(xlabel="rtol", ylabel="99th percentile of the error", title=f"{len(points):,} points on a sphere")
a.legend()
a.grid(lw=0.3)

# %% Derivatives by the density: find charges from potentials.
# The adjoint is the transpose, so least squares needs nothing else: conjugate gradients on the normal equations.
inside = 0.8 * rng.random((400, 1)) ** (1 / 3) * points[:400]
sensors = 1.5 * points[:3000]
true = rng.normal(size=len(inside))
s = Sum(inside, sensors, kernel="1/r", rtol=1e-6, adjoint=True)
seen = s.apply(true) + 1e-3 * rng.normal(size=len(sensors))
x, r = np.zeros(len(inside)), seen
g = s.adjoint(r)
p, gg, misfit = g, g @ g, [1.0]
for _ in range(60):
    w = s.apply(p)
    step = gg / (w @ w)
    x, r = x + step * p, r - step * w
    g = s.adjoint(r)
    p, gg = g + (g @ g) / gg * p, g @ g
    misfit.append(np.linalg.norm(r) / np.linalg.norm(seen))
a = ax[1, 0]
a.semilogy(misfit, "C0", label="misfit of the potentials")
a.axhline(1e-3 * len(sensors) ** 0.5 / np.linalg.norm(seen), color="0.5", ls="--", lw=0.8, label="noise")
a.set(xlabel="iteration", title=f"{len(inside)} charges from {len(sensors):,} sensors: conjugate gradients")
a.legend()
a.grid(lw=0.3)
print(f"misfit {misfit[-1]:.2e} after {len(misfit) - 1} iterations")

# %% Derivatives by positions: equal charges on a sphere push each other apart (Thomson's problem).
# E = 1/2 sum over pairs of 1/R; adjoint_points gives dE/dx for cotangent q/2.
k = 1000
x = rng.normal(size=(k, 3))
x[:, 2] = np.abs(x[:, 2])  # all on one half to begin with
x /= np.linalg.norm(x, axis=1, keepdims=True)
first, energy, one = x, [], np.ones(k)
step = 3 * k**-1.5
for _ in range(100):
    s = Sum(x, kernel="1/r", rtol=1e-4, adjoint=True)
    energy.append(0.5 * s.apply(one).sum())
    d = s.adjoint_points(one, one / 2)
    d -= x * (x * d).sum(axis=1, keepdims=True)
    x = x - np.minimum(step, 0.05 / np.linalg.norm(d, axis=1, keepdims=True)) * d
    x /= np.linalg.norm(x, axis=1, keepdims=True)
a = ax[1, 1]
known = 0.5 * k**2 - 0.5523 * k**1.5  # the large-k law of the least energy
a.plot((np.array(energy) - known) / known)
a.set(yscale="log", xlabel="step", ylabel="energy above the least known, relative", title=f"{k:,} charges move on a sphere")
a.grid(lw=0.3)
for title, cloud, place in (("start", first, (0.5, 0.52, 0.22, 0.42)), ("end", x, (0.74, 0.52, 0.22, 0.42))):
    b = a.inset_axes(place)
    front = cloud[:, 0] > 0
    b.plot(cloud[front, 1], cloud[front, 2], "k.", ms=0.8)
    b.set(aspect="equal", xticks=[], yticks=[], title=title)
print(f"energy {energy[0]:.0f} -> {energy[-1]:.1f}, least known about {known:.1f}")

# %%
fig.tight_layout()
out = sys.argv[1] if len(sys.argv) > 1 else "sum_tutorial.png"
fig.savefig(out, dpi=90)
print(out)
