/* OpenFOAM polyMesh folders in every encoding, surfaces (.ftr), and damaged files. */
#include "../ff_test_mesh.h"
#include "../ff_test_scratch.h"

#include "ff_foam.h"

#include <sys/stat.h>
#include <zlib.h>

typedef struct {
    bool binary, big, compact, zipped;
    int label, scalar; /* bytes */
} mode;

typedef struct {
    char s[1 << 14];
    size_t n;
} bytes;

static void put(bytes *b, const void *p, size_t n)
{
    assert_true(b->n + n < sizeof b->s);
    memcpy(b->s + b->n, p, n);
    b->n += n;
    b->s[b->n] = 0;
}
static void text(bytes *b, const char *s)
{
    put(b, s, strlen(s));
}

/* size low bytes of a little-endian value. */
static void raw(bytes *b, mode m, const void *value, int size)
{
    for (int i = 0; i < size; i++) put(b, (const char *)value + (m.big ? size - 1 - i : i), 1);
}

static void label(bytes *b, mode m, int64_t v)
{
    char word[32];
    (void)snprintf(word, sizeof word, "%lld ", (long long)v);
    if (m.binary)
        raw(b, m, &v, m.label);
    else
        text(b, word);
}

static void real(bytes *b, mode m, double v)
{
    char word[40];
    float narrow = (float)v;
    (void)snprintf(word, sizeof word, "%.17g ", v);
    if (!m.binary)
        text(b, word);
    else if (m.scalar == 8)
        raw(b, m, &v, 8);
    else
        raw(b, m, &narrow, 4);
}

static void head(bytes *b, mode m, const char *kind)
{
    char line[400];
    b->n = 0;
    (void)snprintf(
        line, sizeof line,
        "/*---*\\ banner \\*---*/\nFoamFile\n{\n    version 2.0; // as ever\n    format %s;\n    class %s;\n"
        "    arch \"%s;label=%d;scalar=%d\";\n    note \"a \\\"note\\\"; with } marks\";\n    meta { a 1; "
        "}\n}\n\n",
        m.binary ? "binary" : "ascii", kind, m.big ? "MSB" : "LSB", 8 * m.label, 8 * m.scalar);
    text(b, line);
}

static void list(bytes *b, int64_t n)
{
    char line[40];
    (void)snprintf(line, sizeof line, "\n%lld\n(", (long long)n);
    text(b, line);
}

enum { POINTS, FACES, OWNER, NEIGHBOUR, BOUNDARY, N_FILES };
static const char *const file_name[N_FILES] = {"points", "faces", "owner", "neighbour", "boundary"};

/* Two unit cubes side by side along x; 12 points, face 0 lies between them, the ends come first behind it. */
static const int face[11][4] = {{1, 4, 10, 7}, {0, 6, 9, 3},  {2, 5, 11, 8},  {0, 1, 7, 6},
                                {1, 2, 8, 7},  {3, 9, 10, 4}, {4, 10, 11, 5}, {0, 3, 4, 1},
                                {1, 4, 5, 2},  {6, 7, 10, 9}, {7, 8, 11, 10}};

static void write_faces(bytes *b, mode m)
{
    head(b, m, m.compact ? "faceCompactList" : "faceList");
    if (m.compact) {
        list(b, 12);
        for (int i = 0; i <= 11; i++) label(b, m, 4 * i);
        text(b, ")\n");
        list(b, 44);
    } else {
        list(b, 11);
    }
    for (int i = 0; i < 11; i++) {
        if (!m.compact) text(b, "4(");
        for (int k = 0; k < 4; k++) label(b, m, face[i][k]);
        if (!m.compact) text(b, ")\n");
    }
    text(b, ")");
}

static const char boundary[] =
    "4\n(\n  inlet { type patch; nFaces 1; startFace 1; }\n  outlet\n  {\n type patch; inGroups 2(a b);\n "
    "nFaces 1;\n"
    " startFace 2;\n coupling { kind none; } }\n  none { type wall; nFaces 0; startFace 3; }\n"
    "  walls { type wall; nFaces 8; startFace 3; }\n)";

