"""Fused zonal scatter as a PyTorch operator (farfield_scatter.h), for CPU and CUDA tensors of float32 and float64.

    csr = farfield.scatter.Csr(dst, n_nodes)                     # once a graph
    out = farfield.scatter.zonal_scatter(coupling, radial, csr, fused=True)

    coupling      (E, D - 1), D = (lmax + 1)^2       spin_l1       (E, 3, C) or None
    radial        (E, lmax, C), any strides          gate          (E,) or (E, 1) or None
    out           (N, D, C), out[:, 0] = 0           inv_sqrt_deg  (N,) or None

    out[n, 1 + row] = inv_sqrt_deg[n] * sum over edges e with dst[e] = n of
                      (coupling[e, row] * radial[e, l(row) - 1] + spin_l1[e, row]) * gate[e]      (spin on l = 1 only)

fused=False, the default, composes the same sum of PyTorch operations (multiply, index_add); so does fused=True, with
one warning, for what the library does not serve (other types or devices, a library without CUDA). Both have
derivatives in every floating-point input and work under torch.compile; the fused one has no second derivatives.
Work is queued on PyTorch's current stream."""
import contextlib
import ctypes
import logging
import weakref

import torch

from ._lib import Error, ScatterGrad, ScatterIn, ScatterShape, check, load

__all__ = ["Csr", "zonal_scatter", "composed"]

_log = logging.getLogger("farfield")
_FUSED = 1
_REAL = {torch.float32: "f32", torch.float64: "f64"}
_csrs = weakref.WeakValueDictionary()  # handle -> Csr: what an operator may take is a number
_warned = set()


def _on(device):
    return torch.cuda.device(device) if device.type == "cuda" else contextlib.nullcontext()


def _stream(device):
    return torch.cuda.current_stream(device).cuda_stream if device.type == "cuda" else None


class Csr:
    """Edges by destination, built once a graph on dst's device. Keep it as long as a derivative may be taken."""

    def __init__(self, dst, n_nodes):
        """dst: (E,) int32 or int64, any order; a node out of range raises Error."""
        if dst.dim() != 1 or dst.dtype not in (torch.int32, torch.int64):
            raise Error(f"scatter: dst is {dst.dtype} {tuple(dst.shape)}, expected (E,) of int32 or int64")
        self.dst, self.n_nodes, self.n_edges = dst.contiguous(), int(n_nodes), dst.shape[0]
        self._lib, self._ptr = None, ctypes.c_void_p()
        self.fused = dst.device.type in ("cpu", "cuda")
        self.handle = id(self)
        _csrs[self.handle] = self
        name = "_i32" if dst.dtype == torch.int32 else ""
        data = ctypes.c_void_p(self.dst.data_ptr() if self.n_edges else None)
        if self.fused:
            self._lib = load()
            with _on(dst.device):
                if dst.device.type == "cpu":
                    check(getattr(self._lib, "ff_scatter_csr_create" + name)(data, self.n_edges, self.n_nodes,
                                                                              ctypes.byref(self._ptr)))
                else:
                    create = getattr(self._lib, "ff_scatter_csr_create_cuda" + name)
                    check(create(data, self.n_edges, self.n_nodes, _stream(dst.device), ctypes.byref(self._ptr)))

    def __del__(self):
        if getattr(self, "_lib", None) is not None and self._ptr:
            self._lib.ff_scatter_csr_destroy(ctypes.byref(self._ptr))


def _csr_of(handle):
    csr = _csrs.get(handle)
    if csr is None:
        raise Error("scatter: the Csr is gone; keep it until the last derivative was taken")
    return csr


def _pointer(x):
    return None if x is None or x.numel() == 0 else x.data_ptr()


def _radial(radial):
    """Adjacent channels, no broadcast; and strides as the library wants them."""
    stride = radial.stride()
    if stride[2] != 1 or 0 in stride:
        radial = radial.contiguous()
    return radial, (ctypes.c_int64 * 3)(*radial.stride())


