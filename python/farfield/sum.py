"""Sums of analytic kernels over point clouds (farfield_sum.h, docs/sum.md), NumPy arrays in and out.

    s = farfield.sum.Sum(points, kernel="1/r", rtol=1e-5, gradient=True, adjoint=True)     # once a geometry
    phi, grad = s.apply(charge)                                                            # as often as wanted
    d_charge = s.adjoint(cot_phi, cot_grad)                    # derivatives of sum(cot_phi phi) + sum(cot_grad grad)

Shapes, with n sources and m targets (the sources unless targets are given):

    sources (n, dim), targets (m, dim)
    density   (n, [densities], [n_in])          n_in  1 (no axis), dim with dipoles, 3 for the Stokeslet
    value     (m, [densities], [n_out])         n_out 1 (no axis), 3 for the Stokeslet
    gradient  (m, [densities], [n_out], dim)    with respect to the target's position

The axis of densities is there where Sum(densities=k) asks for it. Anything with the DLPack protocol in host memory (a
PyTorch tensor, a JAX array) is taken in place of a NumPy array; results are NumPy arrays, which such packages take back
by DLPack as well. Where the sources lie on a GPU, so must all else: sums are made there, and results are tensors of
PyTorch or arrays of CuPy, whichever the sources are of. Arrays are converted to contiguous float64. Errors are
farfield.Error."""
import ctypes
import dataclasses

from ._arrays import place_of
from ._lib import Error, SumError, SumInfo, SumOpts, check, load

__all__ = ["Sum", "KERNELS"]

# Name -> (ff_sum_kernel, the option that is its parameter). "dipole" is 1/r with dipoles.
KERNELS = {"1/r": (0, None), "1/r^k": (1, "exponent"), "log": (2, None), "yukawa": (3, "kappa"),
           "plummer": (4, "softening"), "stokeslet": (5, None), "dipole": (0, None)}


@dataclasses.dataclass(frozen=True)
class Info:
    """What was chosen and how many pairs there are (ff_sum_info)."""
    theta: float
    order: int
    leaf_size: int
    n_targets: int
    n_sources: int
    direct_pairs: int
    far_pairs: int
    proxies: int


@dataclasses.dataclass(frozen=True)
class Errors:
    """Percentiles of |difference from the direct sum| / max(|exact|, rms of exact)."""
    median: float
    p95: float
    p99: float
    max: float