static void make(bytes f[N_FILES], mode m)
{
    static const int owner[11] = {0, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    head(&f[POINTS], m, "vectorField");
    list(&f[POINTS], 12);
    for (int i = 0; i < 12; i++) {
        if (!m.binary) text(&f[POINTS], "(");
        real(&f[POINTS], m, i % 3);
        real(&f[POINTS], m, i / 3 % 2);
        real(&f[POINTS], m, i / 6 + 0.25);
        if (!m.binary) text(&f[POINTS], ")\n");
    }
    text(&f[POINTS], ")");
    write_faces(&f[FACES], m);
    head(&f[OWNER], m, "labelList");
    list(&f[OWNER], 11);
    for (int i = 0; i < 11; i++) label(&f[OWNER], m, owner[i]);
    text(&f[OWNER], ")");
    head(&f[NEIGHBOUR], m, "labelList");
    list(&f[NEIGHBOUR], 1);
    label(&f[NEIGHBOUR], m, 1);
    text(&f[NEIGHBOUR], ")");
    head(&f[BOUNDARY], m, "polyBoundaryMesh");
    text(&f[BOUNDARY], boundary);
}

static void write_file(const char *folder, int i, const bytes *b, bool zipped)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%.200s/%s", folder, file_name[i]);
    if (!zipped) {
        ff_test_write(path, b->s, b->n);
        return;
    }
    (void)strcat(path, ".gz");
    gzFile z = gzopen(path, "wb");
    assert_non_null(z);
    assert_int_equal(gzwrite(z, b->s, (unsigned)b->n), (int)b->n);
    assert_int_equal(gzclose(z), Z_OK);
}

static void remove_files(const char *folder)
{
    char path[300];
    for (int i = 0; i < 2 * N_FILES; i++) {
        (void)snprintf(path, sizeof path, "%.200s/%s%s", folder, file_name[i / 2], i % 2 ? ".gz" : "");
        (void)unlink(path);
    }
}

static ff_status read_mesh(const char *path, ff_mesh **m)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    return ff_mesh_read(path, &opts, m);
}

static void check_box(const ff_mesh *m)
{
    ff_mesh_stats s;
    assert_int_equal(ff_mesh_measure(m, &s), FF_OK);
    assert_int_equal(m->dim, 3);
    assert_int_equal(s.points, 12);
    assert_int_equal(s.cells, 10);
    assert_true(s.area == 10 && s.volume == 2 && s.closed); /* faces point outwards */
    assert_true(s.lo[2] == 0.25 && s.hi[0] == 2);
    assert_int_equal(m->n_patches, 3);
    assert_string_equal(m->patch_name[0], "inlet[patch]");
    assert_string_equal(m->patch_name[1], "outlet[patch]");
    assert_string_equal(m->patch_name[2], "walls[wall]");
    assert_int_equal(m->cell_patch[1], 1);
    assert_int_equal(m->cell_patch[9], 2);
}

static const mode text_mode = {.label = 4, .scalar = 8};

static void every_encoding(void **state)
{
    (void)state;
    static bytes f[N_FILES];
    char folder[64];
    int n = 0;
    assert_true(ff_scratch_make(folder));
    for (int bits = 0; bits < 64; bits++) {
        mode m = {bits & 1, bits & 2, bits & 4, bits & 8, bits & 16 ? 8 : 4, bits & 32 ? 8 : 4};
        ff_mesh *mesh;
        if (!m.binary && (m.big || m.label == 8 || m.scalar == 8)) continue; /* of no meaning for text */
        if (m.binary && !m.compact) continue; /* OpenFOAM writes no such files */
        make(f, m);
        for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], m.zipped);
        if (read_mesh(folder, &mesh) != FF_OK) fail_msg("bits %d: %s", bits, ff_error_text());
        check_box(mesh);
        assert_int_equal(mesh->points_float32, m.binary && m.scalar == 4);
        ff_mesh_destroy(&mesh);
        remove_files(folder);
        n++;
    }
    assert_int_equal(n, 20);
    assert_true(ff_scratch_remove(folder));
}

