// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.List;

/**
 * Description of an entry, which is one array of the optimizer's state.
 *
 * @param index number of the entry.
 * @param key name of the entry, such as "w/0/factor.1"; docs/checkpoints.md lists the names.
 * @param shape shape in elements, outermost dim first.
 * @param dtype type of the elements that are read and written.
 * @param flatOffset index of the block's first element in the flattened parameter, if the elements of the entry
 *     correspond to the elements of its block. -1 for all other entries, such as entries whose elements are coordinates
 *     in an eigenbasis.
 * @param storedBytes size in the arena in bytes.
 * @param symmetric whether the entry is a symmetric matrix. The arena may store only one triangle of such a matrix.
 * @param owner replica rank that stores the entry. It is always the replica rank of this optimizer.
 * @param shardOwner shard rank that stores the entry. It is always the shard rank of this optimizer.
 * @param ofShard true if the entry is a state of a block whose {@link Block#ofShard} is true, false for all other
 *     entries.
 */
public record StateEntry(
    long index, String key, List<Long> shape, DType dtype, long flatOffset, long storedBytes, boolean symmetric, int owner,
    int shardOwner, boolean ofShard) {
  /**
   * Returns the number of elements, which is the product of the shape.
   *
   * @return the number of elements, at least 1.
   */
  public long elements() {
    return shape.stream().reduce(1L, (a, b) -> a * b);
  }
}
