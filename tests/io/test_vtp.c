/* VTP reader: one small surface in every encoding the format knows, strips, lines, pieces, and damaged files.
 */
#include "../ff_test_mesh.h"

#include "ff_vtp.h"

#include <math.h>
#include <zlib.h>

/* ---- a writer of VTP documents, of its own kind ---- */

typedef enum { ASCII, INLINE64, APPENDED_RAW, APPENDED64, N_FORMATS } format;

typedef struct {
    format format;
    bool zlib, wide, big,
        split_header; /* split_header: base64 of header and data apart, as some writers do */
} mode;

typedef struct {
    char s[1 << 16];
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

static void put64(bytes *b, const void *data, size_t n)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = data;
    for (size_t i = 0; i < n; i += 3) {
        unsigned v =
            (unsigned)p[i] << 16 | (i + 1 < n ? (unsigned)p[i + 1] << 8 : 0) | (i + 2 < n ? p[i + 2] : 0);
        char q[4] = {digit[v >> 18], digit[v >> 12 & 63], i + 1 < n ? digit[v >> 6 & 63] : '=',
                     i + 2 < n ? digit[v & 63] : '='};
        put(b, q, 4);
    }
}

static void put_word(bytes *b, mode m, uint64_t v)
{
    unsigned char w[8];
    int n = m.wide ? 8 : 4;
    for (int i = 0; i < n; i++) w[m.big ? n - 1 - i : i] = (unsigned char)(v >> 8 * i);
    put(b, w, (size_t)n);
}

/* data [n] little-endian elements of size bytes -> header and payload in the mode's form. */
static void encode(bytes *out, mode m, const void *data, size_t n, size_t size)
{
    static bytes raw, head, body;
    raw.n = head.n = body.n = 0;
    for (size_t i = 0; i < n * size; i++) {
        size_t at = m.big ? i / size * size + size - 1 - i % size : i;
        put(&raw, (const char *)data + at, 1);
    }
    if (!m.zlib) {
        put_word(&head, m, raw.n);
        put(&body, raw.s, raw.n);
    } else {
        enum { BLOCK = 32 };
        size_t blocks = (raw.n + BLOCK - 1) / BLOCK;
        put_word(&head, m, blocks);
        put_word(&head, m, BLOCK);
        put_word(&head, m, raw.n % BLOCK); /* 0: the last block is full */
        for (size_t i = 0; i < blocks; i++) {
            unsigned char packed[128];
            uLongf len = sizeof packed;
            size_t take = raw.n - i * BLOCK < BLOCK ? raw.n - i * BLOCK : BLOCK;
            assert_int_equal(compress(packed, &len, (const Bytef *)raw.s + i * BLOCK, take), Z_OK);
            put_word(&head, m, len);
            put(&body, packed, len);
        }
    }
    if (m.format == APPENDED_RAW) {
        put(out, head.s, head.n);
        put(out, body.s, body.n);
    } else if (m.zlib || m.split_header) {
        put64(out, head.s, head.n);
        put64(out, body.s, body.n);
    } else {
        put(&head, body.s, body.n);
        put64(out, head.s, head.n);
    }
}

typedef struct {
    mode mode;
    bytes xml, appended;
} doc;

static void array(doc *d, const char *type, const char *name, int n_comp, const void *data, int n,
                  size_t size)
{
    char tag[300];
    static const char *const formats[] = {"ascii", "binary", "appended", "appended"};
    (void)snprintf(
        tag, sizeof tag,
        "<DataArray type=\"%s\" Name=\"%s\" NumberOfComponents=\"%d\" format=\"%s\" offset=\"%zu\">\n", type,
        name, n_comp, formats[d->mode.format], d->appended.n);
    text(&d->xml, tag);
    if (d->mode.format == ASCII) {
        for (int i = 0; i < n; i++) {
            double v = 0;
            float f;
            int16_t h;
            int32_t w;
            int64_t l;
            if (type[0] == 'F' && size == 4)
                memcpy(&f, (const char *)data + 4 * i, 4), v = f;
            else if (type[0] == 'F')
                memcpy(&v, (const char *)data + 8 * i, 8);
            else if (size == 2)
                memcpy(&h, (const char *)data + 2 * i, 2), v = h;
            else if (size == 4)
                memcpy(&w, (const char *)data + 4 * i, 4), v = w;
            else
                memcpy(&l, (const char *)data + 8 * i, 8), v = (double)l;
            (void)snprintf(tag, sizeof tag, "%.17g%s", v, i % 3 == 2 ? "\n" : " ");
            text(&d->xml, tag);
        }
    } else if (d->mode.format == INLINE64) {
        encode(&d->xml, d->mode, data, (size_t)n, size);
    } else {
        encode(&d->appended, d->mode, data, (size_t)n, size);
    }
    text(&d->xml, "\n<InformationKey name=\"L2_NORM_RANGE\"><Value "
                  "index=\"0\">7</Value></InformationKey></DataArray>\n");
}