static void folders_above_and_markers(void **state)
{
    (void)state;
    static bytes f[N_FILES];
    char top[64], path[3][300], file[400];
    ff_mesh *m;
    assert_true(ff_scratch_make(top));
    (void)snprintf(path[0], sizeof path[0], "%s/constant", top);
    (void)snprintf(path[1], sizeof path[1], "%s/constant/polyMesh", top);
    (void)snprintf(path[2], sizeof path[2], "%s/case.foam", top);
    assert_int_equal(mkdir(path[0], 0700), 0);
    assert_int_equal(mkdir(path[1], 0700), 0);
    ff_test_write(path[2], "", 0);
    make(f, text_mode);
    for (int i = 0; i < N_FILES; i++) write_file(path[1], i, &f[i], i % 2);
    const char *const names[] = {top, path[0], path[1], path[2]};
    for (int i = 0; i < 4; i++) {
        if (read_mesh(names[i], &m) != FF_OK) fail_msg("%s", ff_error_text());
        check_box(m);
        ff_mesh_destroy(&m);
    }
    (void)snprintf(file, sizeof file, "%s/points", path[1]);
    ff_test_refused(read_mesh(file, &m), "one file (vectorField) of an OpenFOAM mesh");
    remove_files(path[1]);
    ff_test_refused(read_mesh(top, &m), "folder without an OpenFOAM mesh");
    (void)snprintf(path[0], sizeof path[0], "%s/constant", top);
    assert_int_equal(rmdir(path[1]) | rmdir(path[0]) | unlink(path[2]), 0);
    assert_true(ff_scratch_remove(top));
}

/* Replaces the first occurrence of from. */
static void edit(bytes *b, const char *from, const char *to)
{
    static bytes old;
    old = *b;
    char *at = strstr(old.s, from);
    assert_non_null(at);
    b->n = 0;
    put(b, old.s, (size_t)(at - old.s));
    text(b, to);
    text(b, at + strlen(from));
}

static void variants_are_read(void **state)
{
    (void)state;
    static const struct {
        int file;
        const char *from, *to;
        int64_t cells, patches;
    } rows[] = {
        {BOUNDARY, "\n4\n(", "\n(", 10, 3}, /* no number of patches */
        {BOUNDARY, "{ type wall; nFaces 8", "{ type empty; nFaces 8", 2, 2},
        {BOUNDARY, "{ type patch; nFaces 1", "{ type processor; nFaces 1", 9, 2},
        {NEIGHBOUR, "\n1\n(1 )", "\n11\n(1 -1 -1 -1 -1 -1 -1 -1 -1 -1 -1)", 10, 3}, /* OpenFOAM 1.4 */
        {NEIGHBOUR, "\n1\n(1 )", "\n1{1}", 10, 3},
        {OWNER, "\n11\n(0 0 1 0 1 0 1 0 1 0 1 )", "\n11{0}", 10, 3},
        {POINTS, "\n12\n(", "\n12 /* of them */ (\n// and now\n", 10, 3},
    };
    static bytes f[N_FILES];
    char folder[64];
    assert_true(ff_scratch_make(folder));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ff_mesh *m;
        make(f, text_mode);
        edit(&f[rows[r].file], rows[r].from, rows[r].to);
        for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], false);
        if (read_mesh(folder, &m) != FF_OK) fail_msg("row %zu: %s", r, ff_error_text());
        assert_int_equal(m->n_cells, rows[r].cells);
        assert_int_equal(m->n_patches, rows[r].patches);
        ff_mesh_destroy(&m);
    }
    remove_files(folder);
    assert_true(ff_scratch_remove(folder));
}

