#!/usr/bin/env python3
"""The command line: verbs, options, decks, exit codes, what is printed where, and the printed documentation."""
import json
import os
import stat
import unittest

import numpy as np

import ff_ref as ref

ELLIPSOID = os.path.join(ref.INPUTS, "ellipsoid.vtp")
VERBS = ("predict", "gradient", "train", "plan", "check", "forces", "info", "convert", "verify", "embed", "sum", "bench")


class Cli(ref.Case):
    def refused(self, args, line, code=2, ranks=1):
        """One error line, exactly this one; nothing but header lines on standard output, no file."""
        before = sorted(os.listdir(self.dir.name))
        r = ref.run(*args, ranks=ranks, timeout=60, cwd=self.dir.name)
        self.assertEqual((r.code, r.error_lines()), (code, ["farfield: error: " + line]), f"{args}\n{r.out}\n{r.err}")
        for text in r.out.splitlines():
            self.assertRegex(text, "^(farfield |MPI )", args)
        self.assertEqual(sorted(os.listdir(self.dir.name)), before, args)

    def write(self, name, text):
        os.makedirs(os.path.dirname(self.path(name)), exist_ok=True)
        with open(self.path(name), "w") as f:
            f.write(text)
        return self.path(name)

    # ---- help ----

    def test_help(self):
        text = self.ok("--help").out
        self.assertEqual(text, self.ok("help").out)
        for verb in VERBS:
            self.assertIn(f"\n  {verb} ", text)
            one = self.ok(verb, "--help").out
            self.assertTrue(one.startswith(f"usage: farfield {verb} "))
            self.assertIn("--log-level", one)
            self.assertEqual(one, self.ok("help", verb).out)
        self.assertNotIn("--targets", self.ok("check", "--help").out)
        self.assertRegex(self.ok("--version").out, r"^farfield \d+\.\d+\.\d+")

    def test_printed_documents_are_up_to_date(self):
        for option, name in (("--markdown", "config.md"), ("--man", "farfield.1"), ("--completion", "farfield.bash")):
            with open(os.path.join(ref.ROOT, "docs", name)) as f:
                self.assertEqual(f.read(), self.ok("help", option).out, f"farfield help {option} > docs/{name}")

    # ---- mistakes ----

    def test_verbs(self):
        self.refused([], "no verb given; see farfield --help")
        for wrong, near in (("pedict", "predict"), ("plna", "plan"), ("chekc", "check"), ("Info", "info")):
            start = sum(os.times()[2:4])  # processor time of children: a busy machine does not count
            self.refused([wrong], f'unknown verb "{wrong}", nearest is "{near}"; see farfield --help')
            self.assertLess(sum(os.times()[2:4]) - start, 1)
        self.refused(["pedict"], 'unknown verb "pedict", nearest is "predict"; see farfield --help', ranks=2)

    def test_options(self):
        near = 'nearest is "--theta"'
        for args, line in (
            (["--theta", "-2"], "command line: plan.theta = -2, expected theta >= 0"),
            (["--theta=-2"], "command line: plan.theta = -2, expected theta >= 0"),
            (["--set", "plan.theta=-2"], "--set: plan.theta = -2, expected theta >= 0"),
            (["--theta", "inf"], "command line: plan.theta = inf, expected a finite number"),
            (["--leaf-size", "0"], "command line: plan.leaf_size = 0, expected leaf_size in 1 .. 64"),
            (["--leaf-size", "65"], "command line: plan.leaf_size = 65, expected leaf_size in 1 .. 64"),
            (["--leaf-size", "3.5"], "command line: plan.leaf_size = 3.5, expected an integer"),
            (["--thteta", "1"], f'command line: unknown option "--thteta", {near}'),
            (["--set", "thteta=1"], '--set: unknown key "thteta", nearest is "plan.theta"'),
            (["--set", "plan.thteta=1"], '--set: unknown key "plan.thteta", nearest is "plan.theta"'),
            (["--set", "theta"], "command line: --set theta, expected --set key=value"),
            (["--set", "lengths.L=0"], "--set: lengths.L = 0, expected L > 0"),
            (["--scale", "0"], "command line: read.scale = 0, expected scale > 0"),
            (["--backend", "gpu"], "command line: run.backend = gpu, expected one of auto|cpu|cuda"),
            (["--memory", "many"], "command line: run.memory = many, expected a number of bytes such as 500M or 2GiB"),
            (["--threads", "-1"], "command line: run.threads = -1, expected threads in 0 .. 4096"),
            (["--max-hours", "0"], "command line: run.max_hours = 0, expected max_hours > 0"),
            (["--targets", "points"], "command line: --targets does not belong to this verb; see its --help"),
            (["--ranks"], "command line: --ranks needs a value"),
            (["-c", "a.yaml", "-c", "b.yaml"], 'command line: a second deck "b.yaml", expected at most one -c'),
            (["-c", "absent.yaml"], "absent.yaml: cannot be read: No such file or directory"),
            (["-c", "."], ".: expected a regular file"),
        ):
            self.refused(["plan", "--case", "car:0", *args], line)
        self.refused(["plan", "--case", "car:0", "--theta", "-2"],
                     "command line: plan.theta = -2, expected theta >= 0", ranks=2)

    def test_what_this_build_lacks(self):
        case = ["plan", "--case", "car:0"]
        for args, words in ((["--backend", "cuda"], "run.backend = cuda"), (["--precision", "tf32"], "tf32"),
                            (["--precision", "bf16"], "bf16"), (["--transport", "nccl"], "run.transport = nccl")):
            r = ref.run(*case, *args)
            self.assertEqual(r.code, 2)
            self.assertEqual(len(r.error_lines()), 1)
            self.assertIn(words, r.error_lines()[0])

    def test_files(self):
        self.refused(["plan"], "command line: no boundary, expected [NAME=]MESH... or --case car:S")
        self.refused(["plan", ELLIPSOID, "--case", "car:0"],
                     "command line: both mesh files and --case given, expected one of them")
        self.refused(["plan", ELLIPSOID, ELLIPSOID], 'boundary "ellipsoid" is given twice; name them: name=file')
        self.refused(["plan", "--case", "boat:2"],
                     "case = boat:2, expected car:S with S in 0 .. 9 or car:nF with F in 1 .. 4000")
        self.refused(["info"], "command line: nothing to work on, expected: farfield info FILE...")
        self.refused(["convert", ELLIPSOID], "command line: too few files, expected: farfield convert IN OUT")
        self.refused(["convert", "a", "b", "c"], "command line: 3 files, expected 2: farfield convert IN OUT")
        self.refused(["convert", ELLIPSOID, "o.xyz"],
                     "o.xyz: no format of this name is written; use .vtkhdf, .vtp, .h5, .stl, .obj, .msh or .su2")
        self.refused(["convert", os.path.join(ref.INPUTS, "foil.obj"), "o.stl"],
                     "o.stl: STL holds triangles, the mesh is a curve; write .vtkhdf, .vtp or .obj")
        self.refused(["bench", "glob", "--case", "car:0"], "command line: bench.kind = glob, expected one of globe|plan|scatter|sum")
        self.refused(["bench", "globe", "plan"], 'command line: "plan" after "globe", expected one kind')
        self.refused(["check", ELLIPSOID, "-o", "o.stl"],
                     "command line: output = o.stl, expected --repair with it: nothing else is written there")
        self.refused(["check", ELLIPSOID, "--repair"], "command line: output is missing; give --output FILE or output "
                     "in the deck")
        for verb in ("predict", "check"):  # a second verb is taken for a mesh
            self.assertEqual(ref.run(verb, "info", "-m", "x", cwd=self.dir.name).code, 2)

    def test_decks(self):
        for text, line in (
            ("plan:\n  theta: -2\n", "d.yaml:2: plan.theta = -2, expected theta >= 0"),
            ("\nplan:\n  thteta: 1\n", 'd.yaml:3: unknown key "plan.thteta", nearest is "plan.theta"'),
            ("plan:\n  theta: [1, 2]\n", "d.yaml:2: plan.theta = [1, 2], expected a single value, not a list"),
            ("theta: 1\ntheta: 2\n", 'd.yaml:2: "theta" is given twice'),
            ("plan: 3\n", 'd.yaml:1: "plan" has no value of its own, expected plan.NAME = value'),
            ("- 1\n", "d.yaml:1: expected key: value lines"),
        ):
            self.write("d.yaml", text)
            self.refused(["plan", "--case", "car:0", "-c", "d.yaml"], line)
        self.write("d.yaml", "a: [1\nb: 2\n")
        r = ref.run("plan", "--case", "car:0", "-c", self.path("d.yaml"))
        self.assertEqual((r.code, len(r.error_lines())), (2, 1))
        self.assertIn("d.yaml:2: no valid YAML", r.err)

    def test_started_by_a_launcher_of_another_mpi(self):
        """Processes that do not see each other are told of, by the first; a batch script's one process is right."""
        plain = self.ok("info", ELLIPSOID).out
        for env, warned in (
            ({"PMI_SIZE": "3", "PMI_RANK": "0"}, True),
            ({"PMI_SIZE": "3", "PMI_RANK": "2"}, False),
            ({"PMI_SIZE": "1", "PMI_RANK": "0"}, False),
            ({"SLURM_STEP_NUM_TASKS": "4", "SLURM_PROCID": "0"}, True),
            ({"SLURM_NTASKS": "4", "SLURM_PROCID": "0"}, False),
        ):
            r = self.ok("info", ELLIPSOID, env=env)
            self.assertEqual("does all the work and writes the same files" in r.err, warned, (env, r.err))
            self.assertEqual(r.out, plain)

    # ---- what works ----

    def plan(self, *args, **kw):
        """JSON of a plan; alone on standard output."""
        return json.loads(self.ok("plan", *args, "--json", **kw).out)

    def test_sources_in_their_order(self):
        deck = self.write("case/d.yaml", "case: car:1\nplan:\n  theta: 2\n  leaf_size: 2\n")
        self.assertEqual([p["near"] for p in self.plan("-c", deck, "--theta", "0")["plans"]][0], 80 * 80)
        a = self.plan("--case", "car:1", "--theta", "1.5", "--leaf-size", "2")["plans"]
        self.assertEqual([{**p, "t_s": 0} for p in a], [{**p, "t_s": 0} for p in self.plan(
            "-c", deck, "--set", "theta=1.5")["plans"]])
        b = self.plan("-c", deck, "--set", "plan.theta=7", "--theta", "1.5")["plans"]
        self.assertEqual([p["near"] for p in a], [p["near"] for p in b])

    def test_paths_of_a_deck_start_at_its_folder(self):
        self.ok("convert", ELLIPSOID, self.path("body.obj"))
        os.mkdir(self.path("case"))
        deck = self.write("case/d.yaml", "mesh: {body: ../body.obj}\n")
        for where in (ref.ROOT, self.dir.name):
            self.assertEqual(self.plan("-c", deck, cwd=where)["plans"][0]["target"], "body")

    def test_plans_cover_every_pair(self):
        for args in (["--theta", "0"], ["--theta", "1", "--expand-far"], ["--theta", "0", "--leaf-size", "5"]):
            j = self.plan("--case", "car:2", *args)
            n = {"vehicle": 320, "no_slip_floor": 722, "slip_floor": 722}
            self.assertEqual(len(j["plans"]), 9)
            for p in j["plans"]:
                if args[1] == "0":
                    self.assertEqual(p["near"], n[p["target"]] * n[p["source"]])
                    self.assertEqual(p["near_far"] + p["far_near"] + p["far"], 0)
                else:
                    self.assertEqual(p["far"] + p["far_near"], 0)
        two = self.plan("--case", "car:2", "--leaf-size", "4", ranks=2)
        one = self.plan("--case", "car:2", "--leaf-size", "4")
        for a, b in zip(one["plans"], two["plans"]):
            self.assertEqual({**a, "t_s": 0}, {**b, "t_s": 0})
        self.assertEqual(two["distribution"]["ranks"], 2)

    def test_a_run_on_many_ranks_on_paper(self):
        j = self.plan("--case", "car:4", "--ranks", "7")["distribution"]
        self.assertEqual(j["ranks"], 7)
        self.assertLess(j["imbalance_percent"], 15)
        self.assertAlmostEqual(7 * j["points"][1], 5120 + 2 * 722, places=6)
        self.assertLessEqual(j["peers"][2], 6)
        real = self.plan("--case", "car:4", ranks=3)["distribution"]
        paper = self.plan("--case", "car:4", "--ranks", "3")["distribution"]
        self.assertEqual(real, paper)

    def test_info(self):
        j = json.loads(self.ok("info", "--json", ELLIPSOID).out)
        self.assertEqual((j["kind"], j["cells"], j["dimensions"]), ("mesh", 5120, 3))
        self.assertEqual([f["name"] for f in j["cell_data"]], ["C_p_exact", "U_t_exact"])
        text = self.ok("info", ELLIPSOID, os.path.join(ref.INPUTS, "ellipsoid_flow.h5")).out
        self.assertIn("5120", text)
        self.assertIn("32474 parameters", text)
        m = json.loads(self.ok("info", os.path.join(ref.INPUTS, "ellipsoid_flow.h5"), "--json").out)
        self.assertEqual((m["kind"], m["parameters"], m["outputs"]), ("model", 32474, {"C_p": "scalar", "U_t": "vector"}))
        self.assertEqual(m["source"], "ellipsoid_flow.mdlus")  # what the file says, not its own name

    def test_convert(self):
        want = json.loads(self.ok("info", "--json", ELLIPSOID).out)
        for ext in ("vtkhdf", "vtp", "obj", "stl"):
            out = self.path("e." + ext)
            self.ok("convert", ELLIPSOID, out)
            got = json.loads(self.ok("info", "--json", out).out)
            self.assertEqual(got["cells"], want["cells"])
            self.assertLess(abs(got["area"] / want["area"] - 1), 1e-7)  # STL is float32, as the input is
            if ext in ("vtkhdf", "vtp"):
                self.assertEqual(got["cell_data"], want["cell_data"])
            self.refused(["convert", ELLIPSOID, out], f"{out}: exists already; give another name or --force")
            self.ok("convert", ELLIPSOID, out, "--force")
        self.ok("convert", ELLIPSOID, self.path("e.h5"))
        plain = json.loads(self.ok("info", "--json", self.path("e.h5")).out)
        self.assertEqual((plain["kind"], plain["cells"]), ("result", 5120))
        self.ok("convert", self.path("e.obj"), self.path("mm.obj"), "--scale", "0.001")
        small = json.loads(self.ok("info", "--json", self.path("mm.obj")).out)
        self.assertLess(abs(small["area"] / want["area"] * 1e6 - 1), 1e-6)

    def test_patches_survive_obj(self):
        ref.write_obj(self.path("p.obj"), [[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]], extra="g low part\nf 1 2 3\n"
                      "g top\nf 1 3 4\ng low part\nf 1 2 4\n")
        self.ok("convert", self.path("p.obj"), self.path("q.obj"))
        a, b = (json.loads(self.ok("info", "--json", self.path(n)).out)["patches"] for n in ("p.obj", "q.obj"))
        self.assertEqual([p["cells"] for p in a], [p["cells"] for p in b])

    def test_check(self):
        # two triangles that disagree, one of them twice, and a copy of a point that nothing uses
        ref.write_obj(self.path("b.obj"), [[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, -1, 0], [1, 0, 0]],
                      [[0, 1, 2], [0, 1, 3], [2, 1, 0]])
        r = self.ok("check", self.path("b.obj"), "--json", self.path("c.json"))
        self.assertIn("repeated cells", r.out)
        self.assertIn("cells 0 1 2 (counted from 0)", r.out)
        with open(self.path("c.json")) as f:
            got = json.load(f)["files"][0]
        self.assertEqual([got[k] for k in ("cells", "repeated_cells", "duplicate_points", "nonmanifold_edges")],
                         [3, 1, 1, 1])
        self.assertEqual(ref.run("check", self.path("b.obj"), "--strict").code, 1)
        self.ok("check", self.path("b.obj"), "--repair", "-o", self.path("r.obj"), "--write-bad", self.path("bad.vtkhdf"))
        j = json.loads(self.ok("check", self.path("r.obj"), "--strict", "--json").out)["files"][0]
        self.assertEqual([j[k] for k in ("points", "cells", "repeated_cells", "misoriented_edges")], [4, 2, 0, 0])
        bad = json.loads(self.ok("info", "--json", self.path("bad.vtkhdf")).out)
        self.assertEqual((bad["cells"], bad["cell_data"]), (3, [{"name": "defect", "components": 1}]))
        self.refused(["check", ELLIPSOID, "--repair", "-o", self.path("r.obj")],
                     f"{self.path('r.obj')}: exists already; give another name or --force")

    def test_check_welds_within_a_tolerance_and_turns_outwards(self):
        """A tetrahedron with inward normals and corners that miss each other by 1e-5."""
        corner, face = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]), [[0, 1, 2], [0, 3, 1], [0, 2, 3], [1, 3, 2]]
        p = corner[np.array(face)].reshape(-1, 3) + 1e-5 * np.arange(12)[:, None] / 12
        ref.write_obj(self.path("t.obj"), p, np.arange(12).reshape(4, 3))
        apart = json.loads(self.ok("check", self.path("t.obj"), "--json").out)["files"][0]
        self.assertEqual((apart["closed"], apart["open_edges"]), (False, 12))
        self.ok("check", self.path("t.obj"), "--weld-tolerance", "1e-4", "--repair", "--outward", "-o", self.path("u.obj"))
        got = json.loads(self.ok("check", self.path("u.obj"), "--json").out)["files"][0]
        self.assertEqual((got["points"], got["closed"], got["winding_groups"]), (4, True, 1))
        self.assertAlmostEqual(got["volume"], 1 / 6, delta=1e-4)
        self.refused(["check", self.path("t.obj"), "--weld-tolerance", "1e-30"], "weld tolerance 1e-30 with coordinates up to "
                     "1.00001, expected a positive one of at least 2.22047e-16")

    def test_two_ranks_say_it_once(self):
        r = self.ok("check", ELLIPSOID, ranks=2)
        self.assertEqual(r.out.count("ellipsoid.vtp: surface"), 1)
        r = self.ok("plan", "--case", "car:0", ranks=2)
        self.assertEqual(r.out.count("vehicle <- vehicle"), 1)
        self.assertIn("ranks 2", r.out)
        self.refused(["plan", "--case", "car:0", "--ranks", "4"],
                     "command line: plan.ranks = 4, expected a run on one rank: it works out the others itself", ranks=2)

    def test_json_replaces_nothing(self):
        self.write("p.json", "mine")
        self.refused(["plan", "--case", "car:0", "--json", "p.json"],
                     "p.json: exists already; give another name or --force")
        self.ok("plan", "--case", "car:0", "--json", self.path("p.json"), "--force")
        with open(self.path("p.json")) as f:
            self.assertEqual(json.load(f)["farfield"]["verb"], "plan")

    def test_pipes_and_devices_are_never_replaced(self):
        pipe = self.path("pipe")
        os.mkfifo(pipe)
        self.refused(["info", "pipe"], "pipe: is a pipe or device, expected a regular file")  # opening would wait for a writer
        self.refused(["predict", "-c", "pipe"], "pipe: expected a regular file")
        self.refused(["predict", "x.stl", "-m", "pipe", "-o", "o.h5"], "pipe: is a pipe or device, expected a regular file")
        os.symlink("pipe", self.path("pipe.h5"))
        self.write("one.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n")
        self.refused(["convert", "one.obj", "pipe.h5", "--force"], "pipe.h5: is a pipe or device, expected the name of a file")
        reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
        try:
            self.ok("plan", "--case", "car:0", "--json", pipe, "--force")  # a pipe holds 64 KiB
            self.assertEqual(json.loads(os.read(reader, 65536))["farfield"]["verb"], "plan")
        finally:
            os.close(reader)
        self.assertTrue(stat.S_ISFIFO(os.stat(pipe).st_mode))
        self.assertTrue(os.path.islink(self.path("pipe.h5")))
        self.assertEqual(json.loads(self.ok("check", self.path("one.obj"), "--json", "/dev/stdout").out)["farfield"]["verb"], "check")

    def test_open_brackets_are_counted(self):
        self.write("deep.yaml", "run:\n  threads: " + 100000 * "[")  # libyaml takes a minute for these
        self.refused(["plan", "-c", "deep.yaml"],
                     "deep.yaml:2: more than 1000 open brackets, expected lists and mappings that end")

    def test_a_training_log_replaces_no_other_file(self):
        train = ["train", "-c", os.path.join(ref.INPUTS, "train_ellipsoid_small.yaml"), "--steps", "1", "--ellipsoids", "2",
                 "--validation-bodies", "1", "--splits", "0", "-o", "m.h5", "--force", "--log"]
        for name, text in (("lines", "mine\nand more\n"), ("no_line", "mine")):
            self.write(name, text)
            self.refused([*train, name], f"{name}: exists and is no training log; give another name")
            with open(self.path(name)) as f:
                self.assertEqual(f.read(), text)
        self.refused([*train, "m.h5"], "m.h5: output and train.log name the same file, expected two")


if __name__ == "__main__":
    unittest.main(verbosity=2)