def _inputs(csr, coupling, radial, spin_l1, gate, inv_sqrt_deg):
    """Structures of one call, and the tensors they point into."""
    radial, stride = _radial(radial)
    keep = [None if x is None else x.contiguous() for x in (coupling, spin_l1, gate, inv_sqrt_deg)]
    shape = ScatterShape(csr.n_nodes, coupling.shape[0], radial.shape[2], radial.shape[1])
    given = ScatterIn(ctypes.sizeof(ScatterIn), _pointer(keep[0]), _pointer(radial), stride, _pointer(keep[1]),
                      _pointer(keep[2]), _pointer(keep[3]), _stream(coupling.device))
    return shape, given, [radial, *keep]


# ---- the operator ----

_ARGS = "Tensor coupling, Tensor radial, Tensor? spin_l1, Tensor? gate, Tensor? inv_sqrt_deg, int n_nodes, int csr"


@torch.library.custom_op("farfield::zonal_scatter", mutates_args=(), schema=f"({_ARGS}) -> Tensor")
def _forward(coupling, radial, spin_l1, gate, inv_sqrt_deg, n_nodes, csr):
    c = _csr_of(csr)
    shape, given, keep = _inputs(c, coupling, radial, spin_l1, gate, inv_sqrt_deg)
    out = coupling.new_empty(n_nodes, coupling.shape[1] + 1, radial.shape[2])
    call = getattr(c._lib, "ff_scatter_forward_" + _REAL[coupling.dtype])
    with _on(coupling.device):
        check(call(c._ptr, ctypes.byref(shape), ctypes.byref(given), _FUSED, _pointer(out)))
    del keep
    return out


@_forward.register_fake
def _(coupling, radial, spin_l1, gate, inv_sqrt_deg, n_nodes, csr):
    return coupling.new_empty(n_nodes, coupling.shape[1] + 1, radial.shape[2])


@torch.library.custom_op("farfield::zonal_scatter_backward", mutates_args=(),
                         schema=f"(Tensor cotangent, {_ARGS}, bool[] need) -> Tensor[]")
def _backward(cotangent, coupling, radial, spin_l1, gate, inv_sqrt_deg, n_nodes, csr, need):
    c = _csr_of(csr)
    cotangent = cotangent.contiguous()
    shape, given, keep = _inputs(c, coupling, radial, spin_l1, gate, inv_sqrt_deg)
    grads = _empty_grads(coupling, radial, spin_l1, gate, inv_sqrt_deg, need)
    wanted = ScatterGrad(ctypes.sizeof(ScatterGrad), *[_pointer(g) for g in grads])
    call = getattr(c._lib, "ff_scatter_backward_" + _REAL[coupling.dtype])
    with _on(coupling.device):
        check(call(c._ptr, ctypes.byref(shape), ctypes.byref(given), _FUSED, _pointer(cotangent), ctypes.byref(wanted)))
    del keep
    return grads


def _empty_grads(coupling, radial, spin_l1, gate, inv_sqrt_deg, need):
    """Contiguous, whatever the inputs' strides; of size 0 where none is wanted."""
    return [coupling.new_empty(x.shape if x is not None and wanted else (0,))
            for x, wanted in zip((coupling, radial, spin_l1, gate, inv_sqrt_deg), need)]


@_backward.register_fake
def _(cotangent, coupling, radial, spin_l1, gate, inv_sqrt_deg, n_nodes, csr, need):
    return _empty_grads(coupling, radial, spin_l1, gate, inv_sqrt_deg, need)


def _setup(ctx, inputs, output):
    ctx.save_for_backward(*inputs[:5])
    ctx.n_nodes, ctx.csr = inputs[5:]