static void wrong_files_are_refused(void **state)
{
    (void)state;
    static const struct {
        int file;
        const char *from, *to, *words;
    } rows[] = {
        {POINTS, "FoamFile", "Foam", "expected a FoamFile header"},
        {POINTS, "ascii", "asci", "format \"asci\""},
        {POINTS, "ascii", "binary", "file ends inside the list"},
        {POINTS, "12\n(", "11\n(", "behind item 11"},
        {POINTS, "12\n(", "13\n(", "points: \")\", expected \"(\""},
        {POINTS, "(2 0 0.25 )", "(2 0 )", "expected a number"},
        {POINTS, "(2 0 0.25 )", "(2 0 x )", "\"x\", expected a number"},
        {POINTS, "(2 0 0.25 )", "(2 0 nan )", "expected a finite number"},
        {POINTS, "/*", "/", "expected a FoamFile header"},
        {FACES, "4(0 6 9 3 )", "4(0 6 9 12 )", "face 1: point 12, expected 0 <= it < 12"},
        {FACES, "4(0 6 9 3 )", "4(0 6 9 -1 )", "point -1"},
        {FACES, "4(0 6 9 3 )", "2(0 6)", "has 2 corners"},
        {FACES, "4(0 6 9 3 )", "4(0 6 9)", "expected a whole number"},
        {FACES, "4(0 6 9 3 )", "3(0 6 9 3)", "expected \")\""},
        {FACES, "\n11\n(", "\n999999999999\n(", "expected a whole number"},
        {OWNER, "(0 0 1 0 1 0 1 0 1 0 1 )", "(0 0 1 0 1 0 1 0 1 0)", "expected a whole number"},
        {OWNER, "11\n(0 ", "10\n(", "10 owners, expected 11"},
        {OWNER, "(0 0 1", "(0 -2 1", "item 1 is -2"},
        {NEIGHBOUR, "1\n(1 )", "2\n(1 2)", "expected to begin at 2"},
        {NEIGHBOUR, "1\n(1 )", "3\n(1 -1 2)", "expected -1 as before"},
        {BOUNDARY, "nFaces 8", "nFaces 7", "face 10 belongs to no patch"},
        {BOUNDARY, "nFaces 8", "nFaces 9", "expected to begin at 3 and to end before 11"},
        {BOUNDARY, "nFaces 8", "nFaces -8", "from 0 to 1e12"},
        {BOUNDARY, "nFaces 8;", "", "has no nFaces"},
        {BOUNDARY, "startFace 1;", "", "has no startFace"},
        {BOUNDARY, "type patch;", "", "has no type"},
        {BOUNDARY, "4\n(", "5\n(", "4 patches, expected 5"},
    };
    static bytes f[N_FILES];
    char folder[64];
    assert_true(ff_scratch_make(folder));
    for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
        ff_mesh *m;
        size_t blocks = ff_mem_blocks();
        make(f, text_mode);
        edit(&f[rows[r].file], rows[r].from, rows[r].to);
        for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], false);
        ff_status st = read_mesh(folder, &m);
        if (st == FF_OK) fail_msg("row %zu accepted, expected \"%s\"", r, rows[r].words);
        ff_test_refused(st, rows[r].words);
        assert_int_equal(ff_mem_blocks(), blocks);
    }
    remove_files(folder);
    assert_true(ff_scratch_remove(folder));
}

static void binary_needs_arch_and_rising_offsets(void **state)
{
    (void)state;
    static bytes f[N_FILES];
    char folder[64];
    ff_mesh *m;
    mode binary = {.binary = true, .compact = true, .label = 4, .scalar = 8};
    assert_true(ff_scratch_make(folder));
    make(f, binary);
    for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], false);
    f[POINTS].n = (size_t)(strstr(f[POINTS].s, "arch") - f[POINTS].s);
    text(&f[POINTS], "}\n0()");
    write_file(folder, POINTS, &f[POINTS], false);
    ff_test_refused(read_mesh(folder, &m), "binary with arch \"\"");
    make(f, text_mode);
    mode compact = text_mode;
    compact.compact = true;
    write_faces(&f[FACES], compact);
    edit(&f[FACES], "(0 4 8", "(0 9 8");
    for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], false);
    ff_test_refused(read_mesh(folder, &m), "item 2 is 8, expected them to rise");
    remove_files(folder);
    assert_true(ff_scratch_remove(folder));
}

