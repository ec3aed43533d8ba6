"""libfarfield.so through ctypes: what the operators of this package call."""
import ctypes
import pathlib
import sysconfig

_library = None


class Error(RuntimeError):
    """A call of the library failed; the text is the library's."""


class ScatterShape(ctypes.Structure):
    _fields_ = [("n_nodes", ctypes.c_int64), ("n_edges", ctypes.c_int64), ("n_channels", ctypes.c_int64),
                ("lmax", ctypes.c_int)]


class ScatterIn(ctypes.Structure):
    """ff_scatter_in_f32 and _f64: the same layout."""
    _fields_ = [("size", ctypes.c_size_t), ("coupling", ctypes.c_void_p), ("radial", ctypes.c_void_p),
                ("radial_stride", ctypes.c_int64 * 3), ("spin_l1", ctypes.c_void_p), ("gate", ctypes.c_void_p),
                ("inv_sqrt_deg", ctypes.c_void_p), ("stream", ctypes.c_void_p)]


class ScatterGrad(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("coupling", ctypes.c_void_p), ("radial", ctypes.c_void_p),
                ("spin_l1", ctypes.c_void_p), ("gate", ctypes.c_void_p), ("inv_sqrt_deg", ctypes.c_void_p)]


class SumOpts(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("kernel", ctypes.c_int), ("parameter", ctypes.c_double),
                ("dipole", ctypes.c_bool), ("dim", ctypes.c_int), ("n_densities", ctypes.c_int),
                ("gradient", ctypes.c_bool), ("adjoint", ctypes.c_bool), ("single", ctypes.c_bool),
                ("rtol", ctypes.c_double), ("theta", ctypes.c_double), ("order", ctypes.c_int),
                ("leaf_size", ctypes.c_int), ("exact_within", ctypes.c_double), ("corners", ctypes.c_void_p)]


class SumInfo(ctypes.Structure):
    _fields_ = [("theta", ctypes.c_double), ("order", ctypes.c_int), ("leaf_size", ctypes.c_int),
                ("n_targets", ctypes.c_int64), ("n_sources", ctypes.c_int64), ("direct_pairs", ctypes.c_int64),
                ("far_pairs", ctypes.c_int64), ("proxies", ctypes.c_int64)]


class SumError(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("median", "p95", "p99", "max")]


def _declare_sum(lib):
    p, i64 = ctypes.c_void_p, ctypes.c_int64
    lib.ff_sum_create.argtypes = [p, i64, p, i64, ctypes.POINTER(SumOpts), ctypes.POINTER(p)]
    lib.ff_sum_destroy.argtypes, lib.ff_sum_destroy.restype = [ctypes.POINTER(p)], None
    lib.ff_sum_n_in.argtypes = lib.ff_sum_n_out.argtypes = [p]
    lib.ff_sum_apply.argtypes = lib.ff_sum_adjoint.argtypes = [p] * 4
    lib.ff_sum_adjoint_points.argtypes = [p] * 5
    lib.ff_sum_get_info.argtypes, lib.ff_sum_get_info.restype = [p, ctypes.POINTER(SumInfo)], None
    lib.ff_sum_check.argtypes = [p] * 4 + [i64] + [ctypes.POINTER(SumError)] * 2
    lib.ff_sum_cuda_create.argtypes = [p, i64, p, i64, ctypes.POINTER(SumOpts), p, ctypes.POINTER(p)]
    lib.ff_sum_cuda_destroy.argtypes, lib.ff_sum_cuda_destroy.restype = [ctypes.POINTER(p)], None
    lib.ff_sum_cuda_apply.argtypes = lib.ff_sum_cuda_adjoint.argtypes = [p] * 4
    lib.ff_sum_cuda_adjoint_points.argtypes = [p] * 5
    lib.ff_sum_cuda_get_info.argtypes, lib.ff_sum_cuda_get_info.restype = [p, ctypes.POINTER(SumInfo)], None
    lib.ff_sum_cuda_check.argtypes = [p] * 6 + [i64] + [ctypes.POINTER(SumError)] * 2 + [ctypes.POINTER(ctypes.c_double)]


def _declare(lib):
    p, i64 = ctypes.c_void_p, ctypes.c_int64
    lib.ff_error_text.restype = ctypes.c_char_p
    lib.ff_error_clear.restype = None
    out = ctypes.POINTER(p)
    for name in ("", "_i32"):
        getattr(lib, "ff_scatter_csr_create" + name).argtypes = [p, i64, i64, out]
        getattr(lib, "ff_scatter_csr_create_cuda" + name).argtypes = [p, i64, i64, p, out]
    lib.ff_scatter_csr_destroy.argtypes = [out]
    lib.ff_scatter_csr_destroy.restype = None
    shape, given, grad = (ctypes.POINTER(t) for t in (ScatterShape, ScatterIn, ScatterGrad))
    for real in ("f32", "f64"):
        getattr(lib, "ff_scatter_forward_" + real).argtypes = [p, shape, given, ctypes.c_int, p]
        getattr(lib, "ff_scatter_backward_" + real).argtypes = [p, shape, given, ctypes.c_int, p, grad]
    _declare_sum(lib)


def _places():
    """Beside this package; in the prefix or the repository above it; where the system's loader looks."""
    here = pathlib.Path(__file__).resolve().parent
    multiarch = sysconfig.get_config_var("MULTIARCH") or ""
    yield here / "libfarfield.so"
    for above in here.parents[1:5]:
        for folder in ("lib", "lib64", "lib/" + multiarch, "build", "build/quick"):
            if (above / folder / "libfarfield.so").exists():
                yield above / folder / "libfarfield.so"
    yield "libfarfield.so"


def load(path=None):
    """The library, loaded once. load(path) before the first use chooses the file; else libfarfield.so is looked for
    beside this package, in the prefix or repository it is part of, and where the system's loader looks."""
    global _library
    if _library is not None and path is None:
        return _library
    why = []
    for name in [path] if path else _places():
        try:
            library = ctypes.CDLL(str(name))
            _declare(library)
            _library = library
            return library
        except (OSError, AttributeError) as e:  # AttributeError: an older library lacks a function
            why.append(f"{name}: {e}")
    raise Error("no libfarfield.so could be used; farfield.load(path) names one\n  " + "\n  ".join(why))


def check(status):
    """Raises Error with the library's text unless status is FF_OK."""
    if status != 0:
        text = load().ff_error_text().decode(errors="replace")
        load().ff_error_clear()
        raise Error(text)
