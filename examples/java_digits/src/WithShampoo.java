// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.nio.DoubleBuffer;
import java.util.List;
import io.github.libshampoo.Config;
import io.github.libshampoo.DType;
import io.github.libshampoo.Optimizer;
import io.github.libshampoo.Param;
import io.github.libshampoo.Plan;

/** The calls to libshampoo: config, plan, optimizer, bind, step. */
final class WithShampoo implements AutoCloseable {
  final double lr;
  final long stateBytes;
  private final Optimizer optimizer;

  WithShampoo(Network net, List<String> settings) {
    // 1. The hyper-parameters.
    try (Config config = new Config()) {
      for (String setting : settings) {
        int equals = setting.indexOf('=');
        if (equals < 0) {
          throw new Failure("--set \"" + setting + "\": expected KEY=VALUE");
        }
        config.set(setting.substring(0, equals), setting.substring(equals + 1));
      }
      // 2. The shapes of the parameters.
      try (Plan plan = new Plan(config)) {
        for (int t = 0; t < Network.NAMES.length; ++t) {
          plan.addParam(new Param(Network.NAMES[t], Network.SHAPES[t]).dtype(DType.F64));
        }
        stateBytes = plan.finish().bytes("state");
        // 3. The optimizer. It allocates everything here; steps allocate nothing.
        optimizer = new Optimizer(plan);
      }
    }
    lr = optimizer.lr();
    // 4. The buffers of parameters and gradients. Their addresses never change, so the buffers are bound only once.
    for (int t = 0; t < Network.NAMES.length; ++t) {
      optimizer.bind(t, part(net.params, t), part(net.grads, t));
    }
  }

  private static DoubleBuffer part(DoubleBuffer all, int tensor) {
    return all.slice(Network.offset(tensor), Network.size(tensor));
  }

  void step(double rate) {
    optimizer.setLr(rate);
    optimizer.step();
  }

  long roots() {
    return (long) optimizer.stat("root_computed");
  }

  @Override
  public void close() {
    optimizer.close();
  }
}
