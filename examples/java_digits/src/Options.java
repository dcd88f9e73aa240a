// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.util.ArrayList;
import java.util.List;

/** The command line. */
final class Options {
  private static final String HELP =
      """
      usage: java -cp CLASSES:libshampoo.jar Train [option value]...

      Trains a 64-128-64-10 network on handwritten digits twice, from the same weights and on the same batches: once
      with Shampoo (with grafting from Adam), and once with AdamW. Prints losses and accuracies.

        --epochs N           passes over the training images (25)
        --batch N            images per step (64)
        --lr X               learning rate of Shampoo at the start (0.03); it falls to 0 along half a cosine
        --adamw-lr X         learning rate of AdamW at the start (0.03); it falls in the same way
        --weight-decay X     decoupled weight decay of both optimizers (0.1)
        --threads N          threads of a Shampoo step; 0 (the default) selects as many as are useful
        --seed N             seed of the initial weights and of the order of the images (1)
        --set KEY=VALUE      sets a hyper-parameter of libshampoo (docs/keys.md lists them); may be repeated
        --data FILE          file of the images (../c_mlp/data/digits.bin)
        --csv FILE           file for the curves (curves.csv), which ../plot.py draws; if FILE is "", no file is written
        --step-losses FILE   file for the loss of each step, which is computed before the update
        --help               this text
      """;

  int epochs = 25;
  int batch = 64;
  double adamwLr = 0.03;
  double weightDecay = 0.1;
  int seed = 1;
  String data = "../c_mlp/data/digits.bin";
  String csv = "curves.csv";
  String stepLosses = "";

  /** Hyper-parameters of libshampoo, KEY=VALUE; a later value of a key replaces an earlier one. */
  final List<String> settings =
      new ArrayList<>(List.of("lr=0.03", "weight_decay=0.1"));

  /** Returns the options. If an argument is --help, prints the help and returns null. */
  static Options parse(String[] args) {
    Options options = new Options();
    for (int i = 0; i < args.length; i += 2) {
      if (args[i].equals("--help")) {
        System.out.print(HELP);
        return null;
      }
      if (i + 1 == args.length) {
        throw new Failure(args[i] + " is unknown or has no value; see --help");
      }
      options.take(args[i], args[i + 1]);
    }
    return options;
  }

  private void take(String name, String value) {
    switch (name) {
      case "--epochs" -> epochs = integer(name, value, 1);
      case "--batch" -> batch = integer(name, value, 1);
      case "--lr" -> settings.add("lr=" + value);
      case "--adamw-lr" -> adamwLr = number(name, value);
      case "--weight-decay" -> {
        weightDecay = number(name, value);
        settings.add("weight_decay=" + value);
      }
      case "--threads" -> settings.add("threads=" + value);
      case "--seed" -> seed = integer(name, value, 0);
      case "--set" -> settings.add(value);
      case "--data" -> data = value;
      case "--csv" -> csv = value;
      case "--step-losses" -> stepLosses = value;
      default -> throw new Failure("there is no option " + name + "; see --help");
    }
  }

  private static double number(String name, String text) {
    try {
      double value = Double.parseDouble(text);
      if (value >= 0 && value < Double.POSITIVE_INFINITY) {
        return value;
      }
    } catch (NumberFormatException error) {
      // Reported below.
    }
    throw new Failure(name + ": \"" + text + "\" is not a number of at least 0");
  }

  private static int integer(String name, String text, int least) {
    try {
      int value = Integer.parseInt(text);
      if (value >= least) {
        return value;
      }
    } catch (NumberFormatException error) {
      // Reported below.
    }
    throw new Failure(name + ": \"" + text + "\" is not an integer of at least " + least);
  }
}
