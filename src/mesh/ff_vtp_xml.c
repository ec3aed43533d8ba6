/* The XML of a VTP file, read with expat up to the appended data, which are no XML. */
#include "ff_vtp_impl.h"

#include "ff_bytes.h"
#include "ff_mem.h"

#include <expat.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

typedef struct {
    vtp_doc *doc;
    XML_Parser parser;
    ff_status st;
    int depth, array_depth; /* array_depth: of the open DataArray, 0: none */
    int section;            /* vtp_section, -1: none */
    bool seen_root, in_piece, at_appended;
} xml_state;

ff_status vtp_fail(const vtp_doc *doc, const vtp_array *a, const char *fmt, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, fmt);
    (void)vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    return ff_fail(FF_E_INPUT, "%s:%lld: array \"%s\": %s", doc->path, (long long)a->line,
                   ff_show(a->name, strlen(a->name)).s, text);
}

static void stop(xml_state *x, ff_status st)
{
    if (x->st == FF_OK) x->st = st;
    (void)XML_StopParser(x->parser, XML_FALSE);
}

static long long line_of(const xml_state *x)
{
    return (long long)XML_GetCurrentLineNumber(x->parser);
}

static const char *attr_of(const char **attr, const char *name, const char *otherwise)
{
    for (int i = 0; attr[i] != NULL; i += 2)
        if (strcmp(attr[i], name) == 0) return attr[i + 1];
    return otherwise;
}

/* A count; otherwise if the attribute is missing. The limit keeps sums of counts far from overflow. */
static ff_status attr_count(const xml_state *x, const char **attr, const char *name, int64_t otherwise,
                            int64_t *out)
{
    const char *text = attr_of(attr, name, NULL);
    *out = otherwise;
    if (text == NULL) return FF_OK;
    while (*text == ' ') text++;
    size_t len = strcspn(text, " \t\r\n");
    if (ff_word_i64(text, len, out) && *out >= 0 && *out <= 1000000000000) return FF_OK;
    return ff_fail(FF_E_INPUT, "%s:%lld: %s = \"%s\", expected a whole number from 0 to 1e12", x->doc->path,
                   line_of(x), name, ff_show(text, strlen(text)).s);
}

/* ---- elements ---- */

static ff_status on_root(xml_state *x, const char *name, const char **attr)
{
    vtp_doc *d = x->doc;
    if (strcmp(name, "VTKFile") != 0)
        return ff_fail(FF_E_INPUT, "%s:%lld: <%s>, expected <VTKFile>", d->path, line_of(x),
                       ff_show(name, strlen(name)).s);
    const char *type = attr_of(attr, "type", "");
    d->unstructured = strcmp(type, "UnstructuredGrid") == 0;
    if (!d->unstructured && strcmp(type, "PolyData") != 0)
        return ff_fail(
            FF_E_INPUT,
            "%s:%lld: type \"%s\", expected PolyData or UnstructuredGrid; extract the surface first", d->path,
            line_of(x), ff_show(type, strlen(type)).s);
    const char *order = attr_of(attr, "byte_order", "LittleEndian");
    const char *header = attr_of(attr, "header_type", "UInt32");
    const char *packer = attr_of(attr, "compressor", "");
    if (strcmp(order, "LittleEndian") != 0 && strcmp(order, "BigEndian") != 0)
        return ff_fail(FF_E_INPUT, "%s:%lld: byte_order \"%s\", expected LittleEndian or BigEndian", d->path,
                       line_of(x), ff_show(order, strlen(order)).s);
    if (strcmp(header, "UInt32") != 0 && strcmp(header, "UInt64") != 0)
        return ff_fail(FF_E_INPUT, "%s:%lld: header_type \"%s\", expected UInt32 or UInt64", d->path,
                       line_of(x), ff_show(header, strlen(header)).s);
    if (packer[0] != 0 && strcmp(packer, "vtkZLibDataCompressor") != 0)
        return ff_fail(FF_E_UNSUPPORTED,
                       "%s:%lld: compressor \"%s\", expected vtkZLibDataCompressor or none; write it anew",
                       d->path, line_of(x), ff_show(packer, strlen(packer)).s);
    const union {
        uint16_t word;
        unsigned char byte[2];
    } probe = {.word = 1};
    d->swap = (order[0] == 'L') != (probe.byte[0] == 1);
    d->wide_header = strcmp(header, "UInt64") == 0;
    d->zlib = packer[0] != 0;
    x->seen_root = true;
    return FF_OK;
}