def _derivative(ctx, cotangent):
    need = [x is not None and wanted for x, wanted in zip(ctx.saved_tensors, ctx.needs_input_grad)]
    grads = _backward(cotangent, *ctx.saved_tensors, ctx.n_nodes, ctx.csr, need)
    return *[g if wanted else None for g, wanted in zip(grads, need)], None, None


_forward.register_autograd(_derivative, setup_context=_setup)


# ---- what is called ----

def _lmax(coupling, radial, csr, spin_l1, gate, inv_sqrt_deg):
    if coupling.dim() != 2 or radial.dim() != 3:
        raise Error("scatter: expected coupling (E, D - 1) and radial (E, lmax, C)")
    lmax, n_chan = radial.shape[1], radial.shape[2]
    if not 1 <= lmax <= 6 or coupling.shape[1] != (lmax + 1) ** 2 - 1:
        raise Error(f"scatter: lmax = {lmax} with {coupling.shape[1]} rows, expected 1 to 6 and (lmax + 1)^2 - 1 rows")
    expected = {"coupling": (coupling, (csr.n_edges, coupling.shape[1])),
                "radial": (radial, (csr.n_edges, lmax, n_chan)),
                "spin_l1": (spin_l1, (csr.n_edges, 3, n_chan)),
                "gate": (gate, (csr.n_edges,)),
                "inv_sqrt_deg": (inv_sqrt_deg, (csr.n_nodes,))}
    for name, (x, shape) in expected.items():
        if x is not None and (tuple(x.shape) != shape or x.dtype != coupling.dtype or x.device != coupling.device):
            raise Error(f"scatter: {name} is {x.dtype} {tuple(x.shape)} on {x.device}, expected {coupling.dtype} "
                        f"{shape} on {coupling.device}")
    return lmax


def composed(coupling, radial, csr, spin_l1=None, gate=None, inv_sqrt_deg=None):
    """The sum composed of PyTorch operations: the reference. The (E, D - 1, C) messages are stored."""
    lmax = radial.shape[1]
    slot = torch.tensor([l - 1 for l in range(1, lmax + 1) for _ in range(2 * l + 1)], device=radial.device)
    message = coupling.unsqueeze(-1) * radial.index_select(1, slot)
    if spin_l1 is not None:
        message = torch.cat([message[:, :3] + spin_l1, message[:, 3:]], dim=1)
    if gate is not None:
        message = message * gate[:, None, None]
    out = message.new_zeros(csr.n_nodes, message.shape[1], message.shape[2]).index_add(0, csr.dst, message)
    if inv_sqrt_deg is not None:
        out = out * inv_sqrt_deg[:, None, None]
    return torch.nn.functional.pad(out, (0, 0, 1, 0))


def _unsupported(coupling, csr):
    if coupling.dtype not in _REAL:
        return f"{coupling.dtype}, the library has float32 and float64"
    if not csr.fused:
        return f"tensors on {coupling.device}, the library has CPU and CUDA"
    if csr.dst.device != coupling.device:
        return f"dst on {csr.dst.device}, features on {coupling.device}"
    return None


def zonal_scatter(coupling, radial, csr, *, spin_l1=None, gate=None, inv_sqrt_deg=None, fused=False):
    """(N, D, C) sums of edge messages; shapes and meaning: the text of this module."""
    if gate is not None and gate.dim() == 2 and gate.shape[1] == 1:
        gate = gate[:, 0]
    _lmax(coupling, radial, csr, spin_l1, gate, inv_sqrt_deg)
    why = _unsupported(coupling, csr) if fused else None
    if why is not None and why not in _warned:
        _warned.add(why)
        _log.warning("scatter: %s: composed of PyTorch operations instead of the fused path", why)
    if not fused or why is not None:
        return composed(coupling, radial, csr, spin_l1, gate, inv_sqrt_deg)
    return torch.ops.farfield.zonal_scatter(coupling, radial, spin_l1, gate, inv_sqrt_deg, csr.n_nodes, csr.handle)
