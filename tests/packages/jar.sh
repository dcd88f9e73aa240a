#!/usr/bin/env bash
# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
# jar.sh ROOT JAR SOURCE: tests the jar. ROOT is the minimal Debian that root.sh creates, and the tests run in a copy of
# it, with a JDK. SOURCE is the repository. Checks that the first program of docs/java.md compiles and runs.
set -euo pipefail
source "$(dirname "$0")/root.sh"
make_root "$1"
copy_root "$1"
mkdir "$root/packages" "$root/program"
cp "$2" "$root/packages/libshampoo.jar"
code_of "$3/docs/java.md" java 1 >"$root/program/Minimal.java"
install openjdk-17-jdk-headless
inside 'cd /program && javac -cp /packages/libshampoo.jar Minimal.java && java -cp /packages/libshampoo.jar:. Minimal'
[ -z "$(find "$root/tmp" -name '*shampoo*')" ] || { echo 'unpacked libraries are left in /tmp'; exit 1; }
inside 'cd /program && jar -tf /packages/libshampoo.jar' >"$root/program/content"
for file in LICENSE THIRD_PARTY_NOTICES; do
  grep -q "META-INF/$file" "$root/program/content" || { echo "the jar has no $file"; exit 1; }
done