static void open_doc(doc *d, mode m)
{
    memset(d, 0, sizeof *d);
    d->mode = m;
    char head[300];
    (void)snprintf(head, sizeof head,
                   "<?xml version=\"1.0\"?>\n<VTKFile type=\"PolyData\" version=\"1.0\" "
                   "byte_order=\"%s\"%s%s>\n<PolyData>\n",
                   m.big ? "BigEndian" : "LittleEndian", m.wide ? " header_type=\"UInt64\"" : "",
                   m.zlib ? " compressor=\"vtkZLibDataCompressor\"" : "");
    text(&d->xml, head);
}

static void close_doc(doc *d)
{
    text(&d->xml, "</PolyData>\n");
    if (d->mode.format >= APPENDED_RAW) {
        text(&d->xml, d->mode.format == APPENDED_RAW ? "<AppendedData encoding=\"raw\">\n  _"
                                                     : "<AppendedData encoding=\"base64\">\n  _");
        put(&d->xml, d->appended.s, d->appended.n);
        text(&d->xml, "\n</AppendedData>\n");
    }
    text(&d->xml, "</VTKFile>\n");
}

/* A quad, a triangle and a strip of two triangles on six points; a field of each kind. */
static void surface(doc *d, mode m)
{
    static const float xyz[] = {0, 0, 0, 1, 0, 0, 1, 1, 0, 0, 1, 0, 2, 0, 0.1f, 2, 1, 0};
    static const double p[] = {100.5, -2, 3e-300};
    static const int16_t v[] = {0, -1, 2, -3, 4, -5, 6, -7, 8, -9, 10, -11};
    static const int64_t pc[] = {0, 1, 2, 3, 0, 1, 2}, po[] = {4, 7}, so[] = {4};
    static const int32_t sc[] = {1, 4, 2, 5};
    open_doc(d, m);
    text(&d->xml,
         "<FieldData><Array type=\"String\" Name=\"note\" format=\"ascii\">72 105 0</Array></FieldData>\n"
         "<Piece NumberOfPoints=\"6\" NumberOfVerts=\"0\" NumberOfStrips=\"1\" "
         "NumberOfPolys=\"2\">\n<PointData>\n");
    array(d, "Int16", "v", 2, v, 12, 2);
    text(&d->xml, "</PointData><CellData>\n");
    array(d, "Float64", "p", 1, p, 3, 8);
    text(&d->xml, "</CellData><Points>\n");
    array(d, "Float32", "Points", 3, xyz, 18, 4);
    text(&d->xml, "</Points><Strips>\n");
    array(d, "Int32", "connectivity", 1, sc, 4, 4);
    array(d, "Int64", "offsets", 1, so, 1, 8);
    text(&d->xml, "</Strips><Polys>\n");
    array(d, "Int64", "connectivity", 1, pc, 7, 8);
    array(d, "Int64", "offsets", 1, po, 2, 8);
    text(&d->xml, "</Polys></Piece>\n");
    close_doc(d);
}

static ff_status parse(const bytes *b, ff_mesh **m)
{
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_error_clear();
    return ff_vtp_parse("mem.vtp", b->s, b->n, &opts, m);
}

static void check_surface(const ff_mesh *m)
{
    static const int64_t off[] = {0, 4, 7, 10, 13}, pts[] = {0, 1, 2, 3, 0, 1, 2, 1, 4, 2, 2, 4, 5};
    static const double p[] = {100.5, -2, 3e-300, 3e-300};
    assert_int_equal(m->dim, 3);
    assert_int_equal(m->n_points, 6);
    assert_int_equal(m->n_cells, 4);
    assert_true(m->points_float32);
    assert_memory_equal(m->cell_off, off, sizeof off);
    /* The second triangle of the strip 1 4 2 5 is 4 2 5 walked the other way: 2 4 5. */
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    assert_true(m->points[14] == (double)0.1f && m->points[15] == 2 && m->points[16] == 1);
    assert_int_equal(m->cell_data.n, 1);
    assert_memory_equal(m->cell_data.field[0].value, p, sizeof p);
    const ff_field *v = ff_field_set_find(&m->point_data, "v");
    assert_non_null(v);
    assert_int_equal(v->n_comp, 2);
    for (int i = 0; i < 12; i++) assert_true(v->value[i] == (i % 2 ? -i : i));
}