/* Each file cut after each byte: refused. */
static void every_prefix_is_refused(void **state)
{
    (void)state;
    static bytes f[N_FILES];
    char folder[64];
    assert_true(ff_scratch_make(folder));
    for (int binary = 0; binary < 2; binary++) {
        mode m = {.binary = binary, .compact = binary, .label = 8, .scalar = 4};
        make(f, m);
        for (int i = 0; i < N_FILES; i++) write_file(folder, i, &f[i], false);
        for (int i = 0; i < N_FILES; i++) {
            size_t whole = f[i].n;
            for (f[i].n = 0; f[i].n < whole; f[i].n++) {
                ff_mesh *mesh = NULL;
                write_file(folder, i, &f[i], false);
                ff_status st = read_mesh(folder, &mesh);
                if (st == FF_OK) fail_msg("%s cut at %zu of %zu is accepted", file_name[i], f[i].n, whole);
                ff_test_refused(st, file_name[i]);
            }
            write_file(folder, i, &f[i], false);
        }
    }
    assert_int_equal(ff_mem_blocks(), 0);
    remove_files(folder);
    assert_true(ff_scratch_remove(folder));
}

/* ---- fields of a time folder ---- */

static void reals(bytes *b, mode m, int n, const double *v)
{
    if (!m.binary && n > 1) text(b, "(");
    for (int i = 0; i < n; i++) real(b, m, v[i]);
    if (!m.binary && n > 1) text(b, ")");
}

/* p (n_comp 1) or U (3): one value on the inlet, one a face on the walls, none on the outlet; two cells. */
static void make_field(bytes *b, mode m, int n_comp)
{
    static const double inner[] = {10, 11, 12, 20, 21, 22};
    const char *kind = n_comp == 1 ? "List<scalar>" : "List<vector>";
    double v[24];
    for (int i = 0; i < 24; i++) v[i] = i + 0.5;
    head(b, m, n_comp == 1 ? "volScalarField" : "volVectorField");
    text(b, "dimensions [0 2 -2 0 0 0 0];\n\ninternalField nonuniform ");
    text(b, kind);
    list(b, 2);
    reals(b, m, n_comp, inner);
    reals(b, m, n_comp, inner + n_comp);
    text(b, ");\n\nboundaryField\n{\n inlet { type fixedValue; p0 nonuniform ");
    text(b, kind);
    list(b, 1);
    reals(b, m, n_comp, v);
    text(b, n_comp == 1 ? "); value uniform 7; }\n" : "); value uniform (7 8 9); }\n");
    text(b, " outlet { type zeroGradient; }\n \"(none|oth.*)\" { type calculated; value nonuniform "
            "List<scalar> 0(); }\n"
            " walls\n {\n type calculated; value nonuniform ");
    text(b, kind);
    list(b, 8);
    for (int i = 0; i < 8; i++) reals(b, m, n_comp, v + i * n_comp);
    text(b, ");\n }\n}\n");
}

static void write_named(const char *folder, const char *name, const bytes *b, bool zipped)
{
    char path[300];
    (void)snprintf(path, sizeof path, "%.200s/%s%s", folder, name, zipped ? ".gz" : "");
    if (!zipped) {
        ff_test_write(path, b->s, b->n);
        return;
    }
    gzFile z = gzopen(path, "wb");
    assert_int_equal(gzwrite(z, b->s, (unsigned)b->n), (int)b->n);
    assert_int_equal(gzclose(z), Z_OK);
}

typedef struct {
    char top[64], constant[100], mesh[100], time[3][100];
} foam_case;

