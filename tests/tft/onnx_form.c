/* SPDX-License-Identifier: Apache-2.0
 *
 * onnx_form FILE: is it an ONNX model as far as its form goes? Every field ends where it should, values are made once
 * and before they are read, each constant has the bytes that its shape says, outputs exist. Prints the names of inputs
 * and outputs.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_MOST = 20000 };

struct bytes {
    const unsigned char *at, *end;
};

struct field {
    unsigned number, kind;
    uint64_t whole;      /* of kind 0 */
    struct bytes inside; /* of the others */
};

static struct bytes values[VALUES_MOST]; /* names */
static size_t value_count, nodes, constants;

static void fail(const char *what, struct bytes name)
{
    printf("%s %.*s\n", what, (int)(name.end - name.at), (const char *)name.at);
    exit(1);
}

static uint64_t varint(struct bytes *b)
{
    uint64_t value = 0;

    for (unsigned shift = 0; b->at < b->end && shift < 64; shift += 7) {
        unsigned char byte = *b->at++;
        value |= (uint64_t)(byte & 127) << shift;
        if (byte < 128)
            return value;
    }
    fail("a number does not end", (struct bytes){ NULL, NULL });
    return 0;
}

/* The next field; 0 at the end. */
static int next(struct bytes *b, struct field *f)
{
    if (b->at == b->end)
        return 0;
    uint64_t key = varint(b), size;
    *f = (struct field){ .number = (unsigned)(key >> 3), .kind = key & 7 };
    if (f->kind == 0) {
        f->whole = varint(b);
        return 1;
    }
    size = f->kind == 2 ? varint(b) : f->kind == 5 ? 4 : 8;
    if ((f->kind != 1 && f->kind != 2 && f->kind != 5) || size > (uint64_t)(b->end - b->at))
        fail("a field ends behind the message that holds it", (struct bytes){ NULL, NULL });
    f->inside = (struct bytes){ b->at, b->at + size };
    b->at += size;
    return 1;
}

static int is_known(struct bytes name)
{
    for (size_t i = 0; i < value_count; i++)
        if (values[i].end - values[i].at == name.end - name.at &&
            !memcmp(values[i].at, name.at, (size_t)(name.end - name.at)))
            return 1;
    return 0;
}

static void add(struct bytes name)
{
    if (name.at == name.end || is_known(name) || value_count == VALUES_MOST)
        fail("no name, or made twice:", name);
    values[value_count++] = name;
}

static void read_constant(struct bytes b)
{
    static const size_t widths[] = { [1] = 4, [6] = 4, [7] = 8, [9] = 1, [11] = 8 };
    struct bytes name = { NULL, NULL }, raw = { NULL, NULL };
    size_t count = 1, width = 0;

    for (struct field f; next(&b, &f);) {
        count *= f.number == 1 ? f.whole : 1;
        if (f.number == 2 && f.whole < sizeof widths / sizeof *widths)
            width = widths[f.whole];
        name = f.number == 8 ? f.inside : name;
        raw = f.number == 9 ? f.inside : raw;
    }
    if (!width || count * width != (size_t)(raw.end - raw.at))
        fail("a constant's bytes are not those of its shape:", name);
    add(name);
    constants++;
}

static void read_node(struct bytes b)
{
    struct bytes operator= { NULL, NULL };
    size_t made = 0;

    for (struct field f; next(&b, &f);) {
        if (f.number == 1 && f.inside.at != f.inside.end && !is_known(f.inside))
            fail("a node reads what is not made before:", f.inside);
        if (f.number == 2) {
            add(f.inside);
            made++;
        }
        operator= f.number == 4 ? f.inside : operator;
    }
    if (operator.at == operator.end || !made)
        fail("a node without an operator or a result", operator);
    nodes++;
}

static struct bytes name_of(struct bytes info)
{
    for (struct field f; next(&info, &f);)
        if (f.number == 1)
            return f.inside;
    return (struct bytes){ NULL, NULL };
}

/* Those fields of a graph: its constants, inputs, nodes, outputs. */
static void read_graph(struct bytes b, unsigned number)
{
    for (struct field f; next(&b, &f);) {
        if (f.number != number)
            continue;
        struct bytes name = number == 11 || number == 12 ? name_of(f.inside) : (struct bytes){ NULL, NULL };
        if (number == 5)
            read_constant(f.inside);
        else if (number == 1)
            read_node(f.inside);
        else if (number == 11)
            add(name);
        else if (!is_known(name))
            fail("an output that is not made:", name);
        if (name.at)
            printf("%s %.*s\n", number == 11 ? "input" : "output", (int)(name.end - name.at), (const char *)name.at);
    }
}

int main(int argc, char **argv)
{
    FILE *file = argc == 2 ? fopen(argv[1], "rb") : NULL;
    static unsigned char data[32 << 20];
    size_t size = file ? fread(data, 1, sizeof data, file) : 0, graphs = 0, opsets = 0;
    struct bytes model = { data, data + size };

    if (!file || !size || fclose(file)) {
        printf("cannot read the file\n");
        return 99;
    }
    for (struct field f; next(&model, &f);) {
        opsets += f.number == 8;
        if (f.number != 7)
            continue;
        graphs++;
        read_graph(f.inside, 5);
        read_graph(f.inside, 11);
        read_graph(f.inside, 1);
        read_graph(f.inside, 12);
    }
    printf("%zu nodes, %zu constants\n", nodes, constants);
    return graphs == 1 && opsets == 2 && nodes && constants ? 0 : 1;
}
