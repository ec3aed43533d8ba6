#!/usr/bin/env python3
"""`farfield gradient`: derivatives against central differences of the number itself, equal bits on any number of ranks,
and what is refused."""
import json
import os
import unittest

import h5py
import numpy as np

import ff_ref as ref

MODEL = os.path.join(ref.ROOT, "inputs", "ellipsoid_flow.h5")


def sphere():
    """An icosphere of 80 faces, stretched, on a grid of 2^-12 so that steps of 2^-16 are exact in float32."""
    g = (1 + 5 ** 0.5) / 2
    x = [(-1, g, 0), (1, g, 0), (-1, -g, 0), (1, -g, 0), (0, -1, g), (0, 1, g), (0, -1, -g), (0, 1, -g), (g, 0, -1),
         (g, 0, 1), (-g, 0, -1), (-g, 0, 1)]
    f = [(0, 11, 5), (0, 5, 1), (0, 1, 7), (0, 7, 10), (0, 10, 11), (1, 5, 9), (5, 11, 4), (11, 10, 2), (10, 7, 6),
         (7, 1, 8), (3, 9, 4), (3, 4, 2), (3, 2, 6), (3, 6, 8), (3, 8, 9), (4, 9, 5), (2, 4, 11), (6, 2, 10), (8, 6, 7),
         (9, 8, 1)]
    x, middle, faces = [np.array(p, float) for p in x], {}, []

    def mid(a, b):
        key = (min(a, b), max(a, b))
        if key not in middle:
            middle[key] = len(x)
            x.append((x[a] + x[b]) / 2)
        return middle[key]

    for a, b, c in f:
        ab, bc, ca = mid(a, b), mid(b, c), mid(c, a)
        faces += [(a, ab, ca), (ab, b, bc), (ca, bc, c), (ab, bc, ca)]
    x = np.array([p / np.linalg.norm(p) for p in x]) * [0.7, 0.5, 0.4]
    return np.round(x * 4096) / 4096, np.array(faces)


