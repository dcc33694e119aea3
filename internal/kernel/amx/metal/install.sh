#!/usr/bin/env bash
# Puts Bochs 3 of Debian 13, with its libraries and its own loader, into a folder; nothing else of the machine changes. Debian 12 has
# 2.7, which knows no AMX. Some 53 MB of packages: install.sh FOLDER
set -euo pipefail
mkdir -p "$(dirname "$1")"
folder=$(realpath -m "$1")
dir=$(mktemp -d "$folder.XXXXXX") # takes its name when it is whole
trap 'rm -rf "$dir"' EXIT
cd "$dir"
mkdir -p root lists/partial cache/archives/partial sources
# The machine's own source of packages, of another release.
awk 'BEGIN { RS = "" } NR == 1' /etc/apt/sources.list.d/debian.sources | grep -v '^#' |
  sed 's/^Suites:.*/Suites: trixie/; s/^Components:.*/Components: main/' >sources/trixie.sources
: >status
options=(-qq -o Dir::Etc::sourcelist=/dev/null -o "Dir::Etc::sourceparts=$dir/sources" -o "Dir::State::Lists=$dir/lists"
  -o "Dir::State::status=$dir/status" -o "Dir::Cache=$dir/cache" -o APT::Sandbox::User=root -o Debug::NoLocking=1
  -o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false -o Acquire::Languages=none)
apt-get "${options[@]}" update
apt-get "${options[@]}" -y --no-install-recommends --download-only install bochs bochs-term bochsbios vgabios libc6 >/dev/null
for package in cache/archives/*.deb; do
  case $package in
  */adwaita* | */libgtk-3-common* | */fonts-* | */iso-codes* | */perl* | */dpkg_* | */systemd_* | */dbus-* | */xkb-data* | */shared-mime* | */hicolor* | */gsettings* | */tzdata* | */debconf*) continue ;;
  esac
  # Packages lack some of these, which tar reports.
  dpkg-deb --fsys-tarfile "$package" | tar -x -C root --no-same-owner --wildcards --exclude='*/gconv/*' './usr/lib/x86_64-linux-gnu/*' \
    './lib/x86_64-linux-gnu/*' './usr/bin/bochs-bin' './usr/share/bochs/*' './usr/share/vgabios/*' 2>/dev/null || true
done
cat >bochs <<'EOF'
#!/bin/sh
root=$(dirname "$(readlink -f "$0")")/root
lib=$root/usr/lib/x86_64-linux-gnu
export LTDL_LIBRARY_PATH="$lib/bochs/plugins" BXSHARE="$root/usr/share/bochs" TERM=vt100
exec "$lib/ld-linux-x86-64.so.2" --library-path "$lib" "$root/usr/bin/bochs-bin" "$@"
EOF
chmod +x bochs
chmod 755 .
rm -rf lists cache sources status
mv -T "$dir" "$folder" || test -x "$folder/bochs" # another run may have been faster
