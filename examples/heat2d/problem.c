#include "problem.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const side_names[SIDE_COUNT] = {"north", "south", "west", "east"};

/* The parser's position, for error messages. */
typedef struct {
    problem_t *problem;
    const char *file;
    int line;
    char *error;
    size_t error_size;
} parser_t;

static int complain(const parser_t *parser, const char *format, ...) {
    va_list arguments;
    int used = snprintf(parser->error, parser->error_size, "%s:%d: ", parser->file, parser->line);
    if (used < 0 || (size_t)used >= parser->error_size) return -1;
    va_start(arguments, format);
    vsnprintf(parser->error + used, parser->error_size - (size_t)used, format, arguments);
    va_end(arguments);
    return -1;
}

static int parse_boundary(parser_t *parser, const char *rest) {
    char name[16], value[32], extra;
    cell_t cell = {CELL_HELD, 0};
    if (sscanf(rest, "%15s %31s %c", name, value, &extra) != 2)
        return complain(parser, "expected: boundary north|south|west|east TEMPERATURE|insulated");
    if (strcmp(value, "insulated") == 0) cell.kind = CELL_WALL;
    else if (sscanf(value, "%lf %c", &cell.temperature, &extra) != 1 || !isfinite(cell.temperature))
        return complain(parser, "'%s' is neither a temperature nor the word insulated", value);
    for (int side = 0; side < SIDE_COUNT; side++)
        if (strcmp(name, side_names[side]) == 0) {
            parser->problem->boundary[side] = cell;
            return 0;
        }
    return complain(parser, "'%s' is not a side; use north, south, west or east", name);
}

static int parse_shape(parser_t *parser, const char *rest, cell_kind_t kind) {
    problem_t *problem = parser->problem;
    const char *expected = kind == CELL_WALL
                               ? "wall rectangle X0 Y0 X1 Y1, or wall disc X Y RADIUS"
                               : "source rectangle X0 Y0 X1 Y1 TEMPERATURE, or source disc X Y RADIUS TEMPERATURE";
    shape_t shape;
    double v[5] = {0, 0, 0, 0, 0};
    char form[16], extra;
    int used = 0;
    memset(&shape, 0, sizeof shape);
    if (problem->shape_count == PROBLEM_MAX_SHAPES) return complain(parser, "more than %d shapes", PROBLEM_MAX_SHAPES);
    if (sscanf(rest, "%15s %n", form, &used) != 1) return complain(parser, "expected: %s", expected);
    if (strcmp(form, "rectangle") == 0) shape.form = SHAPE_RECTANGLE;
    else if (strcmp(form, "disc") == 0) shape.form = SHAPE_DISC;
    else return complain(parser, "'%s' is not a shape; expected: %s", form, expected);

    int wanted = (shape.form == SHAPE_RECTANGLE ? 4 : 3) + (kind == CELL_HELD ? 1 : 0);
    int got = sscanf(rest + used, "%lf %lf %lf %lf %lf", &v[0], &v[1], &v[2], &v[3], &v[4]);
    if (got != wanted || (wanted == 5 && sscanf(rest + used, "%*f %*f %*f %*f %*f %c", &extra) == 1))
        return complain(parser, "expected: %s", expected);
    for (int i = 0; i < wanted; i++)
        if (!isfinite(v[i])) return complain(parser, "a number is not finite");
    if (shape.form == SHAPE_RECTANGLE && (v[2] < v[0] || v[3] < v[1]))
        return complain(parser, "a rectangle needs X0 <= X1 and Y0 <= Y1");
    shape.kind = kind;
    shape.a = v[0], shape.b = v[1], shape.c = v[2], shape.d = v[3];
    shape.temperature = kind == CELL_HELD ? v[wanted - 1] : 0;
    problem->shapes[problem->shape_count++] = shape;
    return 0;
}