class Gradient(ref.Case):
    def number(self, x, faces, *options, L=1.0, U=(0.6, 0.0, 0.8), name="body", ranks=1):
        mesh, out, figures = self.path(name + ".obj"), self.path(name + ".vtkhdf"), self.path(name + ".json")
        with open(mesh, "w") as f:
            f.writelines(f"v {p[0]!r} {p[1]!r} {p[2]!r}\n" for p in x.tolist())
            f.writelines(f"f {a + 1} {b + 1} {c + 1}\n" for a, b, c in faces)
        self.ok("gradient", mesh, "-m", MODEL, "-o", out, "--set", f"lengths.L={L!r}", "--set",
                "global.U_dir=[" + ",".join(repr(float(u)) for u in U) + "]", "--theta", "0", "--precision", "f64",
                "--json", figures, "--force", *options, ranks=ranks)
        with open(figures) as f:
            return json.load(f), h5py.File(out)

    def difference(self, value, h):
        return (8 * (value(h) - value(-h)) - (value(2 * h) - value(-2 * h))) / (12 * h)

    def test_derivatives(self):
        x, faces = sphere()
        for options in (("--of", "C_p"), ("--of", "U_t", "--component", "z", "--reduce", "mean")):
            j, out = self.number(x, faces, *options)
            shape = out["VTKHDF/PointData/gradient_points"][()]
            way = np.round(3 * np.sin(np.arange(x.size) ** 2.0)).reshape(x.shape)
            want = self.difference(lambda h: self.number(x + h * way, faces, *options)[0]["value"], 2.0 ** -16)
            got, norm = np.sum(shape * way), np.linalg.norm(shape * way)
            print(f"\n{' '.join(options)}: vertices {got:.8g}, differences {want:.8g}")
            self.assertLess(abs(got - want), 1e-5 * norm)  # second derivatives of sign(a) a^2 jump
            want = self.difference(lambda h: self.number(x, faces, *options, L=1 + h)[0]["value"], 1e-3)
            self.assertLess(abs(j["gradient_lengths"]["L"] - want), 1e-6 * (1 + abs(want)))
            want = self.difference(lambda h: self.number(x, faces, *options, U=(0.6 + h, 0, 0.8))[0]["value"], 1e-3)
            self.assertLess(abs(j["gradient_global"]["U_dir"][0] - want), 1e-5 * (1 + abs(want)))

    def test_equal_bits_on_any_number_of_ranks(self):
        x, faces = sphere()
        options = ("--of", "C_p", "--theta", "1", "--precision", "f32")
        j, out = self.number(x, faces, *options)
        for ranks in (2, 3, 7):
            k, other = self.number(x, faces, *options, ranks=ranks, name=f"r{ranks}")
            for key in ("value", "gradient_lengths", "gradient_global"):
                self.assertEqual(j[key], k[key])
            for name in ("PointData/gradient_points", "CellData/C_p"):
                self.assertTrue(np.array_equal(out["VTKHDF/" + name][()], other["VTKHDF/" + name][()]), name)

    def test_other_boundaries_and_small_numbers(self):
        """Two boundaries, a model with fields on both: --all writes the other one's derivatives, which are those of central
        differences, the same from three ranks; J of a field of 1e-20 keeps its digits."""
        config = {"n_spatial_dims": 3, "output_field_ranks": {"p": 0}, "boundary_source_data_ranks": {"body": {}, "the/wall": {"q": 0}},
                  "reference_length_names": ["L"], "reference_area": 0.5, "n_communication_hyperlayers": 1, "n_latent_scalars": 2,
                  "n_latent_vectors": 1, "hidden_layer_sizes": [8, 8], "n_spherical_harmonics": 2, "theta": 0.0}
        with open(self.path("a.json"), "w") as f:
            json.dump(config, f)
        model = self.path("m.h5")
        self.make_model(config, model, 1.0)
        x, faces = sphere()
        q = np.sin(np.arange(len(faces)))

        def number(h, qh, name, ranks=1, weight=model):
            wall = x * [1, 1, 0.2] + [0, 0, 0.75]
            wall[5, 2] += h
            values = q.copy()
            values[7] += qh
            body = ref.write_vtp(self.path("body.vtp"), x, faces, {})
            other = ref.write_vtp(self.path("wall.vtp"), wall, faces, {"q": values})
            self.ok("gradient", "body=" + body, "the/wall=" + other, "-m", weight, "--of", "p", "--all", "--precision", "f64", "--set",
                    "lengths.L=0.8", "-o", self.path(name + ".vtkhdf"), "--json", self.path("j.json"), "--force", ranks=ranks)
            with open(self.path("j.json")) as f:
                return json.load(f)["value"]

        value = number(0, 0, "one")
        with h5py.File(self.path("one.the_wall.vtkhdf")) as f:
            shape = f["VTKHDF/PointData/gradient_points"][()]
            field = f["VTKHDF/CellData/gradient_q"][()]
            self.assertEqual(list(f["VTKHDF/CellData"]), ["gradient_q"])
        with h5py.File(self.path("one.vtkhdf")) as f:
            self.assertIn("p", f["VTKHDF/CellData"])
        want = self.difference(lambda h: number(h, 0, "d"), 2.0 ** -12)
        self.assertLess(abs(shape[5, 2] - want), 1e-4 * np.abs(shape).max())
        want = self.difference(lambda h: number(0, h, "d"), 2.0 ** -6)
        self.assertLess(abs(field[7] - want), 1e-4 * np.abs(field).max())
        number(0, 0, "three", ranks=3)
        with h5py.File(self.path("three.the_wall.vtkhdf")) as f:
            self.assertTrue(np.array_equal(shape, f["VTKHDF/PointData/gradient_points"][()]))
            self.assertTrue(np.array_equal(field, f["VTKHDF/CellData/gradient_q"][()]))
        self.make_model(config, self.path("small.h5"), 2.0 ** -70)
        self.assertEqual(number(0, 0, "small", weight=self.path("small.h5")), value * 2.0 ** -70)

    def make_model(self, config, path, factor):
        """Random weights; the calibration times factor, its bias 0."""
        import farfield_convert as fc

        self.ok("train", "--architecture", self.path("a.json"), "--data", self.sample(config), "--steps", 0, "--batch", 1, "--backend",
                "cpu", "-o", self.path("fresh.h5"), "--force")
        _, tensors, _, _ = fc.read_model(self.path("fresh.h5"))
        tensors["final_field_transforms.0.weight"] = np.full((1, 1), factor, np.float32)
        tensors["final_field_transforms.0.bias"] = np.zeros(1, np.float32)
        fc.write_model(path, config, tensors, "test")

    def sample(self, config):
        """A list with one sample of the config's boundaries: what train wants to see."""
        from ff_sample import Sample

        x, faces = sphere()
        s = Sample("s")
        for b, fields in config["boundary_source_data_ranks"].items():
            s.boundary[b] = (x, faces, {k: np.zeros(len(faces)) for k in fields})
        s.lengths, s.target, s.fields = {"L": 1.0}, "body", {"p": np.ones(len(faces))}
        s.write(self.path("s.h5"))
        with open(self.path("s.txt"), "w") as f:
            f.write("s.h5\n")
        return self.path("s.txt")

    def test_what_is_refused(self):
        x, faces = sphere()
        self.number(x, faces, "--of", "C_p")
        for options, text in ((("--of", "C_q"), "gradient.of = C_q"), ((), "gradient.of")):
            r = ref.run("gradient", self.path("body.obj"), "-m", MODEL, "-o", self.path("o.vtkhdf"), "--set",
                        "lengths.L=1", "--set", "global.U_dir=[1,0,0]", *options)
            self.assertEqual(r.code, 2)
            self.assertIn(text, r.err)
            self.assertFalse(os.path.exists(self.path("o.vtkhdf")))
        with open(self.path("line.obj"), "w") as f:
            f.write("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n")
        for ranks in (1, 2):
            r = ref.run("gradient", self.path("line.obj"), "-m", MODEL, "-o", self.path("o.vtkhdf"), "--set", "lengths.L=1",
                        "--set", "global.U_dir=[1,0,0]", "--of", "C_p", "--reduce", "mean", ranks=ranks)
            self.assertEqual(r.code, 2)
            self.assertIn("has no area to average over", r.err)


if __name__ == "__main__":
    unittest.main(verbosity=2)
