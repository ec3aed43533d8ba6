#!/usr/bin/env python3
"""Which backend runs: a machine without a GPU (none is visible here), and where there is one, plan on it."""
import json
import os
import unittest
from unittest import mock

import ff_ref as ref

MODEL = os.path.join(ref.INPUTS, "ellipsoid_flow.h5")
no_gpu = mock.patch.dict(os.environ, CUDA_VISIBLE_DEVICES="")
GIVEN = ["-m", MODEL, "--set", "lengths.L=1", "--set", "global.U_dir=[0.8,0.6,0]"]


class Backend(ref.Case):
    def setUp(self):
        super().setUp()
        points, cells = ref.mi.icosphere(2)
        self.mesh = ref.write_obj(self.path("body.obj"), points, cells)

    def plan(self, *options, ranks=1):
        self.ok("plan", self.mesh, *options, "--json", self.path("plan.json"), "--force", ranks=ranks)
        with open(self.path("plan.json")) as f:
            found = json.load(f)
        return [{k: v for k, v in p.items() if k != "t_s"} for p in found["plans"]], found["list_bytes"]

    @no_gpu
    def test_without_gpu_the_cpu_evaluates(self):
        """A build with CUDA says so in one line, a build without it says nothing; both give the CPU's bits."""
        has_cuda = "no CUDA backend" not in ref.run("plan", self.mesh, "--backend", "cuda").err
        for ranks in (1, 2) if ref.MPIEXEC else (1,):
            r = self.ok("predict", self.mesh, *GIVEN, "-o", self.path("auto.vtkhdf"), "--force", ranks=ranks)
            lines = [line for line in (r.out + r.err).splitlines() if "GPU" in line]
            self.assertEqual(len(lines), int(has_cuda), lines)
            self.ok("predict", self.mesh, *GIVEN, "-o", self.path("cpu.vtkhdf"), "--backend", "cpu", "--force")
            ref.same_bits(self, ref.cell_data(self.path("auto.vtkhdf")), ref.cell_data(self.path("cpu.vtkhdf")), "auto")

    @no_gpu
    def test_without_gpu_cuda_is_refused(self):
        """The message says which of the two is missing, every verb that could use a GPU."""
        for args in (["predict", self.mesh, *GIVEN, "-o", self.path("o.h5")], ["plan", self.mesh],
                     ["sum", self.mesh, "--kernel", "1/r", "-o", self.path("s.h5")],
                     ["sum", "--generate", "uniform", "--n", "1000000000000"],  # before points are made
                     ["bench", "sum", "--n", "1000000000000"],
                     ["gradient", self.mesh, *GIVEN, "--of", "C_p", "-o", self.path("o.h5")],
                     ["train", "-m", MODEL, "--ellipsoids", "4", "--steps", "1", "-o", self.path("o.h5")],
                     ["bench", "globe", "--case", "car:1"]):
            r = ref.run(*args, "--backend", "cuda")
            self.assertEqual(r.code, 2, f"{args}: {r.err}")
            self.assertEqual(len(r.error_lines()), 1, r.err)
            self.assertRegex(r.err, "run.backend = cuda: (no GPU or no driver was found|this build has no CUDA backend)")
        self.assertFalse(os.path.exists(self.path("o.h5")))

    def test_plan_counts_alike_on_gpus(self):
        if ref.run("plan", self.mesh, "--backend", "cuda").code != 0:
            self.skipTest("skipped: no GPU here")
        for options in ([], ["--theta", "0.7", "--leaf-size", "5"], ["--expand-far"]):
            cpu = self.plan("--backend", "cpu", *options)
            for ranks in (1, 2, 3) if ref.MPIEXEC else (1,):
                self.assertEqual(self.plan("--backend", "cuda", *options, ranks=ranks), cpu, f"{options} {ranks}")


if __name__ == "__main__":
    unittest.main()
