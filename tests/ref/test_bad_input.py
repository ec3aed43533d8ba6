#!/usr/bin/env python3
"""Bad input ends with exit code 2, one clear line, nothing written, and no hang, on one and on two ranks. Failing
writes end with exit code 1. Unknown keys and verbs are refused in under a second."""
import json
import os
import re
import shutil
import struct
import subprocess
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import h5py
import numpy as np

import ff_ref as ref

fc = ref.mi.fc
MODEL = os.path.join(ref.INPUTS, "ellipsoid_flow.h5")
BODY = os.path.join(ref.INPUTS, "ellipsoid.vtp")
GIVEN = ["--set", "lengths.L=1", "--set", "global.U_dir=[1,0,0]"]


class BadInput(ref.Case):
    def setUp(self):
        super().setUp()
        self.table = []

    def refused(self, args, *words, ranks=(1, 2), code=2):
        """The program ends with this code and one error line that holds every word; no new file appears."""
        before = self.files()
        with ThreadPoolExecutor() as pool:  # at the same time: mpirun takes a second to end a failed run
            runs = list(pool.map(lambda n: ref.run(*args, ranks=n, timeout=60), ranks))
        for n, r in zip(ranks, runs):
            lines = r.error_lines()
            what = f"{' '.join(map(str, args))} on {n} ranks\n{r.out}\n{r.err}"
            self.assertEqual(r.code, code, what)
            self.assertEqual(len(lines), 1, what)
            for w in words:
                self.assertIn(str(w), lines[0], what)
            self.assertEqual(self.files(), before, what)
        print(f"\n  exit {code}  {lines[0].replace(self.dir.name + '/', '')}", end="", flush=True)

    def files(self):
        return sorted(os.path.join(d, f) for d, _, fs in os.walk(self.dir.name) for f in fs)

    def write(self, name, data):
        with open(self.path(name), "wb" if isinstance(data, bytes) else "w") as f:
            f.write(data)
        return self.path(name)

    def predict_args(self, *mesh, model=MODEL, given=GIVEN, out="o.vtkhdf"):
        return ["predict", *mesh, "-m", model, "-o", self.path(out), *given]

    def sphere(self, splits=1):
        p, c = ref.mi.icosphere(splits)
        return p, c

    # ---- mesh files ----

    def test_stl(self):
        p, c = self.sphere()
        good = self.path("good.stl")
        ref.mi.write_stl(good, p, c)
        with open(good, "rb") as f:
            data = f.read()
        self.refused(self.predict_args(self.write("cut.stl", data[: len(data) // 2])), "cut.stl")
        self.refused(self.predict_args(self.write("less.stl", data[:80] + struct.pack("<I", len(c) - 1) + data[84:])),
                     "less.stl", len(c) - 1)
        self.refused(self.predict_args(self.write("more.stl", data[:80] + struct.pack("<I", len(c) + 1) + data[84:])),
                     "more.stl", len(c) + 1)
        nan = bytearray(data)
        nan[84 + 50 * 3 + 12: 84 + 50 * 3 + 16] = struct.pack("<f", float("nan"))
        self.refused(self.predict_args(self.write("nan.stl", bytes(nan))), "nan.stl", "finite")
        text = "solid a\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\nendfacet\n"
        self.refused(self.predict_args(self.write("text.stl", text + "facet normal 0 0 1\nouter loop\nvertex 0 0")),
                     "text.stl", "line")
        self.refused(self.predict_args(self.write("inf.stl", text.replace("1 0 0\n", "inf 0 0\n") + "endsolid a\n")),
                     "inf.stl", "finite")
        # finite, but float32 cannot hold its square
        self.refused(self.predict_args(self.write("far.stl", text.replace("1 0 0\n", "3e38 0 0\n") + "endsolid a\n")),
                     "far.stl", "3e+38", "1e18")
        self.refused([*self.predict_args(good), "--scale", "1e300"], "good.stl", "1e18", "--scale")

    def test_obj(self):
        v = "v 0 0 0\nv 1 0 0\nv 0 1 0\n"
        for name, line in (("zero", "f 0 1 2"), ("high", "f 1 2 4"), ("low", "f -1 -2 -4"), ("two", "f 1 2"),
                           ("word", "f 1 2 x")):
            self.refused(self.predict_args(self.write(name + ".obj", v + line + "\n")), name + ".obj", "line 4")
        self.refused(self.predict_args(self.write("nan.obj", "v 0 nan 0\n" + v + "f 1 2 3\n")), "nan.obj", "line 1")

    def test_ply(self):
        head = ("ply\nformat ascii 1.0\nelement vertex 3\nproperty float x\nproperty float y\nproperty float z\n"
                "element face 1\nproperty list uchar int vertex_indices\nend_header\n")
        v = "0 0 0\n1 0 0\n0 1 0\n"
        for name, rows in (("short", "0 0 0\n1 0 0\n3 0 1 2\n"), ("none", v), ("id", v + "3 0 1 3\n"),
                           ("long", v + "3 0 1 2\n3 0 1 2\n"), ("list", v + "4 0 1 2\n")):
            self.refused(self.predict_args(self.write(name + ".ply", head + rows)), name + ".ply")

    def test_vtp(self):
        with open(BODY, "rb") as f:
            data = f.read()
        self.refused(self.predict_args(self.write("enc.vtp", data.replace(b'encoding="raw"', b'encoding="zip"'))),
                     "enc.vtp", "zip")
        self.refused(self.predict_args(self.write("cut.vtp", data[: len(data) * 2 // 3])), "cut.vtp")
        for count, less in (("Polys", 5119), ("Points", 2561)):
            other = re.sub(rf'NumberOf{count}="\d+"'.encode(), f'NumberOf{count}="{less}"'.encode(), data)
            self.refused(self.predict_args(self.write("less.vtp", other)), "less.vtp", "more than the expected")
        self.refused(self.predict_args(self.write("xml.vtp", data[:400])), "xml.vtp")

    def test_hdf5(self):
        with open(MODEL, "rb") as f:
            data = f.read()
        self.refused(self.predict_args(self.write("foreign.vtkhdf", data)), "foreign.vtkhdf")
        self.refused(self.predict_args(self.write("cut.vtkhdf", data[: len(data) // 2])), "cut.vtkhdf")
        self.refused(self.predict_args(BODY, model=self.write("cut.h5", data[: len(data) // 2])), "cut.h5")
        with h5py.File(self.path("other.h5"), "w") as f:
            f["x"] = 1.0
        self.refused(self.predict_args(BODY, model=self.path("other.h5")), "other.h5")

    def test_vtkhdf_places(self):
        """Numbers in messages are those of the file, whichever rank reads that part of it."""
        self.ok("convert", BODY, self.path("good.vtkhdf"))
        for name, change, words in (
                ("nan", lambda f: f["Points"].__setitem__((2000, 1), np.nan), ["point 2000"]),
                ("id", lambda f: f["Polygons/Connectivity"].__setitem__(15000, 9999), ["connectivity 15000", "9999"]),
                ("off", lambda f: f["Polygons/Offsets"].__setitem__(5000, 0), ["cell 4999", "ends at 0", "14997"]),
                ("version", lambda f: f.attrs.__setitem__("Version", [3, 1]), ["Version 3.1"])):
            path = self.path(name + ".vtkhdf")
            shutil.copy(self.path("good.vtkhdf"), path)
            with h5py.File(path, "r+") as f:
                change(f["VTKHDF"])
            self.refused(self.predict_args(path), name + ".vtkhdf", *words, ranks=(1, 3))

    def test_files_that_are_no_meshes(self):
        self.refused(self.predict_args(self.path("absent.stl")), "absent.stl")
        self.refused(self.predict_args(self.dir.name), self.dir.name)
        self.refused(self.predict_args(self.write("x.stl.part", b"solid a\nendsolid a\n")), "x.stl.part", "part")
        self.refused(self.predict_args(self.write("empty.stl", b"")), "empty.stl")
        self.refused(self.predict_args(self.write("x.xyz", b"hello\n")), "x.xyz")

    def test_no_faces(self):
        empty = ref.write_obj(self.path("e.obj"), [[0, 0, 0], [1, 0, 0]])
        self.refused(self.predict_args(empty), "e.obj", "face")
        self.refused(self.predict_args(f"vehicle={empty}", f"slip_floor={empty}",
                                       model=os.path.join(ref.INPUTS, "car_random.h5"),
                                       given=["--set", "lengths.L_ref=1", "--set", "lengths.delta_turb=1"]),
                     "e.obj", "face")
        self.refused(self.predict_args("body="), "body=", "name=file")

    def test_unfinished_downloads(self):
        with open(MODEL, "rb") as f:
            model = self.write("m.h5.part", f.read())
        self.refused(self.predict_args(BODY, model=model), "m.h5.part", "unfinished")
        self.refused(["info", model], "m.h5.part", "unfinished", ranks=(1,))
        deck = self.write("d.yaml.part", "plan: {theta: 1}\n")
        self.refused([*self.predict_args(BODY), "-c", deck], "d.yaml.part", "unfinished")

    def test_targets(self):
        for name, text, words in (("empty.csv", "", ["no point"]), ("names.csv", "x,y,z\n", ["no point"]),
                                  ("two.csv", "1,2\n", ["2 columns", "3D"]), ("word.csv", "1,2,3\n1,a,3\n", ["line 2", "a"]),
                                  ("four.csv", "1,2,3,4\n", ["line 1"]), ("mixed.csv", "1,2,3\n1,2\n", ["line 2"]),
                                  ("nan.csv", "1,2,3\nnan,2,3\n", ["finite"]), ("far.csv", "1e39,0,0\n", ["1e18"])):
            self.refused([*self.predict_args(BODY), "--targets", self.write(name, text)], name, *words,
                         ranks=(1, 2) if name in ("empty.csv", "two.csv", "word.csv") else (1,))
        self.refused([*self.predict_args(BODY), "--targets", self.path("absent.csv")], "absent.csv")
        self.refused([*self.predict_args(BODY), "--targets", self.dir.name], self.dir.name)
        self.refused([*self.predict_args(BODY), "--target-boundary", "zz"], "zz")

    # ---- model and case ----

    def test_boundary_names(self):
        self.refused(self.predict_args(f"wall={BODY}"), "wall", "body")
        car = self.predict_args(BODY, model=os.path.join(ref.INPUTS, "car_random.h5"),
                                given=["--set", "lengths.L_ref=1", "--set", "lengths.delta_turb=1"])
        self.refused(car, "vehicle")

    def field_model(self, **fields):
        config = {"n_spatial_dims": 3, "output_field_ranks": {"p": 0}, "boundary_source_data_ranks": {"body": fields},
                  "reference_length_names": ["L"], "reference_area": 1.0, "hidden_layer_sizes": [8],
                  "n_latent_scalars": 2, "n_latent_vectors": 1}
        ref.mi.random_model(self.path("f.h5"), config, 1)
        return self.path("f.h5")

    def test_fields(self):
        p, c = self.sphere()
        n, given = len(c), ["--set", "lengths.L=1"]
        model = self.field_model(temp=0)
        ref.mi.write_vtp(self.path("none.vtp"), p, c, {})
        self.refused(self.predict_args(self.path("none.vtp"), model=model, given=given), "temp")
        ref.mi.write_vtp(self.path("vector.vtp"), p, c, {"temp": np.ones((n, 3))})
        self.refused(self.predict_args(self.path("vector.vtp"), model=model, given=given), "temp", "3")
        with open(self.path("vector.vtp"), "rb") as f:
            text = f.read()
        ref.mi.write_vtp(self.path("good.vtp"), p, c, {"temp": np.ones(n)})
        self.ok(*self.predict_args(self.path("good.vtp"), model=model, given=given, out="good.vtkhdf"))
        # the same array as point data (its length is that of the points)
        ref.mi.write_vtp(self.path("point.vtp"), p, c, {"temp": np.ones(len(p))})
        with open(self.path("point.vtp"), "rb") as f:
            text = f.read().replace(b"CellData", b"PointData")
        self.refused(self.predict_args(self.write("point.vtp", text), model=model, given=given), "temp", "point")
        ref.mi.write_vtp(self.path("nan.vtp"), p, c, {"temp": np.full(n, np.nan)})
        self.refused(self.predict_args(self.path("nan.vtp"), model=model, given=given), "temp", "finite", "cell 0")
        last = np.arange(n) == n - 1
        ref.mi.write_vtp(self.path("last.vtp"), p, c, {"temp": np.where(last, np.inf, 1)})
        self.refused(self.predict_args(self.path("last.vtp"), model=model, given=given), "temp", f"cell {n - 1}",
                     ranks=(1, 3))
        for name, weights, words in (("nan", np.where(last, np.nan, 1), ["finite"]), ("vector", np.ones((n, 3)), ["3"])):
            ref.mi.write_vtp(self.path("w.vtp"), p, c, {"temp": np.ones(n), "_measure_weights": weights})
            self.refused(self.predict_args(self.path("w.vtp"), model=model, given=given), "_measure_weights", *words)

    def test_lengths_and_globals(self):
        u = ["--set", "global.U_dir=[1,0,0]"]
        self.refused(self.predict_args(BODY, given=u), "L")
        self.refused(self.predict_args(BODY, given=[*u, "--set", "lengths.L=0"]), "lengths.L", "0")
        self.refused(self.predict_args(BODY, given=[*u, "--set", "lengths.L=-2"]), "lengths.L", "-2")
        self.refused(self.predict_args(BODY, given=[*u, "--set", "lengths.L=nan"]), "lengths.L")
        self.refused(self.predict_args(BODY, given=["--set", "lengths.L=1"]), "U_dir")
        self.refused(self.predict_args(BODY, given=["--set", "lengths.L=1", "--set", "global.U_dir=[1,0]"]), "U_dir")
        self.refused(self.predict_args(BODY, given=["--set", "lengths.L=1", "--set", "global.U_dir=1"]), "U_dir")
        self.refused(self.predict_args(BODY, given=[*GIVEN, "--set", "global.alpha=1"]), "alpha")
        self.refused(self.predict_args(BODY, given=[*GIVEN, "--set", "lengths.M=1"]), "M")

    def test_model_tensors(self):
        config, tensors, _, _ = fc.read_model(MODEL)
        key = "kernel_layers.1.body.kernels.L.network.combined_mlp.layers.2.weight"
        fc.write_model(self.path("shape.h5"), config, {**tensors, key: tensors[key][:, :-1]}, "test")
        self.refused(self.predict_args(BODY, model=self.path("shape.h5")), key, "64")
        fc.write_model(self.path("less.h5"), config, {k: v for k, v in tensors.items() if k != key}, "test")
        self.refused(self.predict_args(BODY, model=self.path("less.h5")), key)
        for change in ({"theta": -1}, {"leaf_size": 0}, {"leaf_size": 65}, {"n_spatial_dims": 4},
                       {"network_type": "cnn"}, {"self_regularization_beta": -1}):
            fc.write_model(self.path("c.h5"), {**config, **change}, tensors, "test")
            self.refused(self.predict_args(BODY, model=self.path("c.h5")), next(iter(change)))
        with h5py.File(self.path("c.h5"), "r+") as f:
            f.attrs["config_json"] = json.dumps(config)[:-9]
        self.refused(self.predict_args(BODY, model=self.path("c.h5")), "c.h5")
        fc.write_model(self.path("d.h5"), config, tensors, "test")
        with h5py.File(self.path("d.h5"), "r+") as f:
            f["weights"][key][1, 2] *= 1.001
        self.refused(self.predict_args(BODY, model=self.path("d.h5")), "d.h5", "digest", "damaged")

    def test_steps(self):
        p, c = self.sphere()
        ref.mi.write_stl(self.path("b.stl"), p, c)
        ref.write_obj(self.path("b.obj"), p, c)
        for name, what in (("b.stl", "STL"), ("b.obj", "OBJ"), (BODY, "VTK XML")):
            self.refused([*self.predict_args(self.path(name)), "--step", "5"], "step = 5", what)

    def test_options(self):
        for option, words in ((["--theta", "-1"], ["theta", "-1"]), (["--leaf-size", "0"], ["leaf_size", "0"]),
                              (["--leaf-size", "65"], ["leaf_size", "65"]), (["--theta", "nan"], ["theta"]),
                              (["--precision", "bf16"], ["bf16"]), (["--precision", "tf32"], ["tf32"]),
                              (["--backend", "cuda"], ["cuda"]), (["--scale", "0"], ["scale"])):
            self.refused([*self.predict_args(BODY), *option], *words)
        self.refused(self.predict_args(BODY, out="o.xyz"), "o.xyz")
        self.refused(self.predict_args(BODY, out="no/such/folder.vtkhdf"), "folder.vtkhdf")

    def test_output_exists(self):
        out = self.write("o.vtkhdf", b"mine")
        self.refused(self.predict_args(BODY), "o.vtkhdf", "--force")
        with open(out, "rb") as f:
            self.assertEqual(f.read(), b"mine")
        self.refused([*self.predict_args(BODY, out="new.h5"), "--json", self.path("new.h5")], "new.h5", "same")
        os.mkdir(self.path("folder.vtp"))
        self.refused([*self.predict_args(BODY, out="folder.vtp"), "--force"], "folder.vtp")

    # ---- command line and deck ----

    def test_unknown_words(self):
        deck = self.write("d.yaml", "plan:\n  thteta: 1\n")
        for args, words in ((["pedict"], ["pedict", "predict"]), ([*self.predict_args(BODY), "--thteta", "1"], ["theta"]),
                            ([*self.predict_args(BODY), "--set", "plan.thteta=1"], ["thteta", "theta"]),
                            ([*self.predict_args(BODY), "-c", deck], ["d.yaml:2", "thteta", "theta"])):
            start = time.monotonic()
            self.refused(args, *words, ranks=(1,))
            self.assertLess(time.monotonic() - start, 1)
            self.refused(args, *words, ranks=(2,))

    def test_decks(self):
        for name, text, words in (("syntax", "mesh: [a\nmodel: x\n", ["syntax.yaml"]),
                                  ("type", "plan:\n  theta: many\n", ["type.yaml:2", "theta", "many"]),
                                  ("range", "plan:\n  theta: -2\n", ["range.yaml:2", "theta", "-2"])):
            deck = self.write(name + ".yaml", text)
            self.refused([*self.predict_args(BODY), "-c", deck], *words)
        self.refused([*self.predict_args(BODY), "-c", self.path("absent.yaml")], "absent.yaml")

    # ---- failures while running ----

    def on_small_disk(self, options, args, out):
        """Run predict with its output on a file system of its own, mounted for this process alone."""
        disk = self.path("disk")
        os.makedirs(disk, exist_ok=True)
        who = [] if os.getuid() == 0 else ["--map-root-user"]
        shell = f'mount -t tmpfs -o {options} none "$0" || exit 77; "$@"; code=$?; ls -A "$0" >&2; exit $code'
        done = subprocess.run(["unshare", "--mount", *who, "sh", "-c", shell, disk, ref.FARFIELD,
                               *self.predict_args(*args, out=os.path.join("disk", out))], capture_output=True,
                              text=True, timeout=60, stdin=subprocess.DEVNULL)
        if done.returncode == 77 or "unshare" in done.stderr:
            self.skipTest("skipped: no file system may be mounted here")
        return done

    def test_failing_writes(self):
        # A disk of 64 KiB, too small for the result, and one that cannot be written to.
        for options, how in (("size=64k", "full"), ("ro", "read-only")):
            for out in ("o.vtkhdf", "o.vtp", "o.h5"):
                r = self.on_small_disk(options, [BODY], out)
                lines = r.stderr.splitlines()
                errors = [line for line in lines if line.startswith("farfield: error")]
                self.assertEqual((r.returncode, len(errors)), (1, 1), f"{how}, {out}: {r.stdout}\n{r.stderr}")
                self.assertIn(out, errors[0])
                self.assertEqual(lines[-1], errors[0], f"{how}: a file was left behind: {lines[-1]}")
                print(f"\n  exit 1  {how}: {errors[0].replace(self.dir.name + '/', '')}", end="", flush=True)

    def test_budget(self):
        self.refused([*self.predict_args(BODY), "--memory", "1MiB"], "memory", code=1)

    # ---- warnings, not errors ----

    def test_warnings(self):
        p, c = self.sphere()
        for name, points, word in (("mm", p * 700, "--scale"), ("far", p + [1e5, 0, 0], "origin")):
            ref.write_obj(self.path(name + ".obj"), points, c)
            r = self.ok("check", self.path(name + ".obj"))
            self.assertIn("warning", r.err)
            self.assertIn(word, r.err)

    def test_what_is_read_all_the_same(self):
        p, c = self.sphere(0)
        tri = p[c]
        lines = [" solid with blank"]
        for t in tri:
            lines += ["facet normal 0 0 0", " outer loop"]
            lines += ["  vertex " + " ".join(f"{v:.8g}" for v in x) for x in t] + [" endloop", "endfacet"]
        crlf = "\r\n".join([*lines, "endsolid", "", ""])
        obj = "# comment\r\n" + "".join(f"v {x[0]:.8g} {x[1]:.8g} {x[2]:.8g}  \r\n" for x in p)
        obj += "".join(f"f {a + 1} \\\r\n {b + 1}// {d + 1}// \r\n" for a, b, d in c)
        for name, text in (("crlf.stl", crlf), ("crlf.obj", obj)):
            got = self.ok("info", "--json", self.write(name, text.encode()))
            self.assertEqual(json.loads(got.out)["cells"], len(c), name)


if __name__ == "__main__":
    unittest.main(verbosity=2)
