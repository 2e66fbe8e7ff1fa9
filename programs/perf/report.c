/* The table on standard output, and JSON, SVG and HTML files. */
#include "perf.h"

#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static struct result *results;
static size_t count, room;

static double megabytes(const struct result *r) { return r->per_second * (double)r->bytes / 1e6; }

/* If a file goes to standard output, the table goes to standard error. */
static int is_output(const char *name) { return name != NULL && strcmp(name, "-") == 0; }
static FILE *json, *svg, *html;

FILE *report_table(void) {
    return is_output(options.json) || is_output(options.svg) || is_output(options.html) ? stderr : stdout;
}

static int is_shown; /* progress on the terminal */
void report_erase(void) {
    if (is_shown) fprintf(stderr, "\r\033[K");
    is_shown = 0;
}
void report_progress(const char *format, ...) {
    va_list list;
    if (!isatty(STDERR_FILENO)) return;
    report_erase();
    va_start(list, format);
    vfprintf(stderr, format, list);
    va_end(list);
    is_shown = 1;
}

void report_begin(void) {
    FILE *out = report_table();
    /* Open the files now, so that an error is reported before the run. */
    if (options.json != NULL) json = report_file(options.json);
    if (options.svg != NULL) svg = report_file(options.svg);
    if (options.html != NULL) html = report_file(options.html);
    fprintf(out, "# %-18s %9s %11s %7s %12s %10s", "test", "bytes", "us", "+-%", "1000 op/s", "MB/s");
    fprintf(out, options.limits ? " %8s\n" : "\n", "x limit");
    fflush(out);
}

void report_result(const struct result *r) {
    FILE *out = report_table();
    char bytes[24] = "-", rate[24] = "-";
    report_erase();
    if (r->test->flags & MANY_BYTES || r->bytes > 0) {
        snprintf(bytes, sizeof bytes, "%zu", r->bytes);
        snprintf(rate, sizeof rate, "%.1f", megabytes(r));
    }
    fprintf(out, "  %-18s %9s %11.4f %7.1f %12.1f %10s", r->test->name, bytes, r->us.median,
            50 * (r->us.high - r->us.low) / r->us.median, r->per_second / 1e3, rate);
    if (options.limits) {
        if (r->limit > 0) {
            fprintf(out, " %8.2f", r->us.median / r->limit);
        } else {
            fprintf(out, " %8s", "-");
        }
    }
    fprintf(out, "\n");
    fflush(out);
    if (count == room) {
        struct result *more = realloc(results, (room = 2 * room + 64) * sizeof *results);
        if (more == NULL) gasnet_exit(1);
        results = more;
    }
    results[count++] = *r;
}

FILE *report_file(const char *name) {
    FILE *file = is_output(name) ? stdout : fopen(name, "w");
    if (file == NULL) {
        fprintf(stderr, "gasnet_perf: cannot write %s\n", name);
        perror("gasnet_perf");
        give_up();
    }
    return file;
}
void report_close(FILE *file, const char *name) {
    int bad = fflush(file) != 0 || ferror(file);
    if ((file != stdout && fclose(file) != 0) || bad) {
        fprintf(stderr, "gasnet_perf: %s could not be written completely\n", name);
        give_up();
    }
}

void report_figures(FILE *out, struct figures us) {
    fprintf(out, ", \"us\": %.6g, \"us_least\": %.6g, \"us_low\": %.6g, \"us_high\": %.6g", us.median, us.least, us.low,
            us.high);
}

static void write_json(FILE *out) {
    size_t i;
    fprintf(out, "{\"library\": \"%s\", \"conduit\": \"%s\", \"ranks\": %u, \"results\": [", GASNET_CONFIG_STRING,
            conduit_name(), (unsigned)np);
    for (i = 0; i < count; i++) {
        const struct result *r = &results[i];
        fprintf(out, "%s\n  {\"test\": \"%s\", \"bytes\": %zu, \"threads\": %d", i == 0 ? "" : ",", r->test->name,
                r->bytes, r->threads);
        report_figures(out, r->us);
        fprintf(out, ", \"per_second\": %.6g, \"mb_per_second\": %.6g", r->per_second, megabytes(r));
        if (r->limit > 0) fprintf(out, ", \"limit_us\": %.6g", r->limit);
        fprintf(out, "}");
    }
    fprintf(out, "\n]}\n");
}

static void write_html(void) {
    struct report report = {"this run", NULL};
    size_t size;
    FILE *text = open_memstream(&report.text, &size);
    if (text == NULL) give_up();
    write_json(text);
    fclose(text);
    html_write(html, &report, 1);
    free(report.text);
    report_close(html, options.html);
}

/* Two panels over the logarithm of the size: microseconds and MB/s. */
enum { WIDTH = 560, HEIGHT = 420, LEFT = 70, TOP = 40, GAP = 90, LEGEND = 170 };
static const char *const colours[] = {"#1b6ca8", "#c8553d", "#3a7d44", "#8d5a97", "#b8860b",
                                      "#2f4858", "#d1495b", "#00798c", "#7a9e1f", "#6b4c9a"};
enum { COLOURS = sizeof colours / sizeof colours[0] };

static double value_of(const struct result *r, int panel) { return panel == 0 ? r->us.median : megabytes(r); }