class Sum:
    """Trees and interaction lists of targets against sources; densities as often as wanted. Not for two threads at
    once. The bits do not depend on the number of threads."""

    def __init__(self, sources, targets=None, *, kernel="1/r", exponent=None, kappa=None, softening=None, dipole=False,
                 densities=None, gradient=False, adjoint=False, single=False, rtol=1e-5, theta=None, order=None,
                 leaf_size=0, triangles=None, exact_within=5.0):
        """rtol picks order, theta and leaf size; theta and order given both say them directly (theta=0: exact sums).
        adjoint: adjoint() or adjoint_points() will be called. single: pairs in float32, sums in float64.
        triangles (n, 3, 3): the sources are their centroids, charges are spread over them (1/r), and a target closer than
        exact_within longest edges takes the integral over the triangle."""
        self._ptr, self._lib = ctypes.c_void_p(), load()
        number, parameter = _kernel(kernel, {"exponent": exponent, "kappa": kappa, "softening": softening})
        self._on = place_of(sources)
        sources = self._on.array(sources, "sources", (None, None))
        self.dim, self.n_sources = sources.shape[1], sources.shape[0]
        if self.dim not in (2, 3):
            raise Error(f"sum: sources have {self.dim} coordinates, expected 2 or 3")
        if targets is not None:
            targets = self._on.array(targets, "targets", (None, self.dim))
        self.n_targets = self.n_sources if targets is None else len(targets)
        self.same = targets is None
        if (theta is None) != (order is None) and theta != 0:
            raise Error("sum: theta and order belong together: give both, or neither and rtol")
        direct = theta is not None
        for name, number_of in (("densities", densities), ("order", order), ("leaf_size", leaf_size)):
            if number_of is not None and not -2**31 <= number_of < 2**31:
                raise Error(f"sum: {name} = {number_of}, expected a number of 32 bits")
        opts = SumOpts(ctypes.sizeof(SumOpts), number, parameter, dipole or kernel == "dipole", self.dim,
                       1 if densities is None else densities,
                       gradient, adjoint, single, 0.0 if direct else rtol, theta if direct else 0.0, order or 0, leaf_size)
        if triangles is not None:
            triangles = self._on.array(triangles, "triangles", (self.n_sources, 3, 3))
            opts.exact_within, opts.corners = exact_within, self._on.at(triangles)
        self.gradient = bool(gradient)
        check(self._call("create", self._on.at(targets), self.n_targets, self._on.at(sources), self.n_sources,
                         ctypes.byref(opts), *self._on.stream, ctypes.byref(self._ptr)))
        self._points = (targets, sources) if self._on.stream else ()  # the check on a GPU asks for them
        n_in = self.dim if opts.dipole else 3 if kernel == "stokeslet" else 1
        n_out = 3 if kernel == "stokeslet" else 1
        several = () if densities is None else (densities,)
        self.density_shape = (self.n_sources, *several, *(() if n_in == 1 else (n_in,)))
        self.value_shape = (self.n_targets, *several, *(() if n_out == 1 else (n_out,)))
        self.gradient_shape = (*self.value_shape, self.dim)

    def close(self):
        """Frees the trees now; else this happens with the object."""
        if self._ptr:
            self._call("destroy", ctypes.byref(self._ptr))

    def __del__(self):
        if getattr(self, "_ptr", None):
            self.close()

    def _call(self, name, *args):
        return self._on.run(getattr(self._lib, self._on.call + name), *args)

    def _alive(self):
        if not self._ptr:
            raise Error("sum: used after close()")

    @property
    def info(self):
        self._alive()
        out = SumInfo()
        self._call("get_info", self._ptr, ctypes.byref(out))
        return Info(**{name: getattr(out, name) for name, _ in SumInfo._fields_})

    def apply(self, density):
        """value, or (value, gradient) where the gradient was asked for."""
        self._alive()
        density = self._on.array(density, "density", self.density_shape)
        value = self._on.empty(self.value_shape)
        grad = self._on.empty(self.gradient_shape) if self.gradient else None
        check(self._call("apply", self._ptr, self._on.at(density), self._on.at(value), self._on.at(grad)))
        return (value, grad) if self.gradient else value

    def adjoint(self, cot_value, cot_gradient=None):
        """Derivatives of sum(cot_value value) + sum(cot_gradient gradient) with respect to the density: the transpose of
        apply, interpolation included, up to rounding."""
        self._alive()
        cot_value = self._on.array(cot_value, "cot_value", self.value_shape)
        if cot_gradient is not None:
            cot_gradient = self._on.array(cot_gradient, "cot_gradient", self.gradient_shape)
        out = self._on.empty(self.density_shape)
        check(self._call("adjoint", self._ptr, self._on.at(cot_value), self._on.at(cot_gradient), self._on.at(out)))
        return out

    def adjoint_points(self, density, cot_value):
        """Derivatives of sum(cot_value value) with respect to positions: (d_targets, d_sources), or one array where the
        targets are the sources. As accurate as the sums' gradients."""
        self._alive()
        density = self._on.array(density, "density", self.density_shape)
        cot_value = self._on.array(cot_value, "cot_value", self.value_shape)
        d_sources = self._on.empty((self.n_sources, self.dim))
        d_targets = None if self.same else self._on.empty((self.n_targets, self.dim))
        at = self._on.at
        check(self._call("adjoint_points", self._ptr, at(density), at(cot_value), at(d_targets), at(d_sources)))
        return d_sources if self.same else (d_targets, d_sources)

    def check(self, density, value, gradient=None, n=100):
        """Errors of n targets against direct float64 sums: of the value, or (of the value, of the gradient)."""
        self._alive()
        density = self._on.array(density, "density", self.density_shape)
        value = self._on.array(value, "value", self.value_shape)
        if gradient is not None:
            gradient = self._on.array(gradient, "gradient", self.gradient_shape)
        a, b, l2 = SumError(), SumError(), (ctypes.c_double * 2)()
        at = self._on.at
        points, more = [at(x) for x in self._points], (l2,) if self._points else ()
        check(self._call("check", self._ptr, *points, at(density), at(value), at(gradient), n, ctypes.byref(a),
                         None if gradient is None else ctypes.byref(b), *more))
        a, b = (Errors(e.median, e.p95, e.p99, e.max) for e in (a, b))
        return a if gradient is None else (a, b)


def _kernel(name, given):
    """Number and parameter of a kernel; parameters of other kernels are refused."""
    if name not in KERNELS:
        raise Error(f"sum: kernel {name!r}, expected one of {', '.join(KERNELS)}")
    number, wanted = KERNELS[name]
    for key, value in given.items():
        if key == wanted and value is None:
            raise Error(f"sum: kernel {name} needs {key}=")
        if key != wanted and value is not None:
            raise Error(f"sum: kernel {name} has no {key}")
    return number, 1.0 if wanted is None else float(given[wanted])