static void every_encoding(void **state)
{
    (void)state;
    static doc d;
    int n = 0;
    for (int f = 0; f < N_FORMATS; f++)
        for (int bits = 0; bits < 16; bits++) {
            mode m = {(format)f, bits & 1, bits & 2, bits & 4, bits & 8};
            ff_mesh *mesh;
            surface(&d, m);
            if (parse(&d.xml, &mesh) != FF_OK)
                fail_msg("format %d zlib %d wide %d big %d split %d: %s", f, m.zlib, m.wide, m.big,
                         m.split_header, ff_error_text());
            check_surface(mesh);
            ff_mesh_destroy(&mesh);
            n++;
        }
    assert_int_equal(n, 64);
}

static void lines_become_edges(void **state)
{
    (void)state;
    static const bytes b = {
        "<VTKFile type='PolyData'><PolyData><Piece NumberOfPoints='4' NumberOfVerts='1' NumberOfLines='2'>"
        "<CellData><DataArray type='Float32' Name='a' format='ascii'>9 1 2</DataArray></CellData>"
        "<Points><DataArray type='Float64' NumberOfComponents='3' format='ascii'>0 0 5 1 0 5 1 1 5 0 1 "
        "5</DataArray></Points>"
        "<Verts><DataArray type='Int32' Name='connectivity'>0</DataArray><DataArray type='Int32' "
        "Name='offsets'>1</DataArray></Verts>"
        "<Lines><DataArray type='Int32' Name='connectivity'>0 1 2 2 3 0</DataArray>"
        "<DataArray type='Int32' Name='offsets'>4\n6</DataArray></Lines></Piece></PolyData></VTKFile>",
        0};
    bytes copy = b;
    copy.n = strlen(copy.s);
    ff_mesh *m;
    if (parse(&copy, &m) != FF_OK) fail_msg("%s", ff_error_text());
    static const int64_t pts[] = {0, 1, 1, 2, 2, 2, 3, 0};
    static const double a[] = {1, 1, 1, 2};
    assert_int_equal(m->dim, 2);
    assert_int_equal(m->n_cells, 4);
    assert_null(m->cell_off);
    assert_memory_equal(m->cell_pts, pts, sizeof pts);
    assert_memory_equal(m->cell_data.field[0].value, a, sizeof a);
    assert_true(m->points[2] == 0 && m->points[11] == 0); /* the plane z = 5 is put to z = 0 */
    ff_mesh_destroy(&m);
}

#define PIECE(x)                                                                                             \
    "<Piece NumberOfPoints='3' NumberOfPolys='1'><PointData><DataArray type='Float32' Name='t'>1 2 " x       \
    "</DataArray></PointData><Points><DataArray type='Float32' NumberOfComponents='3'>0 0 0 " x              \
    " 0 0 0 1 0</DataArray></Points><Polys><DataArray type='Int32' Name='connectivity'>0 1 2</DataArray>"    \
    "<DataArray type='Int32' Name='offsets'>3</DataArray></Polys></Piece>"