static int parse_line(parser_t *parser, const char *line) {
    problem_t *problem = parser->problem;
    char word[16], extra;
    int used = 0;
    if (sscanf(line, "%15s %n", word, &used) != 1) return 0; /* empty, or only a comment */
    const char *rest = line + used;

    if (strcmp(word, "size") == 0) {
        if (sscanf(rest, "%d %d %c", &problem->columns, &problem->rows, &extra) != 2 || problem->columns < 1 ||
            problem->rows < 1)
            return complain(parser, "expected: size COLUMNS ROWS, both at least 1");
        if (problem->columns > PROBLEM_MAX_CELLS / problem->rows)
            return complain(parser, "a plate has at most %d cells", PROBLEM_MAX_CELLS);
        return 0;
    }
    if (strcmp(word, "steps") == 0) {
        if (sscanf(rest, "%d %c", &problem->steps, &extra) != 1 || problem->steps < 0)
            return complain(parser, "expected: steps N, at least 0");
        return 0;
    }
    if (strcmp(word, "diffusion") == 0) {
        if (sscanf(rest, "%lf %c", &problem->diffusion, &extra) != 1 ||
            !(problem->diffusion > 0 && problem->diffusion <= 0.25))
            return complain(parser, "expected: diffusion F, above 0 and at most 0.25 (more is unstable)");
        return 0;
    }
    if (strcmp(word, "start") == 0) {
        if (sscanf(rest, "%lf %c", &problem->start, &extra) != 1 || !isfinite(problem->start))
            return complain(parser, "expected: start TEMPERATURE");
        return 0;
    }
    if (strcmp(word, "boundary") == 0) return parse_boundary(parser, rest);
    if (strcmp(word, "source") == 0) return parse_shape(parser, rest, CELL_HELD);
    if (strcmp(word, "wall") == 0) return parse_shape(parser, rest, CELL_WALL);
    return complain(parser, "'%s' is not known; use size, steps, diffusion, start, boundary, source or wall", word);
}

int problem_parse(problem_t *problem, const char *text, const char *file, char *error, size_t error_size) {
    parser_t parser = {problem, file, 0, error, error_size};
    memset(problem, 0, sizeof *problem);
    problem->steps = 1000;
    problem->diffusion = 0.2;
    for (int side = 0; side < SIDE_COUNT; side++) problem->boundary[side].kind = CELL_WALL;

    while (*text) {
        char line[256];
        size_t length = strcspn(text, "\n");
        parser.line++;
        if (length >= sizeof line) return complain(&parser, "a line has at most %d characters", (int)sizeof line - 1);
        memcpy(line, text, length);
        line[length] = '\0';
        line[strcspn(line, "#\r")] = '\0';
        if (parse_line(&parser, line) != 0) return -1;
        text += length + (text[length] == '\n');
    }
    if (problem->columns == 0) return complain(&parser, "the line size COLUMNS ROWS is missing");
    return 0;
}

static int shape_covers(const shape_t *shape, int x, int y) {
    if (shape->form == SHAPE_RECTANGLE) return x >= shape->a && x <= shape->c && y >= shape->b && y <= shape->d;
    double dx = x - shape->a, dy = y - shape->b;
    return dx * dx + dy * dy <= shape->c * shape->c;
}

cell_t problem_cell(const problem_t *problem, int x, int y) {
    if (y < 0) return problem->boundary[SIDE_NORTH];
    if (y >= problem->rows) return problem->boundary[SIDE_SOUTH];
    if (x < 0) return problem->boundary[SIDE_WEST];
    if (x >= problem->columns) return problem->boundary[SIDE_EAST];
    for (int i = problem->shape_count - 1; i >= 0; i--)
        if (shape_covers(&problem->shapes[i], x, y)) {
            cell_t cell = {problem->shapes[i].kind, problem->shapes[i].temperature};
            if (cell.kind == CELL_WALL) cell.temperature = problem->start;
            return cell;
        }
    cell_t cell = {CELL_PLATE, problem->start};
    return cell;
}
