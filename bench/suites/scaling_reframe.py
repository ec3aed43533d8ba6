"""The scaling study as a ReFrame test (ReFrame 4):

    FARFIELD=/path/to/farfield reframe -C SITE_SETTINGS.py -c bench/suites/scaling_reframe.py -r

One test a study and number of GPUs: time, imbalance and share of the exchange that is hidden are performance variables; the
program ends with an error where anything is wrong, and the digest of the fields is printed for comparison.
"""
import os

import reframe as rfm
import reframe.utility.sanity as sn


@rfm.simple_test
class FarfieldScaling(rfm.RunOnlyRegressionTest):
    valid_systems = ["*"]
    valid_prog_environs = ["*"]
    study = parameter(["wide", "n255", "n663", "weak"])
    gpus = parameter([1, 2, 4, 8])
    executable = os.environ.get("FARFIELD", "farfield")
    time_limit = "20m"

    @run_before("run")
    def set_case(self):
        splits = int((self.gpus * 1004964 / 20) ** 0.5 + 0.5)
        case = {"wide": "car:6", "n255": "car:n255", "n663": "car:n663", "weak": f"car:n{splits}"}[self.study]
        self.num_tasks = self.num_tasks_per_node = self.num_gpus_per_node = self.gpus
        self.executable_opts = ["bench", "globe", "--case", case, "--config", "wide" if self.study == "wide" else "default",
                                "--precision", "bf16", "--backend", "cuda", "--repeat", "5"]

    @sanity_function
    def ended_well(self):
        return sn.assert_found(r"fields +digest \w+", self.stdout)

    @performance_function("ms")
    def t_min(self):
        return sn.extractsingle(r"time of a call +(\S+) ms min", self.stdout, 1, float)

    @performance_function("ms")
    def t_median(self):
        return sn.extractsingle(r"ms min, (\S+) ms median", self.stdout, 1, float)

    @performance_function("%")
    def imbalance(self):
        return sn.extractsingle(r"imbalance of work (\S+) %", self.stdout, 1, float)

    @performance_function("%")
    def hidden(self):
        return sn.extractsingle(r"least hidden exchange (\S+) %", self.stdout, 1, float)
