/* SPDX-License-Identifier: MIT */
/*
 * A batch program that knows nothing of Sidelane: it multiplies matrices, over and over.
 *
 *   gcc -O2 matmul.c -o matmul
 *   gcc -O2 -c -finstrument-functions matmul.c
 *   gcc matmul.o -lsidelane_runtime -o matmul-stepping-aside
 *
 * The second steps aside while critical work runs beside it: it looks at each row. With
 * -fsanitize-coverage=trace-pc it looks in each turn of the innermost loop, too, which costs far
 * more. clang does the same (give the options when compiling only).
 * Usage: matmul [SECONDS [SIZE]]; prints multiplications a second.
 */
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SIZE_MAX_ELEMENTS = 2048 };

static double now_s(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec + now.tv_nsec * 1e-9;
}

static void multiply_row(const double *row, const double *b, double *product, int size)
{
	for (int column = 0; column < size; column++) {
		double sum = 0;

		for (int i = 0; i < size; i++)
			sum += row[i] * b[i * size + column];
		product[column] = sum;
	}
}

static void multiply(const double *a, const double *b, double *product, int size)
{
	for (int row = 0; row < size; row++)
		multiply_row(a + row * size, b, product + row * size, size);
}

int main(int argc, char **argv)
{
	double seconds = argc > 1 ? atof(argv[1]) : 1;
	int size = argc > 2 ? atoi(argv[2]) : 128;
	double *matrices, began_s, took_s;
	long done = 0;
	size_t elements;

	if (size < 1 || size > SIZE_MAX_ELEMENTS) {
		fprintf(stderr, "matmul: the size has to be 1 to %d\n", SIZE_MAX_ELEMENTS);
		return 2;
	}
	elements = (size_t)size * size;
	matrices = malloc(3 * elements * sizeof(*matrices));
	if (!matrices) {
		fprintf(stderr, "matmul: no memory\n");
		return 1;
	}
	for (size_t i = 0; i < 2 * elements; i++)
		matrices[i] = i % 7 + 1;
	began_s = now_s();
	do {
		multiply(matrices, matrices + elements, matrices + 2 * elements, size);
		done++;
		took_s = now_s() - began_s;
	} while (took_s < seconds);
	printf("%.1f multiplications/s, the last element is %.0f\n", done / took_s,
	       matrices[3 * elements - 1]);
	free(matrices);
	return 0;
}
