/* The page of --html: reports as JSON inside page.html, whose script draws them. */
#include "perf.h"

#include <stdlib.h>
#include <string.h>

/* The assembler looks for these files in its include folders: -Wa,-Iprograms. */
#define TEXT(name, file)                                                                       \
    __asm__(".pushsection .rodata\n" #name ":\n.incbin \"" file "\"\n.byte 0\n.popsection\n"); \
    extern const char name[] __attribute__((visibility("hidden")))
TEXT(perf_page, "perf/page.html");
TEXT(perf_style, "page/style.css");
TEXT(perf_helpers, "page/helpers.js");

/* The reports, whose text may contain the end tag of a script only within strings. */
static void put_reports(FILE *out, const struct report *reports, int count) {
    int i;
    const char *at;
    fputc('[', out);
    for (i = 0; i < count; i++) {
        fprintf(out, "%s{\"name\": \"", i == 0 ? "" : ",\n");
        for (at = reports[i].name; *at != '\0'; at++)
            fprintf(out, strchr("\"\\<", *at) || *at == '\n' ? "\\u%04x" : "%c", *at);
        fprintf(out, "\", ");
        for (at = strchr(reports[i].text, '{') + 1; *at != '\0'; at++) fprintf(out, *at == '<' ? "\\u%04x" : "%c", *at);
    }
    fputc(']', out);
}

void html_write(FILE *out, const struct report *reports, int count) {
    const char *at = perf_page, *mark;
    while ((mark = strstr(at, "/*")) != NULL) {
        fwrite(at, 1, (size_t)(mark - at), out);
        at = strstr(mark, "*/") + 2;
        if (strncmp(mark, "/*STYLE*/", 9) == 0) fputs(perf_style, out);
        if (strncmp(mark, "/*HELPERS*/", 11) == 0) fputs(perf_helpers, out);
        if (strncmp(mark, "/*REPORTS*/", 11) == 0) {
            put_reports(out, reports, count);
            at += 2; /* the empty array */
        }
    }
    fputs(at, out);
}

static struct report read_report(const char *name) {
    struct report report = {name, NULL};
    FILE *file = fopen(name, "r");
    size_t size = 0;
    if (file == NULL || getdelim(&report.text, &size, '\0', file) < 0 || fclose(file) != 0) {
        fprintf(stderr, "gasnet_perf: cannot read %s\n", name);
        perror("gasnet_perf");
        give_up();
    }
    if (report.text[0] != '{' || strstr(report.text, "\"per_second\": ") == NULL) {
        fprintf(stderr, "gasnet_perf: %s is no report that gasnet_perf --json has written of a job\n", name);
        give_up();
    }
    return report;
}

void html_compare(char *names, const char *to) {
    enum { MOST = 16 };
    struct report reports[MOST] = {{NULL, NULL}};
    FILE *out;
    char *word;
    int count = 0;
    for (word = strtok(names, ","); word != NULL; word = strtok(NULL, ",")) {
        if (count == MOST) {
            fprintf(stderr, "gasnet_perf: a page has %d reports at most\n", MOST);
            give_up();
        }
        reports[count++] = read_report(word);
    }
    out = report_file(to);
    html_write(out, reports, count);
    report_close(out, to);
    while (count-- > 0) free(reports[count].text);
}
