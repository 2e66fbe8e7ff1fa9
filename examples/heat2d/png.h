/* Writes a PNG without any library: 8-bit RGB, stored (uncompressed) deflate blocks. */
#ifndef HEAT2D_PNG_H
#define HEAT2D_PNG_H

/* `rgb` holds height rows of width pixels of 3 bytes, top row first. Returns 0, or -1 with errno
 * set. */
int png_write(const char *path, const unsigned char *rgb, unsigned width, unsigned height);

#endif