static void panel(FILE *out, int which, double left) {
    double low = HUGE_VAL, high = 0, x0 = HUGE_VAL, x1 = 0, floor_, ceiling, step;
    size_t i;
    int colour = -1, decade, power;
    const struct test *last = NULL;
    for (i = 0; i < count; i++) {
        double y = value_of(&results[i], which);
        if (!(results[i].test->flags & MANY_BYTES) || y <= 0) continue;
        if (y < low) low = y;
        if (y > high) high = y;
        if ((double)results[i].bytes < x0) x0 = (double)results[i].bytes;
        if ((double)results[i].bytes > x1) x1 = (double)results[i].bytes;
    }
    if (high <= 0) return;
    floor_ = floor(log10(low));
    ceiling = ceil(log10(high));
    if (ceiling <= floor_) ceiling = floor_ + 1;
    x0 = log2(x0);
    x1 = log2(x1);
    if (x1 <= x0) x1 = x0 + 1;
#define X(bytes) (left + (log2((double)(bytes)) - x0) / (x1 - x0) * WIDTH)
#define Y(value) (TOP + HEIGHT - (log10(value) - floor_) / (ceiling - floor_) * HEIGHT)
    fprintf(out, "<text x='%.0f' y='%d' font-weight='bold'>%s</text>\n", left, TOP - 14,
            which == 0 ? "microseconds" : "MB/s");
    for (decade = (int)floor_; decade <= (int)ceiling; decade++) {
        double y = Y(pow(10, decade));
        fprintf(out,
                "<line x1='%.0f' x2='%.0f' y1='%.1f' y2='%.1f' stroke='#ddd'/><text x='%.0f' y='%.1f' "
                "text-anchor='end'>%g</text>\n",
                left, left + WIDTH, y, y, left - 8, y + 4, pow(10, decade));
    }
    step = x1 - x0 > 12 ? 4 : x1 - x0 > 6 ? 2 : 1;
    for (power = (int)ceil(x0); power <= (int)x1; power += (int)step) {
        double x = left + (power - x0) / (x1 - x0) * WIDTH;
        fprintf(out,
                "<line x1='%.1f' x2='%.1f' y1='%d' y2='%d' stroke='#eee'/><text x='%.1f' y='%d' "
                "text-anchor='middle'>%s%d%s</text>\n",
                x, x, TOP, TOP + HEIGHT, x, TOP + HEIGHT + 18, "", 1 << (power % 10),
                power >= 30   ? "G"
                : power >= 20 ? "M"
                : power >= 10 ? "k"
                              : "");
    }
    for (i = 0; i < count; i++) {
        const struct result *r = &results[i];
        if (!(r->test->flags & MANY_BYTES) || value_of(r, which) <= 0) continue;
        if (r->test != last) {
            if (last != NULL) fprintf(out, "'/>\n");
            last = r->test;
            colour++;
            if (which == 1) {
                fprintf(out, "<text x='%.0f' y='%d' fill='%s'>%s</text>\n", left + WIDTH + 16, TOP + 14 + 17 * colour,
                        colours[colour % COLOURS], r->test->name);
            }
            fprintf(out, "<polyline fill='none' stroke-width='2' stroke='%s'%s points='", colours[colour % COLOURS],
                    colour >= COLOURS ? " stroke-dasharray='6 3'" : "");
        }
        fprintf(out, "%.1f,%.1f ", X(r->bytes), Y(value_of(r, which)));
    }
    fprintf(out, "'/>\n");
}

static void write_svg(void) {
    FILE *out = svg;
    int width = 2 * (LEFT + WIDTH) + GAP + LEGEND, height = TOP + HEIGHT + 60, curves = 0, needed;
    const struct test *last = NULL;
    size_t i;
    for (i = 0; i < count; i++) {
        if (!(results[i].test->flags & MANY_BYTES) || results[i].test == last) continue;
        last = results[i].test;
        curves++;
    }
    if (curves == 0) fprintf(stderr, "gasnet_perf: none of these tests has sizes: %s has no curves\n", options.svg);
    needed = TOP + 14 + 17 * curves + 40;
    if (height < needed) height = needed;
    fprintf(out,
            "<svg xmlns='http://www.w3.org/2000/svg' width='%d' height='%d' viewBox='0 0 %d %d' "
            "font-family='sans-serif' font-size='13'>\n",
            width, height, width, height);
    fprintf(out, "<rect width='100%%' height='100%%' fill='white'/>\n");
    panel(out, 0, LEFT);
    panel(out, 1, 2 * LEFT + WIDTH + GAP / 2);
    fprintf(
        out,
        "<text x='%d' y='%d' fill='#555'>gasnet_perf, conduit %s, %u ranks; horizontal axis: bytes</text>\n</svg>\n",
        LEFT, height - 14, conduit_name(), (unsigned)np);
    report_close(out, options.svg);
}

void report_end(void) {
    if (json != NULL) {
        write_json(json);
        report_close(json, options.json);
    }
    if (svg != NULL) write_svg();
    if (html != NULL) write_html();
    if (fflush(stdout) != 0 || ferror(stdout)) {
        fprintf(stderr, "gasnet_perf: standard output could not be written completely\n");
        give_up();
    }
    free(results);
}
