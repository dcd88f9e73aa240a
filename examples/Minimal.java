// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0
import io.github.libshampoo.*;
import java.nio.FloatBuffer;

public final class Minimal {
  public static void main(String[] args) {
    FloatBuffer w = Shampoo.floats(6).put(0, new float[] {1, 2, 3, 4, 5, 6}), g = Shampoo.floats(6);
    try (Optimizer opt = Optimizer.create("lr=0.1", new Tensor("w", w, g, 2, 3))) {
      for (int step = 0; step < 200; ++step) {
        g.put(0, w, 0, 6); // the gradient of |w|^2 / 2
        opt.step();
      }
    }
    for (int i = 0; i < 6; ++i) System.out.println("w[" + i + "] = " + w.get(i));
  }
}
