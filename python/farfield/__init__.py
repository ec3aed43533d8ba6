"""Python over farfield's C library (libfarfield.so): farfield.sum, sums of analytic kernels over NumPy
arrays; farfield.scatter, a PyTorch operator."""
from ._lib import Error, load

__all__ = ["Error", "load"]
