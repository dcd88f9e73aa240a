// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

/** Random numbers of the generator splitmix64. */
final class Random {
  private long state;

  Random(long seed) {
    state = seed;
  }

  /** Returns the next number, in [0, 1). */
  double uniform() {
    long z = state += 0x9e3779b97f4a7c15L;
    z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
    z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
    return ((z ^ (z >>> 31)) >>> 11) * 0x1p-53;
  }

  void shuffle(int[] rows) {
    for (int i = rows.length - 1; i > 0; --i) {
      int j = (int) (uniform() * (i + 1));
      int row = rows[i];
      rows[i] = rows[j];
      rows[j] = row;
    }
  }
}