static void pieces_become_patches(void **state)
{
    (void)state;
    static bytes b;
    b.n = 0;
    text(&b, "<VTKFile type='PolyData'><PolyData>" PIECE("5") "<Piece NumberOfPoints='0'></Piece>" PIECE(
                 "7") "</PolyData></VTKFile>");
    ff_mesh *m;
    if (parse(&b, &m) != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(m->n_cells, 2);
    assert_int_equal(m->n_patches, 2);
    assert_string_equal(m->patch_name[0], "piece 0");
    assert_string_equal(m->patch_name[1], "piece 2");
    assert_int_equal(m->cell_patch[1], 1);
    assert_int_equal(m->cell_pts[3], 3);
    assert_true(m->points[3] == 5 && m->points[12] == 7);
    assert_true(m->point_data.field[0].value[5] == 7);
    ff_mesh_destroy(&m);
}

/* ---- refusals ---- */

static void refuse(const bytes *b, const char *words)
{
    ff_mesh *m;
    size_t blocks = ff_mem_blocks();
    ff_status st = parse(b, &m);
    if (st == FF_OK) fail_msg("accepted, expected a message with \"%s\"", words);
    ff_test_refused(st, words);
    assert_null(m);
    assert_int_equal(ff_mem_blocks(), blocks);
}

/* The surface in text with the first occurrence of one word changed. */
static void refuse_edit(format f, const char *from, const char *to, const char *words)
{
    static doc d;
    static bytes b;
    surface(&d, (mode){.format = f, .zlib = f == APPENDED_RAW});
    char *at = strstr(d.xml.s, from);
    assert_non_null(at);
    b.n = 0;
    put(&b, d.xml.s, (size_t)(at - d.xml.s));
    text(&b, to);
    put(&b, at + strlen(from), d.xml.n - (size_t)(at - d.xml.s) - strlen(from));
    refuse(&b, words);
}

static void wrong_documents_are_refused(void **state)
{
    (void)state;
    static const struct {
        format f;
        const char *from, *to, *words;
    } rows[] = {
        {ASCII, "<VTKFile", "<VTKfile", "expected <VTKFile>"},
        {ASCII, "PolyData\"", "ImageData\"", "expected PolyData or UnstructuredGrid"},
        {ASCII, "LittleEndian", "MiddleEndian", "byte_order"},
        {ASCII, "byte_order=", "header_type=\"UInt16\" byte_order=", "header_type \"UInt16\""},
        {ASCII, "byte_order=", "compressor=\"vtkLZ4DataCompressor\" byte_order=", "vtkLZ4DataCompressor"},
        {ASCII, "byte_order=", "compressor=\"vtkLZMADataCompressor\" byte_order=", "vtkLZMADataCompressor"},
        {ASCII, "format=\"ascii\" offset", "format=\"hex\" offset", "format \"hex\""},
        {APPENDED64, "encoding=\"base64\"", "encoding=\"base85\"", "encoding \"base85\""},
        {APPENDED64, ">\n  _", ">\n  ", "do not begin with '_'"},
        {ASCII, "format=\"ascii\" offset", "format=\"appended\" offset", "no AppendedData"},
        {APPENDED64, "offset=\"0\"", "offset=\"99999\"", "behind the end"},
        {APPENDED64, "offset=\"0\"", "offset=\"-4\"", "offset = \"-4\""},
        {ASCII, "NumberOfPoints=\"6\"", "", "without NumberOfPoints"},
        {ASCII, "NumberOfPoints=\"6\"", "NumberOfPoints=\"-6\"", "NumberOfPoints"},
        {ASCII, "NumberOfPoints=\"6\"", "NumberOfPoints=\"6.0\"", "NumberOfPoints"},
        {ASCII, "NumberOfPoints=\"6\"", "NumberOfPoints=\"7\"", "expected 21"},
        {ASCII, "NumberOfPoints=\"6\"", "NumberOfPoints=\"5\"", "more than the expected"},
        {ASCII, "NumberOfPoints=\"6\"", "NumberOfPoints=\"900000000000\"", "more than the file can hold"},
        {APPENDED_RAW, "NumberOfPoints=\"6\"", "NumberOfPoints=\"7\"", "holds 18 values, expected 21"},
        {APPENDED_RAW, "NumberOfPoints=\"6\"", "NumberOfPoints=\"5\"", "more than the expected 15"},
        {INLINE64, "NumberOfPolys=\"2\"", "NumberOfPolys=\"1\"", "more than the expected 1"},
        {ASCII, "NumberOfPolys=\"2\"", "NumberOfPolys=\"3\"", "offsets"},
        {INLINE64, "NumberOfPolys=\"2\"", "NumberOfPolys=\"3\"", "holds 2 values, expected 3"},
        {ASCII, "NumberOfComponents=\"3\"", "NumberOfComponents=\"2\"", "expected 3"},
        {ASCII, "Name=\"offsets\"", "Name=\"ends\"", "no array named offsets"},
        {ASCII, "\n4 7 ", "\n4 99 ", "connectivity"},
        {ASCII, "\n4 7 ", "\n8 7 ", "Polys: cell 0 ends at 8"},
        {ASCII, "\n4 7 ", "\n-4 7 ", "Polys: cell 0 ends at -4"},
        {ASCII, "\n4 7 ", "\n4 -7 ", "ends at -7"},
        {ASCII, "\n4 7 ", "\n5 7 ", "has 2 points"},
        {ASCII, "\n0 1 2\n3", "\n0 1 6\n3", "point id 6, expected 0 <= id < 6"},
        {ASCII, "\n0 1 2\n3", "\n0 1 -1\n3", "point id -1"},
        {ASCII, "\n0 1 2\n3", "\n0 1 x\n3", "value 2 is \"x\""},
        {ASCII, "\n0 0 0\n", "\n0 nan 0\n", "expected a finite number"},
        {ASCII, "</Piece>", "", "not well-formed"},
        {ASCII, "<VTKFile", "<!DOCTYPE a [<!ENTITY b \"c\">]><VTKFile", "entity"},
        {ASCII, "\"1.0\"?>", "\"1.0\" encoding=\"klingon\"?>", "not well-formed XML: unknown encoding"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        refuse_edit(rows[i].f, rows[i].from, rows[i].to, rows[i].words);
    static bytes b;
    b.n = 0;
    refuse(&b, "empty");
    text(&b, "solid nothing");
    refuse(&b, "not well-formed");
}

/* Cut anywhere, or with any byte changed, a file is refused or read, and nothing leaks. */
static void damaged_bytes(void **state)
{
    (void)state;
    static doc d;
    static bytes b;
    int refused = 0;
    for (int f = 0; f < N_FORMATS; f++) {
        surface(&d, (mode){.format = (format)f, .zlib = f % 2, .wide = f > 1});
        for (size_t cut = 0; cut < d.xml.n; cut += 7) {
            ff_mesh *m;
            b = d.xml;
            b.n = cut;
            b.s[cut] = 0;
            refused += parse(&b, &m) != FF_OK;
            ff_mesh_destroy(&m);
            b = d.xml;
            b.s[cut] = (char)(b.s[cut] ^ (1 << cut % 8));
            refused += parse(&b, &m) != FF_OK;
            ff_mesh_destroy(&m);
            assert_int_equal(ff_mem_blocks(), 0);
        }
    }
    assert_true(refused > 500); /* all cuts before the last array's data, about 1000 of them */
}

static void every_allocation_may_fail(void **state)
{
    (void)state;
    static doc d;
    for (int f = 0; f < N_FORMATS; f++) {
        surface(&d, (mode){.format = (format)f, .zlib = f % 2});
        for (int64_t n = 1;; n++) {
            ff_mesh *m;
            ff_mem_fail_at(n);
            ff_status st = parse(&d.xml, &m);
            bool hit = ff_mem_fault_hit();
            ff_mem_fail_at(0);
            ff_mesh_destroy(&m);
            assert_int_equal(ff_mem_blocks(), 0);
            if (!hit) {
                assert_int_equal(st, FF_OK);
                assert_true(n > 20);
                break;
            }
            assert_int_equal(st, FF_E_MEM);
        }
    }
}

static void real_file(void **state)
{
    (void)state;
    const char *path = FF_SOURCE_DIR "/../shared/meshes/disk_out_ref_surface.vtp";
    if (access(path, R_OK) != 0) {
        print_message("skipped: %s is not here\n", path);
        return;
    }
    ff_read_opts opts = FF_READ_OPTS_INIT;
    ff_mesh *m;
    if (ff_vtp_read(path, &opts, &m) != FF_OK) fail_msg("%s", ff_error_text());
    assert_int_equal(m->n_points, 1990);
    assert_int_equal(m->n_cells, 1988);
    assert_int_equal(m->n_patches, 1);
    assert_int_equal(m->point_data.n, 9);
    assert_int_equal(m->cell_data.n, 4);
    double area = 0, *each = ff_mem_alloc((size_t)m->n_cells, sizeof *each);
    ff_mesh_cell_areas(m, each);
    for (int64_t c = 0; c < m->n_cells; c++) area += each[c];
    ff_free(each);
    assert_true(fabs(area - 1173.19310946) < 1e-6 * area); /* float32 programs agree to about 1e-8 */
    ff_mesh_destroy(&m);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_encoding),
        cmocka_unit_test(lines_become_edges),
        cmocka_unit_test(pieces_become_patches),
        cmocka_unit_test(wrong_documents_are_refused),
        cmocka_unit_test(damaged_bytes),
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(real_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL) + (ff_mem_blocks() != 0);
}
