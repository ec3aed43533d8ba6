#!/usr/bin/env python3
"""Models to PhysicsNeMo and back: PhysicsNeMo's own from_checkpoint loads what farfield trained, farfield reads what
PhysicsNeMo saves, weights are equal by key and value, and both evaluate the same fields. Runs where nvidia-physicsnemo
is installed beside h5py in the Python that runs the tests (docs/training.md), and is skipped elsewhere: it is large."""
import importlib.util
import os
import subprocess
import sys
import unittest
import warnings

import numpy as np

import ff_ref as ref

sys.path.insert(0, os.path.join(ref.ROOT, "tools"))
import farfield_convert as fc  # noqa: E402

TOLERANCE = 1e-5  # float32 sums in another order differ by 2e-7 to 5e-7 (relative L2)
CONSTANTS = ("._one", "reference_area")  # PhysicsNeMo's buffers, not trained


def constant(key):
    return key.endswith(CONSTANTS)


@unittest.skipUnless(importlib.util.find_spec("physicsnemo"), "skipped: nvidia-physicsnemo is not installed")
class PhysicsNeMo(ref.Case):
    @classmethod
    def setUpClass(cls):
        warnings.filterwarnings("ignore")

    def convert(self, src, dst):
        done = subprocess.run([sys.executable, os.path.join(ref.ROOT, "tools/farfield_convert.py"), src, dst],
                              capture_output=True, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return dst

    def same_weights(self, model, h5, what):
        _, tensors, _, _ = fc.read_model(h5)
        state = {k: v.detach().numpy() for k, v in model.state_dict().items()}
        self.assertEqual({k for k in state if not constant(k)}, {k for k in tensors if not constant(k)}, what)
        for key in tensors:
            np.testing.assert_array_equal(state[key], tensors[key], f"{what}: {key}")
        return sum(v.size for k, v in state.items() if not constant(k))

    def theirs(self, model, meshes, lengths, global_data, at):
        """Fields at the centroids of boundary `at`. meshes: name -> (points, cells, fields)"""
        import torch
        from physicsnemo.mesh import Mesh
        from tensordict import TensorDict

        def floats(a):
            return torch.as_tensor(np.asarray(a, np.float32))

        bodies = {}
        for name, (points, cells, fields) in meshes.items():
            data = TensorDict({k: floats(v) for k, v in fields.items()}, batch_size=[len(cells)])
            bodies[name] = Mesh(points=floats(points), cells=torch.as_tensor(np.asarray(cells, np.int64)), cell_data=data)
        with torch.no_grad():
            out = model(prediction_points=bodies[at].cell_centroids, boundary_meshes=bodies,
                        reference_lengths={k: torch.tensor(float(v)) for k, v in lengths.items()},
                        global_data=TensorDict({k: floats(v) for k, v in global_data.items()}),
                        prediction_chunk_size=None)
        return {k: out.point_data[k].numpy() for k in out.point_data.keys()}

    def ours(self, h5, meshes, lengths, global_data, at):
        args = ["-m", h5, "--target-boundary", at]
        for name, (points, cells, fields) in meshes.items():
            args.insert(0, f"{name}=" + ref.write_vtp(self.path(name + ".vtp"), points, cells, fields))
        for k, v in lengths.items():
            args += ["--set", f"lengths.{k}={v}"]
        for k, v in global_data.items():
            text = "[" + ",".join(repr(float(x)) for x in v) + "]" if np.ndim(v) else repr(float(v))
            args += ["--set", f"global.{k}={text}"]
        return self.predict(args)

    def same_fields(self, model, h5, meshes, lengths, global_data, at, what):
        a, b = (f(m, meshes, lengths, global_data, at) for f, m in ((self.ours, h5), (self.theirs, model)))
        for name in b:
            error = ref.rel_l2(a[name], b[name])
            print(f"{what}: {name} differs by {error:.1e} of {TOLERANCE:.0e}", flush=True)
            self.assertLess(error, TOLERANCE, f"{what}: {name}")

    def test_what_farfield_trained(self):
        import physicsnemo

        fresh = self.path("fresh.h5")
        self.ok("train", "--architecture", os.path.join(ref.INPUTS, "ellipsoid_small.json"), "--ellipsoids", 8, "--splits",
                1, "--steps", 3, "--batch", 2, "--validation-bodies", 0, "--backend", "cpu", "-o", fresh)
        points, cells, _, _ = ref.mi.ellipsoid(np.array([1.7, 1, 1 / 1.7]), ref.mi.rotation(0.5, 0.3), 3, np.array([1.0, 0, 0]))
        case = ({"body": (np.float32(points), cells, {})}, {"L": 1}, {"U_dir": [0.6, 0.0, -0.8]}, "body")
        for h5 in (os.path.join(ref.INPUTS, "ellipsoid_own.h5"), fresh):
            what = os.path.basename(h5)
            model = physicsnemo.Module.from_checkpoint(self.convert(h5, self.path(what + ".mdlus")))
            self.assertEqual(type(model).__name__, "GLOBE")
            print(f"\n{what}: {self.same_weights(model, h5, what)} values equal")
            self.same_fields(model, h5, *case, what)

    def test_what_physicsnemo_saves(self):
        import torch
        from physicsnemo.experimental.models.globe.model import GLOBE

        rng = np.random.default_rng(5)
        body, cells, _, _ = ref.mi.ellipsoid(np.array([1.3, 1, 0.7]), ref.mi.rotation(0.2, 0.9), 2, np.array([1.0, 0, 0]))
        wall = (np.float32(body * [1, 1, 0.4] + [0.2, 0, 1.5]), cells)  # names that end like PhysicsNeMo's constants
        n = len(cells)
        meshes = {"zone_one": (np.float32(body), cells, {"q": rng.normal(size=n).astype(np.float32)}),
                  "wall": (*wall, {"shear": rng.normal(size=(n, 3)).astype(np.float32)})}
        for network in ("pade", "mlp"):
            torch.manual_seed(3)
            model = GLOBE(n_spatial_dims=3, output_field_ranks={"p": 0, "tau": 1},
                          boundary_source_data_ranks={"zone_one": {"q": 0}, "wall": {"shear": 1}},
                          reference_length_names=["L", "d_one"], reference_area=0.5,
                          global_data_ranks={"U_dir": 1, "Re": 0}, n_communication_hyperlayers=1, n_latent_scalars=3,
                          n_latent_vectors=2, hidden_layer_sizes=[24, 16], n_spherical_harmonics=3, theta=1.0, leaf_size=3,
                          network_type=network, self_regularization_beta=0.01 if network == "pade" else None,
                          latent_compression_scale=10.0)
            model.save(self.path(network + ".mdlus"))
            h5 = self.convert(self.path(network + ".mdlus"), self.path(network + ".h5"))
            print(f"\n{network}: {self.same_weights(model, h5, network)} values equal")
            for at in meshes:
                self.same_fields(model, h5, meshes, {"L": 1.5, "d_one": 0.2}, {"U_dir": [0.6, 0.0, -0.8], "Re": 3.5}, at,
                                 f"{network} at {at}")


if __name__ == "__main__":
    unittest.main(verbosity=2)
