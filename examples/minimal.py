# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
import libshampoo
import numpy as np

w = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
opt = libshampoo.Optimizer({"w": w}, lr=0.1)
for _ in range(200):
    opt.step({"w": w.copy()})  # the gradient of |w|^2 / 2
print("w =", w)
