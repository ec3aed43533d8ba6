#!/usr/bin/env python3
"""Training: loss falls as stated; equal bits over ranks and groups; runs that were stopped or killed go on as if they had
not been; the final model and checkpoints are model files that the converter accepts."""
import json
import os
import random
import signal
import subprocess
import sys
import time
import unittest

import h5py
import numpy as np

import ff_ref as ref

SMALL = os.path.join(ref.INPUTS, "ellipsoid_small.json")


class Train(ref.Case):
    def options(self, name, steps, *more):
        return ["train", "--architecture", SMALL, "--ellipsoids", "12", "--splits", "1", "--validation-bodies", "3",
                "--steps", str(steps), "--batch", "4", "--warmup", "2", "--validate-every", "5", "--save-every", "3",
                "--checkpoints", self.path(name), "--log", self.path(name + ".jsonl"), "-o", self.path(name + ".h5"),
                "--log-every", "0", "--ema", "0.9", *more]

    def losses(self, name):
        """step -> what the log says, apart from times and memory."""
        out = {}
        with open(self.path(name + ".jsonl")) as f:
            for line in f:
                row = json.loads(line)
                key = (row["step"], "validation" in row)
                self.assertNotIn(key, out, "a step is logged twice")
                out[key] = {k: v for k, v in row.items() if k not in ("seconds", "gib")}
        return out

    def weights(self, name):
        with h5py.File(self.path(name + ".h5")) as f:
            return {k: d[()] for k, d in f["weights"].items()}

    def same(self, a, b):
        self.assertEqual(self.losses(a), self.losses(b))
        x, y = self.weights(a), self.weights(b)
        self.assertEqual(sorted(x), sorted(y))
        for k in x:
            np.testing.assert_array_equal(x[k], y[k], k)

    def test_ranks_and_groups_do_not_matter(self):
        self.ok(*self.options("one", 4, "--fields", self.path("fields_one"), "--fields-of", "2"))
        self.ok(*self.options("threads", 4), threads=2)
        self.same("one", "threads")
        for name, ranks, more in (("two", 2, ()), ("groups", 2, ("--ranks-per-sample", "1")), ("three", 3, ()),
                                  ("mixed", 4, ("--ranks-per-sample", "2", "--fields", self.path("fields_mixed"),
                                                "--fields-of", "2"))):
            self.ok(*self.options(name, 4, *more), ranks=ranks)
            self.same("one", name)
        files = sorted(os.listdir(self.path("fields_one")))
        self.assertEqual(files, ["000_ellipsoid.vtkhdf", "001_ellipsoid.vtkhdf"])
        for file in files:  # of the averaged weights: the errors are those of the validation, up to their weights
            fields = ref.cell_data(self.path("fields_one", file))
            ref.same_bits(self, fields, ref.cell_data(self.path("fields_mixed", file)), file)
            np.testing.assert_allclose(fields["C_p"] - fields["C_p_true"], fields["C_p_error"], atol=1e-6)
            self.assertEqual(fields["U_t_true"].shape, (80, 3))
            self.assertGreater(np.abs(fields["C_p_true"]).max(), 0.5)
        r = ref.run(*self.options("bad", 4, "--ranks-per-sample", "2"), ranks=3)
        self.assertEqual(r.code, 2, r.err)
        self.assertIn("3 ranks in groups of 2", r.err)

    def test_stops_and_kills_leave_no_trace(self):
        """Stopped by USR1, by a file STOP, by --max-hours, killed at random moments, on changing numbers of ranks."""
        steps, draw = 14, random.Random(4)
        self.ok(*self.options("whole", steps))
        for name, how in (("usr1", "usr1"), ("stop", "stop"), ("hours", "hours"), ("kill", "kill")):
            for attempt in range(60):
                more = ["--force"] + (["--max-hours", "1e-7"] if how == "hours" and attempt < 3 else [])
                ranks = 1 + attempt % 3 if how != "usr1" else 1
                cmd = [ref.FARFIELD, *self.options(name, steps, *more)]
                if ranks > 1:
                    cmd = [ref.MPIEXEC, "-n", str(ranks), "--oversubscribe", "--bind-to", "none", *cmd]
                if how == "stop" and attempt < 2:
                    os.makedirs(self.path(name), exist_ok=True)
                    open(self.path(name, "STOP"), "w").close()
                p = subprocess.Popen(cmd, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True)
                if how in ("usr1", "kill") and attempt < 6:
                    try:
                        p.wait(draw.uniform(0.2, 1.5))
                    except subprocess.TimeoutExpired:
                        if how == "usr1":
                            os.kill(p.pid, signal.SIGUSR1)
                        else:
                            os.killpg(p.pid, signal.SIGKILL)
                out, err = p.communicate(timeout=300)
                if how == "stop" and os.path.exists(self.path(name, "STOP")):
                    os.remove(self.path(name, "STOP"))
                if p.returncode == 0:
                    break
                if how != "kill":
                    self.assertIn(p.returncode, (3, -signal.SIGUSR1), out + err)
            self.assertEqual(p.returncode, 0, out + err)
            self.same("whole", name)

    def test_one_training_at_a_time_in_a_folder(self):
        """Ranks whose mpirun was killed run on for a second: the training that goes on waits for their end."""
        first = subprocess.Popen([ref.FARFIELD, *self.options("at", 100000)], stdout=subprocess.DEVNULL)
        try:
            until = time.time() + 60
            while not (os.path.isdir(self.path("at")) and os.listdir(self.path("at"))) and time.time() < until:
                time.sleep(0.05)
            second = subprocess.Popen([ref.FARFIELD, *self.options("at", 5, "--force")], stdout=subprocess.PIPE, text=True)
            with self.assertRaises(subprocess.TimeoutExpired):
                second.wait(1.5)
        finally:
            first.kill()
            first.wait()
        out = second.communicate(timeout=60)[0]
        self.assertEqual(second.returncode, 0, out)
        self.assertIn("going on after step", out)

    def test_options_that_changed_are_told(self):
        self.ok(*self.options("on", 3))
        for more, told in (((), []), (("--batch", "3", "--splits", "0"), ["batch = 4; from here on it is 3",
                                                                           "splits = 1; from here on it is 0"])):
            r = self.ok(*self.options("on", 4, *more, "--force"), ranks=2)
            lines = [line for line in (r.out + r.err).splitlines() if "the checkpoint was made with" in line]
            self.assertEqual(len(lines), len(told), lines)
            for text in told:
                self.assertTrue(any("train." + text in line for line in lines), lines)

    def test_a_full_disk_costs_a_checkpoint_only(self):
        """A disk that is full after three steps: the checkpoint of then stays, training goes on and says so; with room again
        it goes on from there, to the same end."""
        os.makedirs(self.path("full"))
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", self.path("full")], capture_output=True).returncode != 0:
            raise unittest.SkipTest("skipped: needs to mount a small file system")
        self.addCleanup(subprocess.run, ["umount", self.path("full")])
        self.ok(*self.options("full", 3))
        free = os.statvfs(self.path("full"))
        with open(self.path("full", "pad"), "wb") as f:
            f.write(bytes(free.f_bavail * free.f_frsize - 50000))
        r = self.ok(*self.options("full", 9, "--force"))
        self.assertIn("no checkpoint of step 6, training goes on", r.err)
        self.assertIn("9 steps, loss", r.out)
        self.assertEqual(sorted(os.listdir(self.path("full"))), ["pad", "step_0000000003.h5"])
        self.ok("info", self.path("full", "step_0000000003.h5"))
        whole = self.weights("full")
        os.remove(self.path("full", "pad"))
        r = self.ok(*self.options("full", 9, "--force"))
        self.assertIn("going on after step 3 of 9", r.out)
        for k, v in self.weights("full").items():
            np.testing.assert_array_equal(v, whole[k], k)

    def test_models_and_checkpoints_are_model_files(self):
        self.ok(*self.options("m", 5))
        kept = sorted(os.listdir(self.path("m")))
        self.assertEqual(kept, ["step_0000000003.h5", "step_0000000005.h5"])
        body = os.path.join(ref.INPUTS, "ellipsoid.vtp")
        for model in (self.path("m.h5"), self.path("m", kept[-1])):
            done = subprocess.run([sys.executable, "-c", "import sys; sys.path.insert(0, sys.argv[1]); import farfield_convert as c; "
                                   "c.read_model(sys.argv[2])", os.path.join(ref.ROOT, "tools"), model], capture_output=True, text=True)
            self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("m.h5: model,", self.ok("info", self.path("m.h5")).out)
        told = json.loads(self.ok("info", self.path("m", kept[-1]), "--json").out)
        self.assertEqual((told["kind"], told["steps_done"], told["source"]), ("checkpoint", 5, "farfield train"))
        ref.write_obj(self.path("b.obj"), *ref.mi.icosphere(1))
        self.ok("predict", self.path("b.obj"), "-m", self.path("m.h5"), "--set", "lengths.L=1", "--set", "global.U_dir=[1,0,0]",
                "-o", self.path("p.vtkhdf"))
        self.assertTrue(os.path.exists(body))

    def test_learns(self):
        """The shipped deck: from no idea (C_p error about 100 %) to below a quarter, in less than a minute on two idle cores."""
        t0 = time.time()
        r = self.ok("train", "-c", os.path.join(ref.INPUTS, "train_ellipsoid_small.yaml"), "--log", self.path("l.jsonl"), threads=2,
                    timeout=900)
        checks = []
        with open(self.path("l.jsonl")) as f:
            rows = [json.loads(line) for line in f]
        checks = [row["validation"] for row in rows if "validation" in row]
        print(f"{time.time() - t0:.0f} s, validation errors {checks}")
        self.assertLess(checks[-1]["C_p"], 0.25, r.out[-2000:])
        self.assertLess(checks[-1]["U_t"], 0.16)

    def test_bodies_of_fine_steps(self):
        small = ("--splits", "0", "--batch", "12", "--fine-every", "2")
        for name, more in (("eighth", ()), ("two", ("--fine-batch", "2")), ("five", ("--fine-batch", "5"))):
            self.ok(*self.options(name, 2, *small, *more))
        eighth, two, five = (self.losses(name) for name in ("eighth", "two", "five"))
        self.assertEqual(eighth, two)  # an eighth of 12, rounded up
        self.assertEqual(two[1, False], five[1, False])
        self.assertNotEqual(two[2, False]["loss"], five[2, False]["loss"])
        r = ref.run(*self.options("bad", 2, *small, "--fine-batch", "13"))
        self.assertEqual(r.code, 2, r.err)
        self.assertIn("13 finer bodies a step, expected 0 .. 12", r.err)

    def test_weights_of_a_model_in_another_architecture(self):
        with open(SMALL) as f:
            config = json.load(f)
        config["theta"] = 0.25  # changes the plan and no tensor's shape
        with open(self.path("other.json"), "w") as f:
            json.dump(config, f)
        common = ["--ellipsoids", 2, "--splits", 0, "--batch", 1, "--validation-bodies", 0, "--steps", 0, "--backend", "cpu"]
        self.ok("train", "--architecture", SMALL, "--seed", 5, *common, "-o", self.path("a.h5"))
        self.ok("train", "--architecture", self.path("other.json"), "--model", self.path("a.h5"), *common, "-o", self.path("b.h5"))
        with h5py.File(self.path("a.h5")) as a, h5py.File(self.path("b.h5")) as b:
            self.assertEqual(json.loads(b.attrs["config_json"])["theta"], 0.25)
            self.assertEqual(a.attrs["digest"], b.attrs["digest"])

    def test_bad_input(self):
        with open(self.path("list.txt"), "w") as f:
            f.write("# samples\n\nabsent.h5\n")
        for args, words in ((["train", "--architecture", SMALL], "either --data LIST or --ellipsoids N"),
                            (["train", "--ellipsoids", "2"], "expected --architecture FILE.json"),
                            (["train", "--architecture", SMALL, "--model", os.path.join(ref.INPUTS, "ellipsoid_own.h5"), "--ellipsoids", "2"],
                             "expected equal shapes"),
                            (["train", "--architecture", SMALL, "--ellipsoids", "2", "--set", "train.loss_scale.X=1"], "loss_scale.X"),
                            (["train", self.path("list.txt"), "--architecture", SMALL],
                             f"list.txt:3: there is no file {self.path('absent.h5')}; names are relative to the list's folder"),
                            (["train", os.path.join(ref.INPUTS, "car_body.stl"), "--architecture", SMALL], "a list that names a sample a line"),
                            (["train", self.path("none.txt"), "--architecture", SMALL], "none.txt")):
            r = ref.run(*args)
            self.assertEqual(r.code, 2, r.err)
            self.assertIn(words, r.err)

    def test_the_model_of_our_own_on_fresh_bodies(self):
        # docs/training.md: 0.60 and 0.57 % over 128 bodies; these 32 are asked for the 1.15 % that half the demo model's error is.
        r = self.ok("train", "--model", os.path.join(ref.INPUTS, "ellipsoid_own.h5"), "--ellipsoids", 1, "--splits", 2, "--batch", 1,
                    "--steps", 1, "--lr", 1e-30, "--warmup", 0, "--validation-bodies", 32, "--seed", 1000, "--backend", "cpu",
                    "--json", self.path("v.json"))
        with open(self.path("v.json")) as f:
            error = json.load(f)["validation"]
        print(f"\nC_p {100 * error['C_p']:.2f} %, U_t {100 * error['U_t']:.2f} %")
        self.assertLess(error["C_p"], 0.0115)
        self.assertLess(error["U_t"], 0.009)

    def test_a_training_that_diverges_says_so(self):
        # 30: the first layer overflows while the weights stay finite for a few steps; 1e30: the first step is the last one.
        for lr in (30, 1e30):
            r = ref.run("train", "--architecture", SMALL, "--ellipsoids", 4, "--splits", 0, "--batch", 2, "--steps", 150,
                        "--warmup", 0, "--lr", lr, "--validation-bodies", 0, "--backend", "cpu", "-o", self.path("none.h5"))
            self.assertEqual(r.code, 2, r.out)
            self.assertIn("training diverged: ", r.err)
            self.assertIn("lower train.lr", r.err)
            self.assertFalse(os.path.exists(self.path("none.h5")))


if __name__ == "__main__":
    unittest.main()
