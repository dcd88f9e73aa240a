// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
package io.github.libshampoo;

import java.util.List;

/**
 * A block: a part of one parameter with its own states.
 *
 * @param param index of the parameter.
 * @param owner replica rank that stores the state of the block.
 * @param shardOwner shard rank that stores the state of the block.
 * @param ofShard true for a block of this rank's shard, which is only a part of the parameter. False for a block of the
 *     whole parameter.
 * @param shape shape of the block. If dim k has a factor matrix, the matrix is shape[k] x shape[k].
 * @param stride stride of each dim, in elements of the flattened parameter or, if ofShard is true, of this rank's
 *     buffer.
 * @param flatOffset index of the first element of the block in the flattened parameter or, if ofShard is true, in this
 *     rank's buffer.
 * @param stateBytes size of the state of the block, in bytes.
 */
public record Block(
    int param, int owner, int shardOwner, boolean ofShard, List<Long> shape, List<Long> stride, long flatOffset,
    long stateBytes) {}
