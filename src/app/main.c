/* The table of verbs, and the only place that ends the process. */
#include "ff_app.h"

#ifdef FF_HAVE_MPI
#include "ff_mpi_comm.h"
#include "ff_mpi_io.h"
#endif

#include <limits.h>
#include <signal.h>
#include <string.h>

static const ff_verb verbs[] = {
    {{FF_VERB_PREDICT, "predict", "[NAME=]MESH... -m MODEL -o OUT",
      "evaluate a trained model on surface meshes",
      "Evaluates a trained model: fields at the face centroids of a boundary (or other targets) go to OUT in "
      "the "
      "mesh's own order; integrals are printed and stored."},
     "mesh",
     0,
     INT_MAX,
     true,
     cmd_predict},
    {{FF_VERB_GRADIENT, "gradient", "[NAME=]MESH... -m MODEL -o OUT --of FIELD",
      "derivatives of a field's integral with respect to shape and data",
      "Differentiates the sum, integral or mean of an output field over a boundary with respect to the "
      "boundary's "
      "vertices and physical fields (written to OUT), global data and reference lengths (printed)."},
     "mesh",
     0,
     INT_MAX,
     true,
     cmd_gradient},
    {{FF_VERB_TRAIN, "train", "-c DECK | --data LIST --architecture FILE.json -o MODEL", "train a model",
      "Trains a model on samples, or on exact flows past random ellipsoids: gradients by recomputing pairs, "
      "Muon and "
      "RAdam, checkpoints from which the same command goes on after any stop, on any number of ranks. USR1, "
      "TERM, a "
      "file STOP in the folder of checkpoints and --max-hours end it with exit code 3."},
     "train.data",
     0,
     1,
     true,
     cmd_train},
    {{FF_VERB_PLAN, "plan", "[NAME=]MESH... | --case CASE", "build interaction plans only and count them",
      "Builds the interaction plans of all boundaries and prints pair counts per kind, work, time and "
      "memory; with "
      "--ranks P also the load balance and traffic of a run on P ranks."},
     "mesh",
     0,
     INT_MAX,
     true,
     cmd_plan},
    {{FF_VERB_CHECK, "check", "MESH...", "examine the health of surfaces",
      "Reports counts, parts, patches, box, area, volume and the defects of a surface. Ends with 0 also "
      "where there "
      "are defects, unless --strict is given."},
     "mesh",
     1,
     INT_MAX,
     false,
     cmd_check},
    {{FF_VERB_FORCES, "forces", "MESH", "forces and moments from the fields of a surface file",
      "Sums pressure and shear stress over a surface: force, moment, drag and lift coefficients, of all "
      "faces and of "
      "each patch; --csv writes them as a table."},
     "mesh",
     1,
     1,
     false,
     cmd_forces},
    {{FF_VERB_INFO, "info", "FILE...", "tell what a mesh, model or result file holds",
      "Prints what a mesh, model or result holds, as text or with --json as JSON on standard output."},
     "file",
     1,
     INT_MAX,
     false,
     cmd_info},
    {{FF_VERB_CONVERT, "convert", "IN OUT", "convert between mesh formats",
      "Reads a mesh and writes it in the format that OUT's name says: .vtkhdf, .vtp, .h5, .stl, .obj, .msh, "
      ".su2."},
     "file",
     2,
     2,
     false,
     cmd_convert},
    {{FF_VERB_VERIFY, "verify", "FILE...", "compare the program with golden files",
      "Compares trees, plans, layers and outputs with reference data, one row a quantity with the worst "
      "relative "
      "error and its tolerance; ends with 1 if any exceeds it."},
     "file",
     1,
     INT_MAX,
     true,
     cmd_verify},
    {{FF_VERB_EMBED, "embed", "POINTS -o OUT --weights W --cutoff RC",
      "geometric embedding of points: neighbours within a cutoff to node features",
      "Finds all neighbours within a cutoff, in open or periodic space, and writes the (N, D, C) features of "
      "the geometric embedding head; with --cotangent also the gradients with respect to points and "
      "weights."},
     "points",
     1,
     1,
     true,
     cmd_embed},
    {{FF_VERB_SUM, "sum", "POINTS | --generate KIND --n N", "sums of analytic kernels with a treecode",
      "Sums 1/R, 1/R^k, log R, Yukawa, Plummer, dipoles or Stokeslets over a cloud of points in about O(N) "
      "operations, to a relative error or with a given theta and order, and compares sampled targets with "
      "direct "
      "sums."},
     "points",
     0,
     1,
     true,
     cmd_sum},
    {{FF_VERB_BENCH, "bench", "globe|plan --case CASE | scatter | sum", "time the measured cases",
      "Times cases generated in memory and prints milliseconds (min, median), pair evaluations, rates and "
      "memory."},
     "bench.kind",
     1,
     1,
     true,
     cmd_bench},
};

int main(int argc, char **argv)
{
    ff_comm *comm = ff_comm_self();
    int code = 1;
    if (argc > 1 && strcmp(argv[1], "train") == 0)
        cmd_train_catch_signals(); /* before the ranks start, which takes a while */
    else
        (void)signal(SIGUSR1, SIG_IGN); /* a scheduler's warning: what keeps no state works on to its end */
#ifdef FF_HAVE_MPI
    ff_status st = ff_mpi_start(&argc, &argv, &comm);
    if (st == FF_OK) st = ff_mpi_io_install(ff_mpi_comm_handle(comm));
    if (st != FF_OK) {
        ff_log(FF_LOG_ERROR, "%s", ff_error_text());
        return 1;
    }
#endif
    code = ff_app_main(comm, verbs, (int)(sizeof verbs / sizeof verbs[0]), argc, argv);
    if (ff_comm_barrier(comm) != FF_OK && code == 0)
        code = 1; /* all writing is done before a launcher may kill */
#ifdef FF_HAVE_MPI
    if (ff_comm_lost(comm)) ff_mpi_abort(code); /* ends the other ranks wherever they are */
    ff_mpi_io_remove();
    ff_mpi_stop(&comm);
#endif
    return code;
}