static void case_begin(foam_case *c, bytes f[N_FILES])
{
    static const char *const times[] = {"0", "2", "10.5"};
    assert_true(ff_scratch_make(c->top));
    (void)snprintf(c->constant, sizeof c->constant, "%s/constant", c->top);
    (void)snprintf(c->mesh, sizeof c->mesh, "%s/constant/polyMesh", c->top);
    assert_int_equal(mkdir(c->constant, 0700) | mkdir(c->mesh, 0700), 0);
    for (int i = 0; i < 3; i++) {
        (void)snprintf(c->time[i], sizeof c->time[i], "%s/%s", c->top, times[i]);
        assert_int_equal(mkdir(c->time[i], 0700), 0);
    }
    make(f, text_mode);
    for (int i = 0; i < N_FILES; i++) write_file(c->mesh, i, &f[i], false);
}

static void case_end(foam_case *c)
{
    static const char *const names[] = {"p", "U", "p.gz", "U.gz", "notes"};
    for (int i = 0; i < 3; i++) {
        char path[200];
        for (size_t k = 0; k < sizeof names / sizeof *names; k++) {
            (void)snprintf(path, sizeof path, "%s/%s", c->time[i], names[k]);
            (void)unlink(path);
        }
        assert_int_equal(rmdir(c->time[i]), 0);
    }
    remove_files(c->mesh);
    assert_int_equal(rmdir(c->mesh) | rmdir(c->constant), 0);
    assert_true(ff_scratch_remove(c->top));
}

static void fields_of_the_last_time(void **state)
{
    (void)state;
    static bytes f[N_FILES], field;
    foam_case c;
    ff_mesh *m;
    for (int bits = 0; bits < 8; bits++) {
        mode how = {.binary = bits & 1, .big = bits & 2, .zipped = bits & 4, .label = 4, .scalar = 8};
        case_begin(&c, f);
        for (int n_comp = 1; n_comp <= 3; n_comp += 2) {
            make_field(&field, how, n_comp);
            write_named(c.time[2], n_comp == 1 ? "p" : "U", &field, how.zipped);
        }
        ff_test_write(strcat(strcpy((char[200]){0}, c.time[2]), "/notes"), "no field", 8);
        if (read_mesh(c.top, &m) != FF_OK) fail_msg("bits %d: %s", bits, ff_error_text());
        const ff_field *p = ff_field_set_find(&m->cell_data, "p"), *u = ff_field_set_find(&m->cell_data, "U");
        assert_true(p != NULL && u != NULL && m->cell_data.n == 2 && p->n_comp == 1 && u->n_comp == 3);
        assert_true(p->value[0] == 7 && u->value[0] == 7 && u->value[2] == 9);
        assert_true(p->value[1] == 11 && u->value[3] == 20 &&
                    u->value[5] == 22); /* that of the cell at the outlet */
        for (int i = 0; i < 8; i++)
            assert_true(p->value[2 + i] == i + 0.5 && u->value[3 * (2 + i)] == 3 * i + 0.5);
        ff_mesh_destroy(&m);
        case_end(&c);
    }
    assert_int_equal(ff_mem_blocks(), 0);
}

static void times_are_chosen(void **state)
{
    (void)state;
    static bytes f[N_FILES], field;
    static const char *const value[] = {"uniform 1", "uniform 2", "$internalField"};
    foam_case c;
    ff_mesh *m;
    case_begin(&c, f);
    for (int i = 0; i < 3; i++) {
        char line[300];
        head(&field, text_mode, "volScalarField");
        (void)snprintf(line, sizeof line,
                       "#include \"x\"\ninternalField uniform 3;\nboundaryField { #includeEtc \"x\" \".*\" { "
                       "#include \"y\" type a; value %s; } outlet { "
                       "type b; value uniform 9; } }\n",
                       value[i]);
        text(&field, line);
        write_named(c.time[i], "p", &field, false);
    }
    static const double want[] = {3, 1, 2, 3}; /* by step; 0 is the last one */
    for (int step = 0; step < 5; step++) {
        ff_read_opts opts = FF_READ_OPTS_INIT;
        opts.step = step;
        ff_error_clear();
        ff_status st = ff_mesh_read(c.top, &opts, &m);
        if (step == 4) {
            ff_test_refused(st, "step = 4, but there are 3 time folders");
            continue;
        }
        if (st != FF_OK) fail_msg("%s", ff_error_text());
        assert_true(m->cell_data.n == 1);
        assert_true(m->cell_data.field[0].value[0] == want[step] && m->cell_data.field[0].value[1] == 9);
        ff_mesh_destroy(&m);
    }
    case_end(&c);
}

