// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.List;

/**
 * A preconditioned block: a part of one parameter with factor matrices of its own.
 *
 * @param param index of the parameter.
 * @param owner replica rank that keeps its state.
 * @param shardOwner shard rank that keeps it.
 * @param ofShard whether it is a block of this rank's shard; otherwise one of the whole parameter.
 * @param shape extents in elements; the factor of dim k is shape[k] x shape[k].
 * @param stride from one index to the next along each dim, in elements of the flattened parameter, or with ofShard of
 *     this rank's buffer.
 * @param flatOffset first element of the block, counted in the same way.
 * @param stateBytes bytes of its state.
 */
public record Block(
    int param, int owner, int shardOwner, boolean ofShard, List<Long> shape, List<Long> stride, long flatOffset,
    long stateBytes) {}
