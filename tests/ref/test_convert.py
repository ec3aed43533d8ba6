#!/usr/bin/env python3
"""tools/farfield_convert.py: .mdlus -> HDF5 -> .mdlus keeps every key and every value; bad files are refused.

Everything is compared with ==. The cases that need PyTorch are skipped, and say so, where it is not installed
(tools/setup --torch installs it); the model file itself is tested without it.
"""
import collections
import importlib.util
import io
import json
import os
import pickle
import sys
import tarfile
import tempfile
import unittest
import zipfile

import h5py
import numpy as np

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tools"))
import farfield_convert as fc  # noqa: E402

try:
    import torch
except ImportError:
    torch = None
needs_torch = unittest.skipIf(torch is None, "PyTorch is not installed")

SEED = 20240611
CONFIG = {"n_spatial_dims": 2, "output_field_ranks": {"U/Uinf": 1, "C_p": 0},
          "boundary_source_data_ranks": {"wall/up": {"T": 0}, "far": {}}, "reference_length_names": ["b", "a"],
          "reference_area": 1.5, "global_data_ranks": None, "expand_far_targets": False, "theta": 0.9}


def some_tensors():
    rng = np.random.default_rng(SEED)
    keys = ["reference_area", "kernel_layers.0.wall/up.kernels.b.network._one",
            "kernel_layers.0.wall/up.log_scalefactors.b", "kernel_layers.0.far.kernels.a.network.layers.10.weight",
            "kernel_layers.0.far.kernels.a.network.layers.2.weight", "final_field_transforms.0.weight"]
    shapes = [(), (), (1,), (7, 5), (3, 7), (1, 1)]
    return {k: np.asarray(rng.standard_normal(s), dtype=np.float32) for k, s in zip(keys, shapes)}


class Case(unittest.TestCase):
    def setUp(self):
        self.dir = tempfile.TemporaryDirectory()
        self.addCleanup(self.dir.cleanup)

    def path(self, name):
        return os.path.join(self.dir.name, name)

    def convert(self, *args):
        """Exit code and what was printed."""
        old, sys.stderr, sys.stdout = (sys.stderr, sys.stdout), io.StringIO(), io.StringIO()
        try:
            code = fc.main(list(args))
            return code, sys.stderr.getvalue() + sys.stdout.getvalue()
        finally:
            sys.stderr, sys.stdout = old

    def same_arrays(self, a, b):
        self.assertEqual(list(a), list(b))  # keys and their order
        for key in a:
            self.assertEqual(a[key].dtype, b[key].dtype, key)
            self.assertEqual(a[key].shape, b[key].shape, key)
            self.assertEqual(a[key].tobytes(), b[key].tobytes(), key)


class ModelFile(Case):
    def test_keeps_keys_values_and_arguments(self):
        t = some_tensors()
        fc.write_model(self.path("m.h5"), CONFIG, t, "test")
        config, back, attrs, _ = fc.read_model(self.path("m.h5"))
        self.same_arrays(t, back)
        self.assertEqual(json.dumps(config), json.dumps(CONFIG))  # order too
        self.assertEqual(attrs["source"], "test")
        with h5py.File(self.path("m.h5")) as f:
            self.assertEqual(f.attrs["theta"], 0.9)
            self.assertEqual(f.attrs["global_data_ranks"], "null")
        self.assertFalse(os.path.exists(self.path("m.h5.tmp")))

    def test_digest_sees_a_change_of_name_shape_or_value(self):
        t = some_tensors()
        d = fc.digest(t)
        self.assertEqual(d, fc.digest(dict(reversed(t.items()))))
        key = "kernel_layers.0.far.kernels.a.network.layers.10.weight"
        for change in ({key: np.nextafter(t[key], np.float32(9))}, {key: t[key].reshape(5, 7)}):
            self.assertNotEqual(d, fc.digest({**t, **change}))
        renamed = {("x" if k == key else k): v for k, v in t.items()}
        self.assertNotEqual(d, fc.digest(renamed))

    def test_damage_is_found(self):
        fc.write_model(self.path("m.h5"), CONFIG, some_tensors(), "test")
        with h5py.File(self.path("m.h5"), "r+") as f:
            f["weights/final_field_transforms.0.weight"][0, 0] += 1
        with self.assertRaisesRegex(fc.ConvertError, "digest"):
            fc.read_model(self.path("m.h5"))

    def test_nan_is_refused(self):
        t = some_tensors()
        t["reference_area"] = np.float32(np.nan).reshape(())
        with self.assertRaisesRegex(fc.ConvertError, "reference_area"):
            fc.write_model(self.path("m.h5"), CONFIG, t, "test")

    def test_the_demo_model_is_whole(self):
        config, t, _, _ = fc.read_model(os.path.join(ROOT, "inputs", "ellipsoid_flow.h5"))
        self.assertEqual((config["theta"], config["leaf_size"], config["expand_far_targets"]), (1.0, 4, True))
        trained = sum(a.size for k, a in t.items() if not k.endswith("_one") and k != "reference_area")
        self.assertEqual(trained, 32474)

    @unittest.skipIf(torch is not None, "PyTorch is installed")
    def test_says_what_to_install(self):
        fc.write_model(self.path("m.h5"), CONFIG, some_tensors(), "test")
        code, text = self.convert(self.path("m.h5"), self.path("m.mdlus"))
        self.assertEqual(code, 1)
        self.assertIn("pip install torch", text)