/* Every prefix of a field's file, and what contradicts the mesh. */
static void wrong_fields_are_refused(void **state)
{
    (void)state;
    static bytes f[N_FILES], field;
    foam_case c;
    ff_mesh *m;
    case_begin(&c, f);
    for (int binary = 0; binary < 2; binary++) {
        mode how = {.binary = binary, .label = 4, .scalar = 8};
        make_field(&field, how, 3);
        size_t whole = field.n - 1; /* without the last end of line */
        for (field.n = 0; field.n < whole; field.n++) {
            write_named(c.time[2], "U", &field, false);
            ff_status st = read_mesh(c.top, &m);
            bool silent =
                st == FF_OK && m->cell_data.n == 0 && memmem(field.s, field.n, "class vol", 9) == NULL;
            if (st == FF_OK) ff_mesh_destroy(&m);
            if (st == FF_OK && !silent) fail_msg("cut at %zu of %zu is accepted", field.n, whole);
            if (st != FF_OK) ff_test_refused(st, "10.5/U");
        }
    }
    make_field(&field, text_mode, 1);
    edit(&field, "\n8\n(", "\n7\n(");
    edit(&field, "7.5 )", ")");
    write_named(c.time[2], "U", &field, false);
    ff_test_refused(read_mesh(c.top, &m), "patch walls: 7 values, expected 8, one a face");
    make_field(&field, text_mode, 1);
    edit(&field, "\n2\n(10 ", "\n1\n(");
    write_named(c.time[2], "U", &field, false);
    ff_test_refused(read_mesh(c.top, &m), "internalField: 1 values, expected 2, one a cell");
    make_field(&field, text_mode, 1);
    edit(&field, "uniform 7", "someone 7");
    write_named(c.time[2], "U", &field, false);
    ff_test_refused(read_mesh(c.top, &m), "\"someone\", expected uniform or nonuniform");
    case_end(&c);
    assert_int_equal(ff_mem_blocks(), 0);
}

static const char ftr[] = "2\n(\nbody\nempty\n\nwing\n\"\"\n)\n\n4((0 0 0) (1 0 0) (0 1 0) (0 0 1))\n\n"
                          "3\n(\n((0 2 1) 0)\n((0 1 3) 1)\n((0 3 2) 5)\n)";

static void surfaces_are_read(void **state)
{
    (void)state;
    char folder[64], path[100];
    ff_mesh *m;
    assert_true(ff_scratch_make(folder));
    (void)snprintf(path, sizeof path, "%s/a.ftr", folder);
    ff_test_write(path, ftr, strlen(ftr));
    if (read_mesh(path, &m) != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(m->n_cells, 3);
    assert_int_equal(m->n_points, 4);
    assert_int_equal(m->n_patches, 3);
    assert_string_equal(m->patch_name[1], "wing");
    assert_string_equal(m->patch_name[2], "region 5");
    ff_mesh_destroy(&m);
    for (size_t n = 1; n < strlen(ftr); n++) {
        ff_test_write(path, ftr, n);
        ff_test_refused(read_mesh(path, &m), "a.ftr");
    }
    assert_int_equal(unlink(path), 0);
    assert_true(ff_scratch_remove(folder));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoding),
        cmocka_unit_test(folders_above_and_markers),
        cmocka_unit_test(variants_are_read),
        cmocka_unit_test(wrong_files_are_refused),
        cmocka_unit_test(binary_needs_arch_and_rising_offsets),
        cmocka_unit_test(every_prefix_is_refused),
        cmocka_unit_test(fields_of_the_last_time),
        cmocka_unit_test(times_are_chosen),
        cmocka_unit_test(wrong_fields_are_refused),
        cmocka_unit_test(surfaces_are_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
