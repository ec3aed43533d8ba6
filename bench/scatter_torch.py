#!/usr/bin/env python3
"""The zonal scatter in PyTorch, at the shapes of `farfield bench scatter`: composed of plain operations, eager and
compiled, beside the operator of python/farfield/scatter.py, in one run.

    bench/scatter_torch.py [--device cpu|cuda] [--library libfarfield.so] [--no-compile] [--repeat R] [--threads T]
                           [--shapes C,lmax[,skewed] ...] [--nodes N] [--edges E]

Random destinations, float32, Csr made before. A time is the median of R samples after two calls that warm up: on a GPU
each sample is the mean of 10 calls between two events, on the CPU one call. "graph" replays a captured CUDA graph, so
that PyTorch's own time on the host is left out. Peak: device memory of PyTorch above what the inputs take."""
import argparse
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))
import farfield  # noqa: E402
import farfield.scatter as fs  # noqa: E402


def sample_cuda(call, calls=10):
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return begin.elapsed_time(end) / calls


def sample_cpu(call):
    t0 = time.perf_counter()
    call()
    return 1e3 * (time.perf_counter() - t0)


def median_ms(device, repeat, call):
    for _ in range(2):
        call()
    return statistics.median((sample_cuda if device == "cuda" else sample_cpu)(call) for _ in range(repeat))


def destinations(n_nodes, n_edges, skewed):
    """Skewed: the share of the first x N nodes is the fourth root of x, as in `bench scatter`."""
    u = torch.rand(n_edges, dtype=torch.float64)
    return ((u ** 4 if skewed else u) * n_nodes).long().clamp_(max=n_nodes - 1)


def graphed(call):
    """call in a captured graph."""
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(3):
            call()
    torch.cuda.current_stream().wait_stream(side)
    g = torch.cuda.CUDAGraph()
    with torch.cuda.graph(g):
        call()
    return g.replay


def measure(a, name, f, inputs, cotangent, graph=False):
    def forward():
        with torch.no_grad():
            f(*inputs)

    def both():
        torch.autograd.grad(f(*inputs), inputs, cotangent)

    calls = [graphed(forward), graphed(both)] if graph else [forward, both]
    if a.device == "cuda":
        both()
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        both()
        torch.cuda.synchronize()
        peak = f"{(torch.cuda.max_memory_allocated() - before) / 2**20:8.0f} MiB"
    else:
        peak = ""
    times = [median_ms(a.device, a.repeat, c) for c in calls]
    print(f"  {name:20s} forward {times[0]:9.4f} ms   forward + backward {times[1]:9.4f} ms   {peak}", flush=True)


def run_shape(a, n_chan, lmax, skewed):
    torch.manual_seed(1)
    print(f"N {a.nodes}, E {a.edges}, C {n_chan}, lmax {lmax}, {'skewed' if skewed else 'even'} degrees", flush=True)
    rows = (lmax + 1) ** 2 - 1
    csr = fs.Csr(destinations(a.nodes, a.edges, skewed).to(a.device), a.nodes)
    inputs = [torch.randn(a.edges, rows, device=a.device).requires_grad_(),
              torch.randn(a.edges, lmax, n_chan, device=a.device).requires_grad_()]
    cotangent = torch.randn(a.nodes, rows + 1, n_chan, device=a.device)

    def composed(coupling, radial):
        return fs.zonal_scatter(coupling, radial, csr)

    def fused(coupling, radial):
        return fs.zonal_scatter(coupling, radial, csr, fused=True)

    difference = float((fused(*inputs) - composed(*inputs)).abs().max().detach())
    print(f"  largest difference {difference:.2e} of {float(composed(*inputs).abs().max().detach()):.3g}")
    measure(a, "PyTorch, eager", composed, inputs, cotangent)
    if not a.no_compile:
        torch._dynamo.reset()
        measure(a, "PyTorch, compiled", torch.compile(composed, dynamic=False), inputs, cotangent)
    measure(a, "farfield", fused, inputs, cotangent)
    if a.device == "cuda":
        measure(a, "farfield, graph", fused, inputs, cotangent, graph=True)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    p.add_argument("--library")
    p.add_argument("--no-compile", action="store_true")
    p.add_argument("--shapes", nargs="+", default=["32,3"])
    for name, value in (("nodes", 4096), ("edges", 622592), ("threads", 2), ("repeat", 5)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    if a.library:
        farfield.load(a.library)
    where = torch.cuda.get_device_name() if a.device == "cuda" else f"{a.threads} threads"
    print(f"PyTorch {torch.__version__}, {where}")
    for shape in a.shapes:
        part = shape.split(",")
        run_shape(a, int(part[0]), int(part[1]), len(part) > 2)
        if a.device == "cuda":
            torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
