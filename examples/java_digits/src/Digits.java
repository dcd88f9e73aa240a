// Copyright The libshampoo authors.
// SPDX-License-Identifier: Apache-2.0

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;

/**
 * The images and their labels. Their file begins with "digits8\n". The numbers of training images and of test images
 * follow, 2 bytes each, little-endian. The rest of the file has 65 bytes for each image: 64 pixels, from 0 (paper) to
 * 16 (ink), and the label. The array {@code images} holds the pixels divided by 16.
 */
final class Digits {
  private static final int INK = 16;

  final int trainCount;
  final int testCount;
  final double[] images;
  final int[] labels;

  Digits(String path) {
    try (DataInputStream in = new DataInputStream(Files.newInputStream(Path.of(path)))) {
      String head = new String(in.readNBytes(8), StandardCharsets.ISO_8859_1);
      if (!head.equals("digits8\n")) {
        throw new Failure(path + " does not begin with \"digits8\"; expected a file that make_digits.py wrote");
      }
      trainCount = in.readUnsignedByte() + 256 * in.readUnsignedByte();
      testCount = in.readUnsignedByte() + 256 * in.readUnsignedByte();
      int count = trainCount + testCount;
      images = new double[count * Network.INPUTS];
      labels = new int[count];
      byte[] all = in.readAllBytes();
      if (all.length != count * (Network.INPUTS + 1)) {
        throw new EOFException("it has " + all.length + " bytes of images; expected " + count + " images of 65 bytes");
      }
      for (int i = 0, at = 0; i < count; ++i) {
        for (int pixel = 0; pixel < Network.INPUTS; ++pixel) {
          images[i * Network.INPUTS + pixel] = (double) checked(path, i, all[at++], INK) / INK;
        }
        labels[i] = checked(path, i, all[at++], Network.CLASSES - 1);
      }
    } catch (NoSuchFileException error) {
      throw new Failure(path + " does not exist; pass the file of the images with --data");
    } catch (IOException error) {
      throw new Failure(path + " cannot be read: " + error.getMessage());
    }
  }

  private static int checked(String path, int image, int value, int most) {
    if (value < 0 || value > most) {
      throw new Failure(path + ": image " + image + " has the value " + value + "; expected 0 to " + most);
    }
    return value;
  }

  /** Copies images to x, and their labels to labelsOut. Image r of x is the image with index rows[first + r]. */
  void gather(int[] rows, int first, int count, double[] x, int[] labelsOut) {
    for (int r = 0; r < count; ++r) {
      System.arraycopy(images, rows[first + r] * Network.INPUTS, x, r * Network.INPUTS, Network.INPUTS);
      labelsOut[r] = labels[rows[first + r]];
    }
  }
}
