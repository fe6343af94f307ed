/* Reads the hundred digits that lie in libdigits.a, and counts how many it reads rightly. */
#include <stdio.h>
#include <stdlib.h>

#include "digits.h"

enum { COUNT = 100, PIXELS = DIGITS_INPUT_COUNT(), DIGITS = DIGITS_OUT0_COUNT() };

/* data.S puts these into the library; the weights lie at an address divisible by 64, as digits_run wants them. */
extern const unsigned char digits_weights[], digits_images[COUNT][PIXELS], digits_labels[COUNT];

int main(void) {
  const int64_t no_dims[1] = {0};
  if (!digits_check_weights(digits_weights, DIGITS_WEIGHTS_SIZE)) {
    fputs("the weights in this program are damaged\n", stderr);
    return 1;
  }
  const size_t size = ((size_t)digits_workspace_size(no_dims) + 63) / 64 * 64;
  void *workspace = aligned_alloc(64, size);
  if (!workspace) {
    fputs("not enough memory\n", stderr);
    return 1;
  }
  int right = 0;
  for (int k = 0; k < COUNT; k++) {
    float image[PIXELS], chances[DIGITS];
    for (int i = 0; i < PIXELS; i++) image[i] = (float)digits_images[k][i] / 255.0f;
    if (digits_call(digits_weights, workspace, image, chances)) {
      fprintf(stderr, "digit %d could not be read\n", k);
      return 1;
    }
    int best = 0;
    for (int d = 1; d < DIGITS; d++)
      if (chances[d] > chances[best]) best = d;
    right += best == digits_labels[k];
  }
  printf("%d of %d\n", right, COUNT);
  free(workspace);
  return 0;
}
