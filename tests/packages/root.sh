# Copyright The libshampoo authors.
# SPDX-License-Identifier: Apache-2.0
#
# Functions for the tests in this folder. The tests run in a minimal Debian, and are skipped if debootstrap is missing
# or the user is not root.

skip() {
  echo "skipped: $1"
  exit 77
}

# make_root FOLDER: creates a minimal Debian in FOLDER, of the same release as this machine, unless FOLDER exists.
make_root() {
  [ "$(id -u)" -eq 0 ] || skip "creating a minimal Debian needs root"
  command -v debootstrap >/dev/null || skip "debootstrap is not installed"
  [ ! -d "$1" ] || return 0
  local codename mirror
  codename=$(sed -n 's/^VERSION_CODENAME=//p' /etc/os-release)
  mirror=$(apt-get indextargets --format '$(SITE)' "Codename: $codename" | head -n 1)
  rm -rf "$1.part"
  debootstrap --variant=minbase "$codename" "$1.part" "$mirror" >"$1.log" || { tail -n 20 "$1.log"; exit 1; }
  mv "$1.part" "$1"
}

# copy_root FOLDER: copies FOLDER, and sets the variable `root` to the path of the copy. The copy is deleted when the
# shell exits.
copy_root() {
  root=$(mktemp -d "$1.XXXXXX")
  trap 'rm -rf "$root"' EXIT
  cp -a "$1/." "$root"
}

# inside COMMAND: runs the command in the copy (chroot), with a minimal environment and with /proc mounted.
inside() {
  unshare --mount sh -c 'mount -t proc proc "$0/proc" && exec env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root \
    DEBIAN_FRONTEND=noninteractive chroot "$0" sh -ec "$1"' "$root" "$1"
}

# install PACKAGE...: installs packages in the copy. A package is a name in Debian's archive or a file in the copy.
install() {
  inside "apt-get -qq update && apt-get -qq install --no-install-recommends $* >/tmp/apt.log 2>&1 || { cat /tmp/apt.log; exit 1; }"
}

# code_of PAGE LANGUAGE [NUMBER]: prints code block NUMBER (default: 1) of PAGE, counting only blocks in LANGUAGE.
code_of() {
  awk -v start="\`\`\`$2" -v wanted="${3:-1}" '
    $0 == start && !open { open = 1; ++seen; next }
    open && /^```/ { open = 0; next }
    open && seen == wanted' "$1"
}
