// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.List;

/**
 * One entry of the state.
 *
 * @param index its number, by which it is read and written.
 * @param key its name, such as "w/0/factor.1" (the header of the library lists them).
 * @param shape extents in elements, outermost dim first.
 * @param dtype of the elements that are read and written.
 * @param flatOffset of an entry in the shape of its block: its first element within the flattened parameter; otherwise -1.
 * @param storedBytes bytes as kept in the arena.
 * @param symmetric whether it is a symmetric matrix, of which one triangle counts.
 * @param owner replica rank that holds it: this one.
 * @param shardOwner shard rank that holds it: this one.
 * @param ofShard whether its block is one of this rank's shard.
 */
public record StateEntry(
    long index, String key, List<Long> shape, DType dtype, long flatOffset, long storedBytes, boolean symmetric, int owner,
    int shardOwner, boolean ofShard) {
  /**
   * Number of elements: the product of the shape.
   *
   * @return at least 1.
   */
  public long elements() {
    return shape.stream().reduce(1L, (a, b) -> a * b);
  }
}