static ff_status on_piece(xml_state *x, const char **attr)
{
    static const char *const counts[FF_PD_KINDS] = {"NumberOfVerts", "NumberOfLines", "NumberOfPolys",
                                                    "NumberOfStrips"};
    vtp_doc *d = x->doc;
    FF_TRY(ff_mem_reserve(&d->piece, &d->cap_pieces, d->n_pieces + 1, sizeof *d->piece));
    vtp_piece *p = &d->piece[d->n_pieces++];
    FF_TRY(attr_count(x, attr, "NumberOfPoints", -1, &p->n_points));
    if (p->n_points < 0)
        return ff_fail(FF_E_INPUT, "%s:%lld: a Piece without NumberOfPoints", d->path, line_of(x));
    for (int k = 0; k < FF_PD_KINDS; k++)
        FF_TRY(attr_count(x, attr, d->unstructured ? "" : counts[k], 0, &p->n_cells[k]));
    if (d->unstructured) FF_TRY(attr_count(x, attr, "NumberOfCells", 0, &p->n_cells[FF_PD_POLYS]));
    x->in_piece = true;
    return FF_OK;
}

static int section_of(const char *name)
{
    static const char *const names[] = {"Verts",     "Lines",    "Polys",     "Strips", "Points",
                                        "PointData", "CellData", "FieldData", "Cells"};
    for (int s = 0; s < 9; s++)
        if (strcmp(name, names[s]) == 0) return s;
    return -1;
}

static vtp_type type_of(const char *name)
{
    static const char *const names[] = {"Int8",   "UInt8", "Int16",  "UInt16",  "Int32",
                                        "UInt32", "Int64", "UInt64", "Float32", "Float64"};
    for (int t = 0; t < VTP_NO_NUMBER; t++)
        if (strcmp(name, names[t]) == 0) return (vtp_type)t;
    return VTP_NO_NUMBER;
}

static ff_status on_array(xml_state *x, const char **attr)
{
    vtp_doc *d = x->doc;
    FF_TRY(ff_mem_reserve(&d->array, &d->cap_arrays, d->n_arrays + 1, sizeof *d->array));
    vtp_array *a = &d->array[d->n_arrays];
    *a = (vtp_array){.section = (vtp_section)x->section, .piece = d->n_pieces - 1, .line = line_of(x)};
    if ((a->name = ff_strdup(attr_of(attr, "original_name", attr_of(attr, "Name", "")))) == NULL)
        return FF_E_MEM;
    d->n_arrays++;
    a->type = type_of(attr_of(attr, "type", ""));
    FF_TRY(attr_count(x, attr, "NumberOfComponents", 0, &a->n_comp));
    FF_TRY(attr_count(x, attr, "offset", 0, &a->offset));
    const char *format = attr_of(attr, "format", "ascii");
    if (strcmp(format, "ascii") == 0)
        a->format = VTP_ASCII;
    else if (strcmp(format, "binary") == 0)
        a->format = VTP_BINARY;
    else if (strcmp(format, "appended") == 0)
        a->format = VTP_APPENDED;
    else
        return vtp_fail(d, a, "format \"%s\", expected ascii, binary or appended",
                        ff_show(format, strlen(format)).s);
    x->array_depth = x->depth;
    return FF_OK;
}

/* Appended data follow the tag: parsing ends here. */
static ff_status on_appended(xml_state *x, const char **attr)
{
    vtp_doc *d = x->doc;
    const char *enc = attr_of(attr, "encoding", "base64");
    d->appended_base64 = strcmp(enc, "base64") == 0;
    if (!d->appended_base64 && strcmp(enc, "raw") != 0)
        return ff_fail(FF_E_INPUT, "%s:%lld: AppendedData encoding \"%s\", expected raw or base64", d->path,
                       line_of(x), ff_show(enc, strlen(enc)).s);
    size_t at = (size_t)XML_GetCurrentByteIndex(x->parser) + (size_t)XML_GetCurrentByteCount(x->parser);
    while (at < d->bytes && strchr(" \t\r\n", d->data[at]) != NULL && d->data[at] != 0) at++;
    if (at >= d->bytes || d->data[at] != '_')
        return ff_fail(FF_E_INPUT, "%s:%lld: AppendedData do not begin with '_'", d->path, line_of(x));
    d->appended = at + 1;
    x->at_appended = true;
    (void)XML_StopParser(x->parser, XML_FALSE);
    return FF_OK;
}

static void XMLCALL on_start(void *ctx, const XML_Char *name, const XML_Char **attr)
{
    xml_state *x = ctx;
    ff_status st = FF_OK;
    x->depth++;
    if (x->depth == 1)
        st = on_root(x, name, attr);
    else if (strcmp(name, "Piece") == 0)
        st = on_piece(x, attr);
    else if (strcmp(name, "AppendedData") == 0)
        st = on_appended(x, attr);
    else if (x->array_depth != 0)
        st = FF_OK; /* InformationKey and its values inside an array */
    else if ((strcmp(name, "DataArray") == 0 || strcmp(name, "Array") == 0) && x->section >= 0 &&
             (x->in_piece || x->section == VTP_FIELD_DATA))
        st = on_array(x, attr);
    else if (section_of(name) >= 0)
        x->section = section_of(name);
    if (st != FF_OK) stop(x, st);
}

