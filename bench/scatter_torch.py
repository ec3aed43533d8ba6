#!/usr/bin/env python3
"""The zonal scatter composed of plain PyTorch operations on the CPU, at the shape of `farfield bench scatter`.

    bench/scatter_torch.py [--nodes N] [--edges E] [--channels C] [--lmax L] [--threads T] [--repeat R]

Random destinations, float32: gather of the radial features by row, multiply, index_add; backward by autograd.
Prints the best of R calls after one that warms up."""
import argparse
import time

import torch


def message_sum(dst, coupling, radial, slot, n_nodes):
    message = coupling.unsqueeze(-1) * radial[:, slot]
    out = message.new_zeros(n_nodes, coupling.shape[1] + 1, radial.shape[2])
    out[:, 1:].index_add_(0, dst, message)
    return out


def best(repeat, call):
    call()
    times = []
    for _ in range(repeat):
        t0 = time.perf_counter()
        call()
        times.append(time.perf_counter() - t0)
    return min(times)


def main():
    p = argparse.ArgumentParser()
    for name, value in (("nodes", 4096), ("edges", 622592), ("channels", 32), ("lmax", 3), ("threads", 2), ("repeat", 3)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args()
    torch.set_num_threads(a.threads)
    torch.manual_seed(1)
    rows = (a.lmax + 1) ** 2 - 1
    slot = torch.tensor([l - 1 for l in range(1, a.lmax + 1) for _ in range(2 * l + 1)])
    dst = torch.randint(a.nodes, (a.edges,))
    coupling = torch.randn(a.edges, rows, requires_grad=True)
    radial = torch.randn(a.edges, a.lmax, a.channels, requires_grad=True)
    cotangent = torch.randn(a.nodes, rows + 1, a.channels)

    def forward():
        with torch.no_grad():
            message_sum(dst, coupling, radial, slot, a.nodes)

    def both():
        coupling.grad = radial.grad = None
        message_sum(dst, coupling, radial, slot, a.nodes).backward(cotangent)

    t_fwd, t_both = best(a.repeat, forward), best(a.repeat, both)
    print(f"PyTorch {torch.__version__}, {a.threads} threads: forward {1e3 * t_fwd:.1f} ms, "
          f"forward + backward {1e3 * t_both:.1f} ms")


if __name__ == "__main__":
    main()
