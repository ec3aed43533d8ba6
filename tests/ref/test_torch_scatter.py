#!/usr/bin/env python3
"""The PyTorch operator of python/farfield/scatter.py against the composition of PyTorch operations: values, gradcheck
in float64, torch.compile, views, bad input; on the CPU and, where PyTorch sees one, on a GPU.

    FARFIELD_LIB=build/libfarfield.so tests/ref/test_torch_scatter.py"""
import os
import sys
import unittest

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "python"))

try:
    import torch
except ImportError:
    torch = None
else:
    import farfield
    import farfield.scatter as fs

SEED = 12
N, E = 7, 60


def devices():
    yield "cpu"
    if torch.cuda.is_available():
        yield "cuda"


def case(device, dtype, n_chan=5, lmax=3, full=True, grad=True, edges=E):
    g = torch.Generator().manual_seed(SEED)

    def draw(*shape):
        return torch.randn(*shape, generator=g, dtype=torch.float64).to(device, dtype).requires_grad_(grad)

    dst = torch.randint(N - 1, (edges,), generator=g).to(device)  # the last node has no edges
    csr = fs.Csr(dst, N)
    args = [draw(edges, (lmax + 1) ** 2 - 1), draw(edges, lmax, n_chan)]
    kw = {"spin_l1": draw(edges, 3, n_chan), "gate": draw(edges), "inv_sqrt_deg": draw(N)} if full else {}
    return csr, args, kw


def both(csr, args, kw):
    return (fs.zonal_scatter(*args, csr, fused=True, **kw), fs.zonal_scatter(*args, csr, **kw))