@needs_torch
class Checkpoint(Case):
    def make(self, name, state, tar=False, args=None):
        model = io.BytesIO()
        torch.save(state, model)
        args = args or {"__name__": "GLOBE", "__module__": "somewhere.globe", "__args__": CONFIG}
        members = {"model.pt": model.getvalue(), "args.json": json.dumps(args).encode(),
                   "metadata.json": b'{"mdlus_file_version": "0.1.0"}'}
        if tar:
            with tarfile.open(self.path(name), "w") as t:
                for member, data in members.items():
                    info = tarfile.TarInfo("./" + member)
                    info.size = len(data)
                    t.addfile(info, io.BytesIO(data))
        else:
            with zipfile.ZipFile(self.path(name), "w", zipfile.ZIP_STORED) as z:
                for member, data in members.items():
                    z.writestr(member, data)
        return self.path(name)

    def round_trip(self, state, tar):
        src = self.make("a.mdlus", state, tar)
        self.assertEqual(self.convert(src, self.path("a.h5"))[0], 0)
        self.assertEqual(self.convert(self.path("a.h5"), self.path("b.mdlus"))[0], 0)
        args, metadata, back = fc.read_mdlus(self.path("b.mdlus"))
        self.assertEqual(list(back), list(state))
        for key in state:
            self.assertEqual(back[key].dtype, state[key].dtype, key)
            self.assertEqual(back[key].shape, state[key].shape, key)
            self.assertTrue(torch.equal(back[key], state[key]), key)
        self.assertEqual(json.dumps(args["__args__"]), json.dumps(CONFIG))
        self.assertEqual(args["__module__"], "somewhere.globe")
        self.assertEqual(json.loads(metadata), {"mdlus_file_version": "0.1.0"})

    def test_round_trip(self):
        state = collections.OrderedDict((k, torch.from_numpy(v)) for k, v in some_tensors().items())
        state["half"] = torch.arange(5, dtype=torch.float32).to(torch.bfloat16) / 3
        state["double"] = torch.linspace(0, 1, 7, dtype=torch.float64)
        for tar in (False, True):
            with self.subTest(tar=tar):
                for f in os.listdir(self.dir.name):
                    os.remove(self.path(f))
                self.round_trip(state, tar)

    def test_demo_model_there_and_back(self):
        src = os.path.join(ROOT, "inputs", "ellipsoid_flow.h5")
        self.assertEqual(self.convert(src, self.path("e.mdlus"))[0], 0)
        self.assertEqual(self.convert(self.path("e.mdlus"), self.path("e.h5"))[0], 0)
        a, b = fc.read_model(src), fc.read_model(self.path("e.h5"))
        self.same_arrays(a[1], b[1])
        self.assertEqual(json.dumps(a[0]), json.dumps(b[0]))

    def test_demo_model_equals_the_checkpoint_it_came_from(self):
        src = os.path.join(os.path.dirname(ROOT), "shared", "demo", "ellipsoid_flow.mdlus")
        if not os.path.exists(src):
            self.skipTest("../shared/demo is not there")
        state = fc.read_mdlus(src)[2]
        self.same_arrays({k: v.numpy() for k, v in state.items()},
                         fc.read_model(os.path.join(ROOT, "inputs", "ellipsoid_flow.h5"))[1])

    def test_code_in_a_checkpoint_is_not_run(self):
        mark = self.path("ran")

        class Trap:
            def __reduce__(self):
                return (os.mkdir, (mark,))

        args = json.dumps({"__name__": "GLOBE", "__args__": CONFIG})
        for data in (pickle.dumps(Trap()), self.torch_bytes({"x": Trap()})):
            with zipfile.ZipFile(self.path("t.mdlus"), "w") as z:
                z.writestr("model.pt", data)
                z.writestr("args.json", args)
            code, text = self.convert(self.path("t.mdlus"), self.path("t.h5"))
            self.assertEqual(code, 2, text)
            self.assertIn("model.pt", text)
            self.assertFalse(os.path.exists(mark))

    @staticmethod
    def torch_bytes(obj):
        f = io.BytesIO()
        torch.save(obj, f)
        return f.getvalue()

    @staticmethod
    def content(path):
        with open(path, "rb") as f:
            return f.read()

    def test_bad_files_are_refused_and_nothing_is_written(self):
        good = self.make("good.mdlus", {"a": torch.zeros(2)})
        whole = self.content(good)
        with open(self.path("cut.mdlus"), "wb") as f:
            f.write(whole[: len(whole) // 2])
        with open(self.path("text.mdlus"), "w") as f:
            f.write("not an archive\n" * 50)
        with zipfile.ZipFile(self.path("empty.mdlus"), "w") as z:
            z.writestr("args.json", "{}")
        self.make("other.mdlus", {"a": torch.zeros(2)}, args={"__name__": "FNO", "__args__": {}})
        for name in ("cut", "text", "empty", "other", "absent"):
            code, text = self.convert(self.path(name + ".mdlus"), self.path("out.h5"))
            self.assertEqual(code, 2, name)
            self.assertEqual(text.count("\n"), 1, text)
            self.assertIn(name + ".mdlus", text)
            self.assertFalse(os.path.exists(self.path("out.h5")), name)
        self.assertEqual(self.convert(good, good)[0], 2)  # exists
        self.assertEqual(self.content(good), whole)


if __name__ == "__main__":
    print(f"seed {SEED}; tolerance: none, all comparisons are exact")
    unittest.main(verbosity=2)
