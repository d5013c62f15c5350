/* SPDX-License-Identifier: GPL-2.0-only */
/* The multiplication of examples/matmul.c, for batch processes that step aside: see build.rs. */
#define main matmul_main
#include "../../../examples/matmul.c"
#undef main

void sidelane_demo_multiply(const double *a, const double *b, double *product, int size);

void sidelane_demo_multiply(const double *a, const double *b, double *product, int size)
{
	multiply(a, b, product, size);
}