static void XMLCALL on_end(void *ctx, const XML_Char *name)
{
    xml_state *x = ctx;
    if (x->depth == x->array_depth)
        x->array_depth = 0;
    else if (strcmp(name, "Piece") == 0)
        x->in_piece = false;
    else if (x->array_depth == 0 && section_of(name) >= 0)
        x->section = -1;
    x->depth--;
}

static void XMLCALL on_text(void *ctx, const XML_Char *s, int len)
{
    xml_state *x = ctx;
    if (x->array_depth == 0 || x->depth != x->array_depth) return;
    vtp_array *a = &x->doc->array[x->doc->n_arrays - 1];
    if (a->format == VTP_APPENDED ||
        (a->section == VTP_FIELD_DATA && strcmp(a->name, FF_PD_PATCH_NAMES) != 0))
        return;
    ff_status st = ff_mem_reserve(&a->text, &a->cap_text, a->n_text + len + 1, 1);
    if (st != FF_OK) {
        stop(x, st);
        return;
    }
    for (int i = 0; i < len; i++)
        a->text[a->n_text + i] = s[i] == '\n' ? ' ' : s[i]; /* one long line of words */
    a->n_text += len;
    a->text[a->n_text] = 0;
}

static void XMLCALL on_entity(void *ctx, const XML_Char *name, int is_parameter, const XML_Char *value,
                              int len, const XML_Char *base, const XML_Char *system,
                              const XML_Char *public_id, const XML_Char *notation)
{
    (void)name, (void)is_parameter, (void)value, (void)len, (void)base, (void)system, (void)public_id,
        (void)notation;
    xml_state *x = ctx;
    stop(x, ff_fail(FF_E_INPUT, "%s:%lld: entity declarations do not belong into a VTP file", x->doc->path,
                    line_of(x)));
}

/* ---- the document ---- */

static void *xml_malloc(size_t n)
{
    return ff_mem_alloc(n, 1);
}
static void *xml_realloc(void *p, size_t n)
{
    return ff_mem_resize(p, n, 1);
}
static void xml_free(void *p)
{
    ff_free(p);
}

static ff_status parse_all(xml_state *x)
{
    vtp_doc *d = x->doc;
    const size_t piece = (size_t)1 << 24;
    for (size_t at = 0; x->st == FF_OK && !x->at_appended && at <= d->bytes;) {
        size_t n = d->bytes - at < piece ? d->bytes - at : piece;
        bool last = at + n == d->bytes;
        enum XML_Status ok = XML_Parse(x->parser, (const char *)d->data + at, (int)n, last);
        if (ok != XML_STATUS_OK && x->st == FF_OK && !x->at_appended) {
            enum XML_Error err = XML_GetErrorCode(x->parser);
            if (err == XML_ERROR_NO_MEMORY) return FF_E_MEM;
            return ff_fail(FF_E_INPUT, "%s:%lld: not well-formed XML: %s", d->path, line_of(x),
                           XML_ErrorString(err));
        }
        at += n;
        if (last) break;
    }
    return x->st;
}

ff_status vtp_doc_parse(vtp_doc *doc, const char *path, const void *data, size_t bytes)
{
    static const XML_Memory_Handling_Suite memory = {xml_malloc, xml_realloc, xml_free};
    *doc = (vtp_doc){.path = path, .data = data, .bytes = bytes};
    if (bytes == 0) return ff_fail(FF_E_INPUT, "%s: the file is empty, expected VTP", path);
    xml_state x = {.doc = doc, .section = -1};
    x.parser = XML_ParserCreate_MM(NULL, &memory, NULL);
    if (x.parser == NULL) return FF_E_MEM;
    XML_SetUserData(x.parser, &x);
    XML_SetElementHandler(x.parser, on_start, on_end);
    XML_SetCharacterDataHandler(x.parser, on_text);
    XML_SetEntityDeclHandler(x.parser, on_entity);
    ff_status st = parse_all(&x);
    XML_ParserFree(x.parser);
    return st;
}

void vtp_doc_free(vtp_doc *doc)
{
    for (int64_t i = 0; i < doc->n_arrays; i++) {
        ff_free(doc->array[i].name);
        ff_free(doc->array[i].text);
    }
    FF_FREE(doc->array);
    FF_FREE(doc->piece);
    doc->n_arrays = doc->n_pieces = doc->cap_arrays = doc->cap_pieces = 0;
}