@unittest.skipIf(torch is None, "skipped: Python has no PyTorch (tools/setup --torch installs it)")
class TorchScatter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        print(f"seed {SEED}, PyTorch {torch.__version__}, {'with' if torch.cuda.is_available() else 'no'} GPU")
        lib = os.environ.get("FARFIELD_LIB")
        if lib:
            farfield.load(lib)

    def close(self, a, b, tol):
        a, b = a.detach(), b.detach()
        scale = max(float(b.abs().max()) if b.numel() else 0.0, 1e-30)
        err = float((a - b).abs().max()) / scale if b.numel() else 0.0
        self.assertLessEqual(err, tol)

    def test_values_and_gradients(self):
        # float32: short sums of 24-bit products in two orders; float64: the same in 53 bits.
        for device in devices():
            for dtype, tol in ((torch.float32, 2e-6), (torch.float64, 1e-13)):
                for n_chan, lmax, full in ((1, 1, True), (3, 6, True), (32, 3, False), (33, 2, True), (40, 4, True)):
                    csr, args, kw = case(device, dtype, n_chan, lmax, full)
                    a, b = both(csr, args, kw)
                    self.close(a, b, tol)
                    cot = torch.randn(b.shape, dtype=dtype).to(device)
                    inputs = args + list(kw.values())
                    for x, y in zip(torch.autograd.grad(a, inputs, cot), torch.autograd.grad(b, inputs, cot)):
                        self.close(x, y, 5 * tol)

    def test_gradcheck(self):
        for device in devices():
            csr, args, kw = case(device, torch.float64, 2, 2, edges=9)
            names = list(kw)

            def call(coupling, radial, *rest):
                return fs.zonal_scatter(coupling, radial, csr, fused=True, **dict(zip(names, rest)))

            self.assertTrue(torch.autograd.gradcheck(call, (*args, *kw.values())))

    def test_only_some_inputs_need_gradients(self):
        csr, args, kw = case("cpu", torch.float64, grad=False)
        args[1].requires_grad_()
        a, b = both(csr, args, kw)
        (x,), (y,) = torch.autograd.grad(a.sum(), args[1:]), torch.autograd.grad(b.sum(), args[1:])
        self.close(x, y, 1e-13)

    def test_views(self):
        for device in devices():
            csr, args, kw = case(device, torch.float64, 6, 3, grad=False)
            wide = torch.randn(E, 4, 9, dtype=torch.float64).to(device).requires_grad_()
            for view in (wide[:, :3, 2:8], wide[:, 1:4, :6].flip(2), wide[:, :3, ::2][:, :, :4].repeat(1, 1, 2)[..., :6],
                         wide[:, :3, :1].expand(E, 3, 6), wide.transpose(1, 2)[:, :6, :3].transpose(1, 2)):
                a, b = both(csr, [args[0], view], kw)
                self.close(a, b, 1e-13)
                (x,), (y,) = torch.autograd.grad(a.sum(), [wide]), torch.autograd.grad(b.sum(), [wide])
                self.close(x, y, 1e-13)

    def test_opcheck(self):
        csr, args, kw = case("cpu", torch.float64)
        torch.library.opcheck(torch.ops.farfield.zonal_scatter,
                              (*args, *kw.values(), csr.n_nodes, csr.handle))

    def test_compile(self):
        for device in devices():
            csr, args, kw = case(device, torch.float32, 8, 3)

            def model(coupling, radial, fused):
                return torch.tanh(fs.zonal_scatter(2 * coupling, radial, csr, fused=fused, **kw)).square().sum()

            # aot_eager traces forward and backward with fake tensors; inductor, which needs a compiler, on a GPU.
            compiled = torch.compile(model, backend="inductor" if device == "cuda" else "aot_eager", fullgraph=True)
            a, b = compiled(*args, True), model(*args, False)
            self.close(a, b, 2e-6)
            for x, y in zip(torch.autograd.grad(a, args), torch.autograd.grad(b, args)):
                self.close(x, y, 1e-5)

    def test_no_edges(self):
        for device in devices():
            csr = fs.Csr(torch.zeros(0, dtype=torch.int32, device=device), 4)
            x, y = torch.zeros(0, 8, device=device).requires_grad_(), torch.zeros(0, 2, 3, device=device)
            out = fs.zonal_scatter(x, y, csr, fused=True)
            self.assertEqual(out.shape, (4, 9, 3))
            self.assertEqual(float(out.detach().abs().sum()), 0)
            self.assertEqual(torch.autograd.grad(out.sum(), [x])[0].shape, (0, 8))

    def test_side_stream(self):
        if not torch.cuda.is_available():
            self.skipTest("skipped: PyTorch sees no GPU")
        csr, args, kw = case("cuda", torch.float32, 32, 3, grad=False)
        b = fs.zonal_scatter(*args, csr, **kw)
        s = torch.cuda.Stream()
        s.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(s):
            a = fs.zonal_scatter(*args, csr, fused=True, **kw)
        s.synchronize()
        self.close(a, b, 2e-6)

    def test_falls_back(self):
        csr, args, kw = case("cpu", torch.float16, grad=False)
        with self.assertLogs("farfield", "WARNING") as log:
            a, b = both(csr, args, kw)
        self.assertIn("float16", log.output[0])
        self.assertTrue(torch.equal(a, b))

    def test_bad_input(self):
        for device in devices():
            for bad in (-1, N):
                dst = torch.zeros(5, dtype=torch.int64, device=device)
                dst[3] = bad
                with self.assertRaisesRegex(farfield.Error, rf"dst\[3\] = {bad}, expected 0 to {N - 1}"):
                    fs.Csr(dst, N)
        csr, args, kw = case("cpu", torch.float64)
        with self.assertRaisesRegex(farfield.Error, "lmax = 2 with 15 rows"):
            fs.zonal_scatter(args[0], args[1][:, :2], csr, fused=True)
        with self.assertRaisesRegex(farfield.Error, "gate is"):
            fs.zonal_scatter(*args, csr, fused=True, gate=kw["gate"][1:])
        handle = csr.handle
        del csr
        with self.assertRaisesRegex(farfield.Error, "Csr is gone"):
            torch.ops.farfield.zonal_scatter(*args, None, None, None, N, handle)


if __name__ == "__main__":
    unittest.main(verbosity=2)
