#include "png.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A chunk under construction: the CRC covers its type and data. */
typedef struct {
    FILE *file;
    uint32_t crc;
} chunk_t;

static uint32_t crc_update(uint32_t crc, const unsigned char *bytes, size_t count) {
    while (count--) {
        crc ^= *bytes++;
        for (int bit = 0; bit < 8; bit++) crc = crc & 1 ? crc >> 1 ^ 0xEDB88320u : crc >> 1;
    }
    return crc;
}

static void big_endian(unsigned char *out, uint32_t value) {
    for (int i = 0; i < 4; i++) out[i] = (unsigned char)(value >> (24 - 8 * i));
}

static void chunk_bytes(chunk_t *chunk, const void *bytes, size_t count) {
    chunk->crc = crc_update(chunk->crc, (const unsigned char *)bytes, count);
    fwrite(bytes, 1, count, chunk->file);
}

static void chunk_begin(chunk_t *chunk, FILE *file, const char *type, uint32_t length) {
    unsigned char word[4];
    big_endian(word, length);
    fwrite(word, 1, 4, file);
    chunk->file = file;
    chunk->crc = 0xFFFFFFFFu;
    chunk_bytes(chunk, type, 4);
}

static void chunk_end(chunk_t *chunk) {
    unsigned char word[4];
    big_endian(word, ~chunk->crc);
    fwrite(word, 1, 4, chunk->file);
}

/* One row as one stored deflate block: its filter byte (0: none) and its pixels. */
static void stored_row(chunk_t *chunk, const unsigned char *pixels, uint16_t count, int last, uint32_t adler[2]) {
    uint16_t length = (uint16_t)(count + 1);
    unsigned char head[6] = {(unsigned char)last,    (unsigned char)length,         (unsigned char)(length >> 8),
                             (unsigned char)~length, (unsigned char)(~length >> 8), 0};
    chunk_bytes(chunk, head, 6);
    chunk_bytes(chunk, pixels, count);
    adler[1] = (adler[1] + adler[0]) % 65521; /* the filter byte is 0 */
    for (unsigned i = 0; i < count; i++) {
        adler[0] = (adler[0] + pixels[i]) % 65521;
        adler[1] = (adler[1] + adler[0]) % 65521;
    }
}

int png_write(const char *path, const unsigned char *rgb, unsigned width, unsigned height) {
    static const unsigned char signature[8] = {0x89, 'P', 'N', 'G', '\r', '\n', 0x1A, '\n'};
    unsigned char header[13] = {0, 0, 0, 0, 0, 0, 0, 0, 8, 2, 0, 0, 0}; /* 8 bits, RGB */
    unsigned char word[4];
    uint32_t adler[2] = {1, 0};
    chunk_t chunk;
    if (width == 0 || height == 0 || width > 65534 / 3 || height > 65535) return -1; /* a row is one stored block */
    FILE *file = fopen(path, "wb");
    if (!file) return -1;

    fwrite(signature, 1, sizeof signature, file);
    big_endian(header, width);
    big_endian(header + 4, height);
    chunk_begin(&chunk, file, "IHDR", sizeof header);
    chunk_bytes(&chunk, header, sizeof header);
    chunk_end(&chunk);

    chunk_begin(&chunk, file, "IDAT", 2 + height * (6 + 3 * width) + 4);
    chunk_bytes(&chunk, "\x78\x01", 2); /* zlib: 32 KiB window, no dictionary */
    for (unsigned y = 0; y < height; y++)
        stored_row(&chunk, rgb + (size_t)y * width * 3, (uint16_t)(width * 3), y == height - 1, adler);
    big_endian(word, adler[1] << 16 | adler[0]);
    chunk_bytes(&chunk, word, 4);
    chunk_end(&chunk);

    chunk_begin(&chunk, file, "IEND", 0);
    chunk_end(&chunk);
    int failed = ferror(file);
    return fclose(file) != 0 || failed ? -1 : 0;
}
