#!/usr/bin/env bash
# Makes a Debian package from a built program: packaging/package.sh PROGRAM FOLDER. Prints the path of the package.
set -euo pipefail
program=$(realpath "$1")
mkdir -p "$2"
out=$(realpath "$2")
here=$(cd "$(dirname "$0")" && pwd)
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

version=$("$program" --version | awk '{ print $2 }')
architecture=$(dpkg --print-architecture)
tree=$work/tree
doc=$tree/usr/share/doc/trapkey
umask 022
mkdir -p "$tree/DEBIAN" "$tree/etc/trapkey" "$tree/usr/bin" "$tree/usr/lib/systemd/system" "$doc/examples"

install -m 0755 "$program" "$tree/usr/bin/trapkey"
strip --strip-unneeded --remove-section=.comment "$tree/usr/bin/trapkey"
install -m 0644 "$here"/systemd/*.service "$tree/usr/lib/systemd/system/"

# The commented configuration, with everything that is written below /var/lib/trapkey.
(cd "$work" && "$program" --config trapkey.toml config init >/dev/null)
sed -E -e 's#"(var|pki)/#"/var/lib/trapkey/\1/#' -e 's#^register = "pki"#register = "/var/lib/trapkey/pki"#' "$work/trapkey.toml" \
    > "$tree/etc/trapkey/trapkey.toml"
echo /etc/trapkey/trapkey.toml > "$tree/DEBIAN/conffiles"

cp -r "$here/../examples/batch-plant" "$doc/examples/"
install -m 0644 "$here/debian/README.Debian" "$doc/README.Debian"
{
    printf 'Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\nUpstream-Name: trapkey\n\n'
    printf 'Files: *\nCopyright: the Trapkey authors\nLicense: Apache-2.0\n On Debian systems the licence is in /usr/share/common-licenses/Apache-2.0.\n'
} > "$doc/copyright"
printf 'trapkey (%s) unstable; urgency=medium\n\n  * See CHANGELOG.md of the source.\n\n -- Trapkey <trapkey@localhost>  %s\n' \
    "$version" "$(date -R -u -d "@${SOURCE_DATE_EPOCH:-0}")" | gzip -9n > "$doc/changelog.gz"
find "$doc/examples" -type f -exec chmod 0644 {} +

for script in postinst prerm postrm; do
    install -m 0755 "$here/debian/$script" "$tree/DEBIAN/$script"
done
# The libraries that the program was linked with say which versions it needs.
mkdir -p "$work/debian"
printf 'Source: trapkey\n\nPackage: trapkey\nArchitecture: any\n' > "$work/debian/control"
depends="libc6, libgcc-s1"
if command -v dpkg-shlibdeps >/dev/null; then
    found=$(cd "$work" && dpkg-shlibdeps -O "$tree/usr/bin/trapkey" 2>/dev/null | sed -n 's/^shlibs:Depends=//p') || found=
    depends=${found:-$depends}
fi
cat > "$tree/DEBIAN/control" <<CONTROL
Package: trapkey
Version: $version
Architecture: $architecture
Maintainer: Trapkey <trapkey@localhost>
Installed-Size: $(du -k -s --exclude=DEBIAN "$tree" | cut -f1)
Depends: $depends, passwd
Section: net
Priority: optional
Description: zero-trust access to OPC UA servers
 Decides who may do what in a plant, and in which production step; enforces it
 in OPC UA servers of its own and in front of those that a plant has; keeps a
 signed record of both.
CONTROL
(cd "$tree" && find . -path ./DEBIAN -prune -o -type f -printf '%P\0' | sort -z | xargs -0 md5sum > DEBIAN/md5sums)
# The same input makes the same package.
find "$tree" -exec touch --no-dereference --date="@${SOURCE_DATE_EPOCH:-0}" {} +
package=$out/trapkey_${version}_${architecture}.deb
dpkg-deb --root-owner-group "-Z${TRAPKEY_DEB_COMPRESSION:-xz}" --build "$tree" "$package" >/dev/null
echo "$package"
