"""Where arrays of sums live: NumPy arrays in host memory, or arrays of PyTorch or CuPy on a GPU. Both give contiguous float64
arrays, new ones, and addresses."""
import sys

import numpy as np

from ._lib import Error

_HOST, _CUDA = (1, 3), (2,)  # DLPack: kDLCPU, kDLCUDAHost; kDLCUDA
_NOWHERE = np.zeros(1)  # the address of no numbers: NULL would say that there is no array


def _checked(x, name, shape):
    if len(x.shape) != len(shape) or any(want is not None and want != n for n, want in zip(x.shape, shape)):
        want = ", ".join(("n", "dim")[min(k, 1)] if n is None else str(n) for k, n in enumerate(shape))
        raise Error(f"sum: {name} has shape {tuple(x.shape)}, expected ({want}{',' if len(shape) == 1 else ''})")
    return x


def _device_of(x):
    """DLPack's kind and number of a device; of a NumPy array or anything without the protocol, the host's."""
    if isinstance(x, np.ndarray) or not hasattr(x, "__dlpack_device__"):
        return 1, 0
    kind, number = x.__dlpack_device__()
    return int(kind), int(number)


class Host:
    """NumPy; anything else in host memory by DLPack or np.asarray."""
    call = "ff_sum_"
    stream = ()

    def array(self, x, name, shape):
        kind, number = _device_of(x)
        if np.ma.is_masked(x):
            raise Error(f"sum: {name} has masked elements, expected numbers everywhere")
        if kind not in _HOST:
            raise Error(f"sum: {name} lies on a device (DLPack type {kind}, number {number}), expected host memory as "
                        "of the sources: move it there first (PyTorch: .cpu(), CuPy: .get()), or give the sources "
                        "on the device as well")
        if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack_device__"):
            try:
                x = np.from_dlpack(x)
            except (BufferError, TypeError, RuntimeError) as e:
                raise Error(f"sum: {name} cannot be taken by DLPack: {e} (PyTorch: .detach(), float32 or float64)") from None
        try:
            x = np.asarray(x)
        except (TypeError, ValueError) as e:
            raise Error(f"sum: {name} is no array of numbers: {e}") from None
        if x.dtype.kind not in "fiu":
            raise Error(f"sum: {name} is {x.dtype}, expected real numbers")
        return np.ascontiguousarray(_checked(x, name, shape), dtype=np.float64)

    def empty(self, shape):
        return np.empty(shape)

    def at(self, x):
        return None if x is None else x.ctypes.data or _NOWHERE.ctypes.data

    def run(self, call, *args):
        return call(*args)


class Device:
    """A GPU, by the package that the sources come from; arrays of another package on the same GPU by DLPack. Calls are
    queued on that package's current stream of the time the sum was made, between what stands in the current one now and
    what comes there later."""
    call = "ff_sum_cuda_"

    def __init__(self, x, number):
        package = type(x).__module__.partition(".")[0]
        if package not in ("torch", "cupy"):  # a JAX array, say: results are CuPy's or PyTorch's
            package = "cupy" if "cupy" in sys.modules else "torch"
        try:
            self.xp = __import__(package)
        except ImportError:
            raise Error("sum: arrays on a GPU need PyTorch or CuPy") from None
        self.torch, self.number = package == "torch", number
        cuda = self.xp.cuda
        here = cuda.current_device() if self.torch else cuda.runtime.getDevice()
        if here != number:
            raise Error(f"sum: the sources lie on GPU {number}, the current one is {here}: make it current first")
        self._stream = cuda.current_stream() if self.torch else cuda.get_current_stream()  # kept alive
        self.stream = (self._stream.cuda_stream if self.torch else self._stream.ptr,)

    def array(self, x, name, shape):
        kind, number = _device_of(x)
        if kind not in _CUDA or number != self.number:
            raise Error(f"sum: {name} lies in memory of DLPack type {kind}, number {number}, expected GPU {self.number} "
                        "as the sources")
        own = self.xp.Tensor if self.torch else self.xp.ndarray
        try:
            x = x if isinstance(x, own) else self.xp.from_dlpack(x)
        except (BufferError, TypeError, RuntimeError) as e:
            raise Error(f"sum: {name} cannot be taken by DLPack: {e}") from None
        if self.torch and x.requires_grad:
            raise Error(f"sum: {name} requires a gradient: .detach() it; derivatives are those of adjoint()")
        if self.torch and (x.is_complex() or x.dtype == self.xp.bool) or not self.torch and x.dtype.kind not in "fiu":
            raise Error(f"sum: {name} is {x.dtype}, expected real numbers")
        _checked(x, name, shape)
        return x.to(self.xp.float64).contiguous() if self.torch else self.xp.ascontiguousarray(x, dtype=self.xp.float64)

    def empty(self, shape):
        if self.torch:
            return self.xp.empty(shape, dtype=self.xp.float64, device=f"cuda:{self.number}")
        return self.xp.empty(shape, dtype=self.xp.float64)

    def at(self, x):
        if x is None:
            return None
        return (x.data_ptr() if self.torch else x.data.ptr) or _NOWHERE.ctypes.data

    def run(self, call, *args):
        """The library works on its own stream and GPU; arrays are made, read and freed on what is current."""
        if sys.is_finalizing():
            return call(*args)
        cuda = self.xp.cuda
        with cuda.device(self.number) if self.torch else cuda.Device(self.number):
            now = cuda.current_stream() if self.torch else cuda.get_current_stream()
            self._after(self._stream, now)
            code = call(*args)
            self._after(now, self._stream)
        return code

    def _after(self, stream, other):
        if stream == other:
            return
        if self.torch:
            stream.wait_stream(other)
        else:
            stream.wait_event(other.record())


def place_of(x):
    kind, number = _device_of(x)
    return Device(x, number) if kind in _CUDA else Host()
